"""What can be done to the screen, by name and with JSON: by a person's commands and by agents.

There is one way: a command of a person and a tool of an agent that leads call the same deed. What
an agent does never takes the focus from someone who types, and never closes what is not saved.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.wire.decoders import convert

from . import RefusedCallError

if TYPE_CHECKING:
    from quarterdeck.wire.ids import SessionId

    from ..context import WorkbenchContext
    from ..layout.files import LayoutFiles
    from ..panels.kinds import PanelKind
    from ..preferences.store import Preferences
    from ..screens.main import MainScreen

__all__ = [
    "PERSON",
    "ScreenCallArguments",
    "ScreenCallSpec",
    "ScreenController",
    "ScreenHost",
    "specify_call",
]

PERSON = "person"
"""Who does it, if it is the one at the screen."""


class ScreenCallArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the arguments of a deed; without a subclass: none."""


ScreenCallHandler: TypeAlias = "Callable[[ScreenController, Any], Awaitable[Any]]"


class ScreenCallSpec(Struct, frozen=True, kw_only=True):
    """Something that can be done to the screen."""

    arguments_type: type[ScreenCallArguments]
    do: ScreenCallHandler


def specify_call(
    arguments_type: type[ScreenCallArguments], do: ScreenCallHandler
) -> ScreenCallSpec:
    """A deed and the type of its arguments."""
    return ScreenCallSpec(arguments_type=arguments_type, do=do)


class ScreenHost(Protocol):
    """The application, as calls to the screen need it."""

    context: "WorkbenchContext"
    preferences: "Preferences"
    kinds: "Mapping[str, PanelKind]"

    @property
    def main(self) -> "MainScreen":
        """The screen below all others."""
        ...

    @property
    def layouts(self) -> "LayoutFiles":
        """The layouts on disk."""
        ...

    @property
    def is_typed_through(self) -> bool:
        """Whether keys go to a terminal now."""
        ...

    def show_message(self, words: str, is_bad: bool = False) -> None:
        """Show a line for some time."""
        ...

    async def run_command(self, name: str, words: str) -> None:
        """Do a command that has a function of its own, and wait for it."""
        ...

    async def show_agent(self, session: "SessionId", seq: int | None = None) -> None:
        """Go to the chat of an agent."""
        ...


class ScreenController:
    """Does calls one after the other: two of them cannot meet halfway.

    Args:
        app: the application.
        load_calls: gives all calls by name; called when the first is done.
    """

    def __init__(
        self, app: ScreenHost, load_calls: "Callable[[], Mapping[str, ScreenCallSpec]]"
    ) -> None:
        self.app = app
        self._load_calls = load_calls
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
        calls = self._load_calls()
        found = calls.get(name)
        if found is None:
            raise RefusedCallError(f"unknown call {name!r}; choose from {', '.join(sorted(calls))}")
        try:
            arguments_type = convert(dict(arguments), found.arguments_type)
        except msgspec.ValidationError as error:
            raise RefusedCallError(f"{name}: {error}") from error
        async with self._turn:
            self.by = by
            try:
                return await found.do(self, arguments_type)
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
