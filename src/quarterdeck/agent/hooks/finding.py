"""The hooks that the configuration declares."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from quarterdeck.config.schema import HookSettings
from quarterdeck.policy.errors import PolicyError

from .hook import Hook, HookError
from .running import SessionHooks
from .seam import Point

if TYPE_CHECKING:
    from quarterdeck.config.layers import Placed
    from quarterdeck.config.load import Config
    from quarterdeck.policy.rules import Pattern

    from ..assembly import Ground

__all__ = ["POINTS", "declared", "session_hooks"]

POINTS: tuple[Point, ...] = get_args(Point)
_FOR_TOOLS = ("before_tool", "after_tool")
_LONGEST_NAME = 60


def session_hooks(ground: "Ground", environment: Mapping[str, str], session: str) -> SessionHooks:
    """Make the hooks of a session.

    Raises:
        HookError: one is declared wrongly.
    """
    return SessionHooks(
        declared(ground.config),
        session=session,
        cwd=ground.cwd,
        project=ground.project,
        environment=environment,
        most_continued=ground.settings.hooks.continue_at_most,
    )


def declared(config: "Config") -> dict[Point, tuple[Hook, ...]]:
    """The hooks of each point, in the order of their declaration, the user's own first.

    Raises:
        HookError: one is declared wrongly.
    """
    return {
        point: tuple(_hook(point, placed) for placed in found)
        for point in POINTS
        if (found := config.elements("hooks", point))
    }


def _hook(point: Point, placed: "Placed") -> Hook:
    settings = msgspec.convert(placed.value, HookSettings)
    where = placed.source.place or placed.source.layer
    if (settings.command is None) == (settings.python is None):
        raise HookError(f"a hook for {point!r} in {where} needs either 'command' or 'python'")
    if settings.match is not None and point not in _FOR_TOOLS:
        raise HookError(f"a hook for {point!r} in {where} has 'match', which is for tools only")
    name = settings.python or _shown(settings.command or "")
    return Hook(
        name=name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…",
        source=where,
        timeout=settings.timeout,
        argv=_argv(point, where, settings),
        target=settings.python or "",
        match=settings.match,
        pattern=_pattern(point, where, settings.match),
    )


def _shown(command: str | tuple[str, ...]) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _argv(point: Point, where: str, settings: HookSettings) -> tuple[str, ...]:
    command = settings.command
    if command is None:
        return ()
    if not command or not "".join(command).strip():
        raise HookError(f"a hook for {point!r} in {where} has an empty 'command'")
    if isinstance(command, str):
        return ("/bin/sh", "-c", command)
    return (_program(command[0]), *command[1:])


def _pattern(point: Point, where: str, match: str | None) -> "Pattern | None":
    from quarterdeck.policy.grammar import parse_pattern

    try:
        return None if match is None else parse_pattern(match)
    except PolicyError as error:
        raise HookError(f"'match' of a hook for {point!r} in {where}: {error}") from error


def _program(name: str) -> str:
    # Path would take the "./" away, and the name would be looked for in PATH.
    return str(Path(name).expanduser()) if name.startswith("~") else name
