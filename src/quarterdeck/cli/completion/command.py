"""``quarterdeck completion``, and the answers to a shell that completes a command line.

A shell runs ``quarterdeck`` with ``_QUARTERDECK_COMPLETE`` set to its name and ``_complete``, and
the line before the cursor in ``COMP_WORDS``. Answers are quick, bounded in time, and silent about
every error: a message in the middle of a command line helps no one.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete, split_arg_string

from ..output import escape_to_line
from .names import NameKind, read_names

__all__ = ["SHELLS", "answer_shell", "completion"]

SHELLS = ("bash", "zsh", "fish")
_MOST_SECONDS = 3.0
_ARGUMENTS: dict[str, NameKind] = {
    "agent": "agent",
    "agents": "agent",
    "request_or_agent": "request",
    "session": "session",
    "terminal": "terminal",
    "terminals": "terminal",
    "trashed": "trash",
    "worktree": "worktree",
}
"""What the arguments of commands are, by their names."""
_OPTIONS: dict[str, NameKind] = {
    "agent": "vendor",
    "in_worktree": "worktree",
    "kind": "vendor",
    "fallback": "vendor",
    "model": "model",
    "other": "agent",
    "resume": "session",
    "session": "session",
}
_COMMANDS: dict[tuple[str, str], NameKind] = {
    ("agents", "name"): "vendor",
    ("login", "name"): "vendor",
    **{
        (command, "name"): "run"
        for command in ("approve", "pick", "reject", "report", "resume", "status", "stop")
    },
}
"""By the command too, where a name alone does not say it."""
_CHOICES = {"choice": (("allow", "once"), ("always", "this and the same"), ("deny", ""))}


@click.command(
    epilog='Example: add eval "$(quarterdeck completion bash)" to ~/.bashrc, or save the script '
    "where its first lines say."
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    It completes commands, options, files, and the names of agents, sessions, requests, worktrees,
    terminals, models and runs of plans, for quarterdeck and qd.
    """
    click.echo(_read_script(shell), nl=False)


def answer_shell(root: click.Command, program: str, instruction: str) -> int:
    """Answer a shell: ``SHELL_complete`` or ``SHELL_source``; returns the exit code."""
    shell, _, wanted = instruction.partition("_")
    if shell not in SHELLS or wanted not in ("source", "complete"):
        return 1
    if wanted == "source":
        click.echo(_read_script(shell), nl=False)
        return 0
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, _MOST_SECONDS)
    try:
        _drop_notices()
        line = os.environ.get("COMP_WORDS", "")
        for item in _complete(root, program, line):
            sys.stdout.write(_format(shell, item) + "\n")
        sys.stdout.flush()
    except Exception:
        # Whatever it was: the command itself says it when it is run.
        return 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _read_script(shell: str) -> str:
    return Path(__file__).with_name(f"quarterdeck.{shell}").read_text("utf-8")


def _give_up(number: int, frame: FrameType | None) -> None:
    os._exit(0)


def _drop_notices() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)


def _complete(root: click.Command, program: str, line: str) -> list[CompletionItem[str]]:
    words = split_arg_string(line)
    # A space at the end begins a word, unless it is quoted.
    is_new = len(split_arg_string(line + "x")) > len(words)
    incomplete = "" if is_new else words.pop()
    given = words[1:]
    name, equals, _ = incomplete.partition("=")
    is_joined = bool(equals) and name.startswith("--")
    _offer_names(root, given)
    found = ShellComplete(root, {}, program, "").get_completions(given, incomplete)
    if is_joined and _wants_whole_words():
        for item in found:
            item.value = f"{name}={item.value}"
    return found


def _wants_whole_words() -> bool:
    # Bash replaces what follows the equals sign; the others replace the word.
    return "bash_complete" not in (
        os.environ.get("_QUARTERDECK_COMPLETE"),
        os.environ.get("_QD_COMPLETE"),
    )


def _offer_names(root: click.Command, words: list[str]) -> None:
    """Let the parameters of the command that is being typed complete names."""
    command, context = root, click.Context(root, resilient_parsing=True)
    for word in words:
        if not isinstance(command, click.Group):
            break
        command = command.get_command(context, word) or command
    for parameter in command.params:
        key = parameter.name or ""
        if key in _CHOICES and isinstance(parameter, click.Argument):
            _complete_with(parameter, None, _CHOICES[key])
        elif kind := _find_kind(command, parameter, key):
            _complete_with(parameter, kind, ())


def _find_kind(command: click.Command, parameter: click.Parameter, key: str) -> NameKind | None:
    if found := _COMMANDS.get((command.name or "", key)):
        return found
    if isinstance(parameter, click.Argument):
        return _ARGUMENTS.get(key)
    is_flag = isinstance(parameter, click.Option) and parameter.is_flag
    return None if is_flag else _OPTIONS.get(key)


def _complete_with(
    parameter: click.Parameter, kind: NameKind | None, fixed: tuple[tuple[str, str], ...]
) -> None:
    def complete(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        given: Any = ctx.params.get(parameter.name or "")
        used: set[str] = set(given or ()) if parameter.nargs == -1 else set()
        pairs = dict(fixed if kind is None else _find_names(ctx, kind))
        if parameter.nargs == -1 and (last := ctx.params.get("choice")):
            # Click takes the last word for the choice: what is typed is another name, or this.
            used.add(last)
            pairs |= dict(_CHOICES["choice"])
        return [
            CompletionItem(name, help=escape_to_line(text) or None)
            for name, text in pairs.items()
            if name.startswith(incomplete) and name not in used and _is_plain(name)
        ]

    parameter.shell_complete = complete


def _find_names(ctx: click.Context, kind: NameKind) -> "list[tuple[str, str]]":
    """The names of a kind; a host on another machine is not asked for its own."""
    if ctx.find_root().params.get("host") is not None and kind not in ("vendor", "model"):
        return []
    return read_names(kind)


def _is_plain(name: str) -> bool:
    """Whether a shell can take it as it stands: names come from files that others may write."""
    return bool(name) and all(one.isalnum() or one in "-_./:@+~" for one in name)


def _format(shell: str, item: CompletionItem[str]) -> str:
    text = (item.help or "").replace("\n", " ")
    if shell == "zsh":
        return f"{item.type}\n{item.value}\n{text or '_'}"
    if shell == "fish" and text:
        return f"{item.type},{item.value}\t{text}"
    return f"{item.type},{item.value}"
