"""What can be done to the screen, by name and with JSON: by a person's commands and by agents.

There is one way: a command of a person and a tool of an agent that leads call the same deed. What
an agent does never takes the focus from somebody who types, and never closes what is not saved.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from ..workspace.store import WorkspaceApp

__all__ = [
    "PERSON",
    "RefusedCallError",
    "ScreenCallArguments",
    "ScreenCallSpec",
    "ScreenController",
    "specify_call",
]

PERSON = "person"
"""Who does it, if it is the one at the screen."""


class RefusedCallError(QuarterdeckError):
    """A call that is not known, or whose arguments are wrong."""


class ScreenCallArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the arguments of a deed; without a subclass: none."""


ScreenCallHandler: TypeAlias = "Callable[[ScreenController, Any], Awaitable[Any]]"


class ScreenCallSpec(Struct, frozen=True, kw_only=True):
    """Something that can be done to the screen."""

    wish: type[ScreenCallArguments]
    do: ScreenCallHandler


def specify_call(wish: type[ScreenCallArguments], do: ScreenCallHandler) -> ScreenCallSpec:
    """A deed and the type of its arguments."""
    return ScreenCallSpec(wish=wish, do=do)


class ScreenController:
    """Does calls one after the other: two of them cannot meet halfway."""

    def __init__(self, app: "WorkspaceApp") -> None:
        self.app = app
        self.by = PERSON
        """Who does the call that is being done."""
        self._turn = asyncio.Lock()

    async def call(self, name: str, arguments: Mapping[str, Any], by: str = PERSON) -> Any:
        """Do a call; returns JSON.

        Args:
            name: such as ``set_layout``.
            arguments: as JSON.
            by: the session of the agent that wants it, or ``person``.

        Raises:
            QuarterdeckError: it is refused, and nothing has changed; the text says why.
        """
        from .calls import SCREEN_CALLS

        found = SCREEN_CALLS.get(name)
        if found is None:
            raise RefusedCallError(
                f"unknown call {name!r}; choose from {', '.join(sorted(SCREEN_CALLS))}"
            )
        try:
            wish = msgspec.convert(dict(arguments), found.wish)
        except msgspec.ValidationError as error:
            raise RefusedCallError(f"{name}: {error}") from error
        async with self._turn:
            self.by = by
            try:
                return await found.do(self, wish)
            finally:
                self.by = PERSON

    @property
    def is_person(self) -> bool:
        """Whether the person at the screen does this."""
        return self.by == PERSON

    @property
    def may_focus(self) -> bool:
        """Whether the focus may move: a person's sentence goes on where it was begun."""
        app = self.app
        return self.is_person or not (app.main.chat.text or app.is_typed_through)
