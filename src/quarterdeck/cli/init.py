"""``quarterdeck init``: the first four decisions in a project; each can be skipped."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quarterdeck.config.places import Places
from quarterdeck.policy.modes import MODE_MEANINGS, MODES

from .output import echo, escape_to_line

if TYPE_CHECKING:
    from quarterdeck.config.loader import Config
    from quarterdeck.fleet.client import HostClient
    from quarterdeck.workbench.stores.discovery import MachineDiscovery

__all__ = ["init"]

_STEPS = 4
_SKIP = "s"
_NATIVE = "native"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choices:
    """What was given on the command line, and where it applies."""

    places: Places
    directory: Path
    is_asked: bool
    agent: str | None
    model: str | None
    trust: bool | None
    mode: str | None
    prompt: str | None


@click.command(
    epilog="Without a terminal, or with --yes, only what the options say is done. `quarterdeck "
    "config show` shows the settings, and where each comes from."
)
@click.option("-a", "--agent", metavar="NAME", help="The agent of the first prompt.")
@click.option("-m", "--model", help="Set the model of our own agent, as vendor/id.")
@click.option("--trust/--no-trust", default=None, help="Trust this project, or do not ask.")
@click.option("--mode", type=click.Choice(MODES), help="Set what agents may do without asking.")
@click.option("-p", "--prompt", metavar="TEXT", help="Start the agent on this prompt.")
@click.option("-y", "--yes", is_flag=True, help="Ask nothing.")
def init(yes: bool, **given: Any) -> None:
    """Get started in this project: agent, trust, mode, first prompt.

    Shows which agents and API keys are found, asks whether you trust the project, sets the mode,
    and starts an agent on your first prompt. Each step can be skipped. Settings go into your own
    file, and only those that you choose.
    """
    choices = _Choices(
        places=Places.find(),
        directory=_here(),
        is_asked=not yes and sys.stdin.isatty() and sys.stdout.isatty(),
        **given,
    )
    agent = _choose_agent(choices)
    _decide_trust(choices)
    _choose_mode(choices)
    if choices.is_asked:
        _note_steps(choices.places)
    raise SystemExit(_start_agent(choices, agent))


def _note_steps(places: Places) -> None:
    """The workbench does not ask the same again."""
    from quarterdeck.workbench.preferences.store import note_first_steps
    from quarterdeck.workbench.stores.home import FIRST_STEPS

    with suppress(OSError):
        note_first_steps(places, FIRST_STEPS)


def _here() -> Path:
    from .command_io import resolve_directory

    return Path(resolve_directory(None))


def _head(number: int, title: str) -> None:
    echo(f"{'' if number == 1 else chr(10)}{number} of {_STEPS} · {title}")


def _choose_agent(choices: _Choices) -> str:
    """Step 1: what is found, and which agent gets the first prompt."""
    from quarterdeck.drivers.catalogue import find_agent
    from quarterdeck.workbench.first_run import discover_machine

    _head(1, "Agent")
    found = discover_machine(choices.places, os.environ)
    for line in _describe_machine(found):
        echo(f"  {line}")
    here = [one.name for one in found.agents if one.is_here]
    default = choices.agent or (_NATIVE if found.keys or not here else here[0])
    if choices.agent is not None:
        default = find_agent(choices.agent, choices.places).name
    elif choices.is_asked:
        default = _ask("Agent for the first prompt", [_NATIVE, *here], default) or default
    if choices.model is not None:
        _write(choices, "model", choices.model)
    echo(f"  first prompt: {default}")
    return default


def _describe_machine(found: "MachineDiscovery") -> Iterator[str]:
    logins = {"yes": "logged in", "no": "not logged in", "unknown": "login unknown"}
    here = [one for one in found.agents if one.is_here]
    for one in here:
        yield f"found {one.name}: {one.title}, {logins[one.login]}"
    for key in found.keys:
        yield f"found {key}: our own agent can use it"
    if here or found.keys:
        return
    yield "no agent and no API key found; `quarterdeck tutorial` needs neither"
    for one in found.agents[:3]:
        if one.install:
            yield f"install {one.title}: {escape_to_line(one.install)}"


def _decide_trust(choices: _Choices) -> None:
    """Step 2: whether the files of the project may take effect."""
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.fleet.permissions.workspace_trust import inspect_workspace_trust

    _head(2, "Trust")
    known = inspect_workspace_trust(choices.places, os.environ, choices.directory)
    root = Path(known.root)
    if known.state == "trusted":
        echo(f"  {escape_to_line(known.root)} is trusted")
        return
    for effect in known.acts:
        echo(f"  {escape_to_line(effect.path)} {escape_to_line(effect.what)}")
    if known.state == "plain" and not choices.trust:
        echo(f"  {escape_to_line(known.root)} has no files that need trust")
        return
    is_trusted = choices.trust
    if is_trusted is None and choices.is_asked:
        is_trusted = _ask("Trust this project, so that these take effect", ("y", "n"), "n") == "y"
    if is_trusted:
        TrustStore(choices.places.trust_file).trust(root)
        echo(f"  trusted: {escape_to_line(known.root)}")
    else:
        echo("  not trusted; `quarterdeck config trust` changes it")


def _choose_mode(choices: _Choices) -> None:
    """Step 3: what agents may do without asking."""
    _head(3, "Mode")
    now = _load(choices)
    mode = choices.mode
    if mode is None and choices.is_asked:
        for name in MODES:
            echo(f"  {name:<13} {MODE_MEANINGS[name]}")
        chosen = _ask("Mode", MODES, now.settings.mode)
        mode = chosen if chosen != now.settings.mode else None
    if mode is not None:
        from quarterdeck.workbench.first_run import set_mode

        path = set_mode(choices.places, mode)
        echo(f"  wrote mode = {mode} to {escape_to_line(str(path))}")
        now = _load(choices)
    source = now.source("mode")
    where = " ".join(part for part in (source.layer, source.place) if part)
    echo(f"  mode: {now.settings.mode} ({escape_to_line(where)})")


def _load(choices: _Choices) -> "Config":
    from quarterdeck.config.loader import load_config
    from quarterdeck.config.trust import TrustStore
    from quarterdeck.config.workspace import find_workspace

    project = find_workspace(choices.directory).project
    trusted = TrustStore(choices.places.trust_file).is_trusted(project)
    return load_config(choices.places, directory=choices.directory, trusted=trusted)


def _write(choices: _Choices, key: str, value: str) -> None:
    from quarterdeck.config.writer import write_user_setting

    path = write_user_setting(choices.places, (key,), value)
    echo(f"  wrote {key} = {value} to {escape_to_line(str(path))}")


def _start_agent(choices: _Choices, agent: str) -> int:
    """Step 4: the first prompt; returns the exit code."""
    _head(4, "First prompt")
    prompt = choices.prompt
    if prompt is None and choices.is_asked:
        prompt = _ask("Prompt", (), "")
    if not prompt or not prompt.strip():
        echo(f'  skipped; later: quarterdeck spawn -a {agent} "…", or quarterdeck')
        return 0
    from .command_io import with_fleet

    words = prompt
    return with_fleet(lambda fleet: _spawn(fleet, choices, agent, words))


async def _spawn(fleet: "HostClient", choices: _Choices, agent: str, prompt: str) -> int:
    from quarterdeck.fleet.api import SpawnOptions
    from quarterdeck.wire.session_options import SessionOptions

    from .fleet.attach import follow_agent
    from .fleet.spawn import start_agent

    options = SessionOptions(agent=agent, cwd=str(choices.directory))
    starting = fleet.spawn(SpawnOptions(options=options, prompt=prompt))
    if not choices.is_asked:
        return await start_agent(fleet, starting, True, False)
    return await follow_agent(fleet, (await starting).session)


def _ask(question: str, allowed: Iterable[str], default: str) -> str | None:
    """What a person chooses; None if they skip it.

    Raises:
        click.Abort: Ctrl-C, or the end of input.
    """
    names = tuple(allowed)
    hint = f" ({', '.join(names)})" if names else ""
    shown = f" [{default}]" if default else ""
    while True:
        try:
            typed = input(f"  {question}{hint}{shown}, {_SKIP} skips: ").strip()
        except (EOFError, KeyboardInterrupt) as error:
            raise click.Abort from error
        if typed == _SKIP:
            return None
        chosen = typed or default
        if not names or chosen in names:
            return chosen
        echo(f"  {chosen!r} is not one of {', '.join(names)}")
