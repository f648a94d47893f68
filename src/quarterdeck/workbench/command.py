"""What a command is: a name for something that a person can have done."""

from collections.abc import Awaitable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from quarterdeck.fleet.port import AgentInfo, Fleet

    from .app import Workbench

__all__ = ["Command", "Deed"]

Deed: TypeAlias = "Callable[[Fleet, AgentInfo, str], Awaitable[str]]"
"""Does it to an agent, with what was typed after the name; says what was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A name for something: a deed to the agent in view, an action, or a function of its own.

    One of ``action``, ``deed`` and ``target`` is set.
    """

    name: str
    help: str
    action: str | None = None
    """An action of the application."""
    deed: "Deed | None" = None
    target: str | None = None
    """``module:function``, relative to this package: called with the application and the words
    after the name; what it returns is awaited if it can be. Imported when it is called."""
    asks: str | None = None
    """What has to be typed after the name; None: nothing."""

    def call(self, app: "Workbench", words: str) -> Awaitable[object] | None:
        """Do what ``target`` names."""
        assert self.target is not None
        module, _, name = self.target.partition(":")
        done: object = getattr(import_module(f".{module}", __package__), name)(app, words)
        return cast("Awaitable[object]", done) if isinstance(done, Awaitable) else None
