"""What ``quarterdeck`` without arguments says."""

import click

from .programs import AGENTS, GIT, RIPGREP

__all__ = ["welcome"]


def welcome() -> None:
    """Say what this is, what is there at a glance, and what to do next. Starts no program."""
    agents = [program.name for program in AGENTS if program.find()]
    tools = [program.name for program in (GIT, RIPGREP) if program.find()]
    for line in (
        "Quarterdeck: command many coding agents, of any make, from one place.",
        "",
        f"  Agents found   {', '.join(agents) or 'none yet'}",
        f"  Tools found    {', '.join(tools) or 'none'}",
        "",
        '  quarterdeck run "…"       our own agent on a prompt; -m scripted/default needs no key',
        "  quarterdeck doctor        what is installed, what is missing, how to get it",
        "  quarterdeck config show   your settings and where each comes from",
        "  quarterdeck --help        every command",
        "",
        "The workbench will open here; it is not built yet.",
    ):
        click.echo(line)
