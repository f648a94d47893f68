"""What ``quarterdeck`` without arguments does: the workbench on a terminal, else a greeting."""

import os
import shutil
import sys

from .output import echo

__all__ = ["AT_A_GLANCE", "greet", "is_terminal", "welcome"]

AT_A_GLANCE = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "OpenCode",
    "qwen": "Qwen Code",
    "cursor-agent": "Cursor",
    "goose": "Goose",
    "copilot": "GitHub Copilot CLI",
    "amp": "Amp",
    "aider": "Aider",
    "kimi": "Kimi Code",
    "auggie": "Auggie",
    "droid": "Droid",
    "vibe": "Mistral Vibe",
    "cline": "Cline",
}
"""Programs of well-known agents; the files of all take longer to read than a greeting may."""


def welcome(*, is_host_given: bool = False) -> int:
    """Open the workbench where there is a terminal for it, else greet; returns the exit code.

    ``is_host_given``: with the hosts of ``--host``; else with those of the settings, if any.
    """
    has_terminal = is_terminal()
    if is_host_given or (has_terminal and _may_name_hosts()):
        from .remote.host_option import open_remote_workbench

        code = open_remote_workbench(is_host_given=is_host_given, has_terminal=has_terminal)
        if code is not None:
            return code
    if has_terminal:
        from quarterdeck.system.late_module import delay_tls

        delay_tls()
        from quarterdeck.workbench.launch import open_workbench

        return open_workbench()
    greet()
    return 0


def _may_name_hosts() -> bool:
    """Whether the settings may say something of hosts; to read them takes longer than this."""
    from quarterdeck.config.places import Places

    try:
        return b"hosts" in Places.find().config_file.read_bytes()
    except OSError:
        return False


def is_terminal() -> bool:
    """Whether there is a terminal that a screen can be drawn on."""
    streams = (sys.stdin, sys.stdout, sys.stderr)  # the workbench draws on the last
    # A stream is None where it was closed before we started.
    has_both = all(stream is not None and stream.isatty() for stream in streams)  # pyright: ignore[reportUnnecessaryComparison]
    return has_both and os.environ.get("TERM", "") not in ("", "dumb")


def greet() -> None:
    """Say what this is, what is there at a glance, and what to do next. Starts no program."""
    found = [title for program, title in AT_A_GLANCE.items() if shutil.which(program)]
    tools = [name for name, program in (("git", "git"), ("ripgrep", "rg")) if shutil.which(program)]
    for line in (
        "Quarterdeck: command many coding agents, of any vendor, from one place.",
        "",
        f"  Agents found   {', '.join(found) or 'none yet'}",
        f"  Tools found    {', '.join(tools) or 'none'}",
        "",
        "  quarterdeck demo --yes    watch two agents work for a minute; needs no key",
        "  quarterdeck tutorial      learn the main commands in five minutes; needs no key",
        '  quarterdeck run "…"       our own agent on a prompt; -m scripted/default needs no key',
        "  quarterdeck agents        the known agents, and how to install them",
        "  quarterdeck doctor        what is installed, what is missing, how to install it",
        "  quarterdeck config show   your settings and where each comes from",
        "  quarterdeck --help        every command",
        "",
        _why_no_screen(),
    ):
        echo(line)


def _why_no_screen() -> str:
    if os.environ.get("TERM", "") in ("", "dumb"):
        return "The workbench needs a terminal that can draw; TERM names one that cannot."
    return "In a terminal, the workbench opens here."
