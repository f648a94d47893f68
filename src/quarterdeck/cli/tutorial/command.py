"""``quarterdeck tutorial``: a guided five minutes with real commands; no key needed."""

import re
import signal
import sys
import textwrap
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal, TypeAlias

import click

from quarterdeck.config.places import Places

from ..output import echo
from .scratch import ScratchSpace, TutorialError
from .steps import STEPS, TutorialStep

__all__ = ["tutorial"]

_WIDTH = 78
_KEYS = "Enter runs it · s skips the step · q quits · or type a command of your own"
_HELP = (
    "Enter runs the command that is shown.\n"
    "s does the rest of the step without showing it.\n"
    "a starts the step again with a fresh project.\n"
    "q quits; `quarterdeck tutorial` continues at this step.\n"
    "Anything else is a shell command in the tutorial's project, such as `git log`."
)
_ONLY_SHOWS = re.compile(
    r"quarterdeck (ps|inbox|diff|worktrees|conflicts|turns)\b|git (diff|log)\b"
)
"""Commands that need not run when they are not seen."""
StepEnd: TypeAlias = Literal["done", "again", "quit"]


@click.command()
@click.option("--list", "is_list", is_flag=True, help="List the steps and how far you are.")
@click.option(
    "--step",
    type=click.IntRange(1, len(STEPS)),
    metavar="N",
    help="Start at step N; 1 starts over.",
)
@click.option("-y", "--yes", is_flag=True, help="Run all steps without asking, and check them.")
@click.option("--end", is_flag=True, help="Forget how far you are; remove what was left behind.")
def tutorial(is_list: bool, step: int | None, yes: bool, end: bool) -> None:
    """Learn the main commands in five minutes; no key needed.

    You run real commands on real agents in a small project: approve an edit, give agents worktrees,
    see conflicts, review, land, undo. Only the model's words come from a script. The tutorial has a
    home and a host of its own and removes them at the end. If you quit, it continues where you
    were. Without a terminal it prints the steps.
    """
    scratch = ScratchSpace(Places.find().state / "tutorial")
    if is_list:
        _list_steps(scratch)
        return
    if not (end or yes or _is_interactive()):
        _print_steps()
        return
    with _exit_on_signals(), scratch.lock():
        if end:
            scratch.write_done(0)
            echo("the tutorial starts anew next time")
        elif yes:
            _play_all(scratch, (step or 1) - 1)
        else:
            _guide(scratch, scratch.read_done() if step is None else step - 1)


@contextmanager
def _exit_on_signals() -> Generator[None]:
    """Clean up also when the terminal is closed, or the process is to end."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {one: signal.signal(one, leave) for one in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _list_steps(scratch: ScratchSpace) -> None:
    done = scratch.read_done()
    for number, step in enumerate(STEPS, 1):
        echo(f"{'✓' if number <= done else ' '} {number}  {step.title}")


def _print_steps() -> None:
    echo("In a terminal, `quarterdeck tutorial` runs these steps with you; --yes runs them here.")
    for number, step in enumerate(STEPS, 1):
        echo(f"\n{number}. {step.title}\n")
        for line in _fill(step.text):
            echo(line)
        echo()
        for command in step.commands:
            echo(f"    $ {command}")


def _fill(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH, break_on_hyphens=False, break_long_words=False)


def _prepare(scratch: ScratchSpace, done: int) -> None:
    """Make a fresh project and do the first steps in it."""
    scratch.create()
    for number, step in enumerate(STEPS[:done], 1):
        echo(f"Preparing step {number} of {done}: {step.title}", err=True)
        _do_quietly(scratch, step.commands)
        _require(scratch, step, number)


def _do_quietly(scratch: ScratchSpace, commands: Iterable[str]) -> None:
    for command in commands:
        if not _ONLY_SHOWS.match(command):
            scratch.run(command, is_shown=False)


def _require(scratch: ScratchSpace, step: TutorialStep, number: int) -> None:
    if (problem := scratch.check(step)) is not None:
        raise TutorialError(
            f"step {number} has no effect: {problem}; `quarterdeck tutorial --step 1` starts anew"
        )
    scratch.write_done(number)


def _play_all(scratch: ScratchSpace, done: int) -> None:
    _prepare(scratch, done)
    for number, step in enumerate(STEPS[done:], done + 1):
        _show_step(number, step)
        for command in step.commands:
            echo(f"\n$ {command}")
            scratch.run(command)
        _require(scratch, step, number)
        echo(f"\n✓ {step.title}")
    scratch.write_done(0)
    echo("\nThe tutorial is done; everything it made is removed.")


def _guide(scratch: ScratchSpace, done: int) -> None:
    if done:
        echo(f"Step {done + 1} of {len(STEPS)}; `quarterdeck tutorial --step 1` starts anew.")
    _prepare(scratch, done)
    while done < len(STEPS):
        match _guide_step(scratch, done + 1, STEPS[done]):
            case "done":
                done += 1
                scratch.write_done(done)
            case "again":
                _prepare(scratch, done)
            case "quit":
                echo(f"\nYou are at step {done + 1}; `quarterdeck tutorial` continues there.")
                return
    echo("\nThat was the tutorial; everything it made is removed. Next:\n")
    echo("  quarterdeck init       choose an agent, a mode and a first prompt in your project")
    echo("  quarterdeck            open the workbench")
    echo("  quarterdeck --help     every command; each has a man page: man quarterdeck-spawn")


def _show_step(number: int, step: TutorialStep) -> None:
    echo(f"\n── {number} of {len(STEPS)} · {step.title} ──\n")
    for line in _fill(step.text):
        echo(line)


def _guide_step(scratch: ScratchSpace, number: int, step: TutorialStep) -> StepEnd:
    _show_step(number, step)
    echo(f"\n{_KEYS}")
    left = list(step.commands)
    while True:
        typed = _ask(left[0] if left else None)
        if typed in (None, "q"):
            return "quit"
        if typed == "a":
            return "again"
        if typed in ("?", "h"):
            echo(_HELP)
            continue
        left = _act(scratch, typed, left)
        if left:
            continue
        if (problem := scratch.check(step)) is None:
            echo(f"\n✓ {step.title}")
            return "done"
        echo(f"\nThis step is not done: {problem}. Type a command, or a to start it again.")


def _act(scratch: ScratchSpace, typed: str, left: list[str]) -> list[str]:
    """Run what the person wants; returns which commands of the step are left."""
    if typed == "s":
        _do_quietly(scratch, left)
        return []
    if typed:
        scratch.run(typed, has_input=True)
        return left[1:] if left and typed.split() == left[0].split() else left
    if left:
        scratch.run(left[0])
    return left[1:]


def _ask(command: str | None) -> str | None:
    """What the person typed; None: the end of input or Ctrl-C."""
    try:
        return input(f"\n$ {command or ''}").strip()
    except EOFError:
        return None
    except KeyboardInterrupt:
        return None
