"""This workbench as a screen of the fleet: agents that lead may arrange it, one call at a time.

What a call changes is the layout, the colours or the keys; what the person is doing stays: the
focus is theirs, and so is what they type meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError, RpcError
from quarterdeck.wire.rpc import METHOD_NOT_FOUND
from quarterdeck.wire.tasks import start_task

from ..sanitize import sanitize_text

if TYPE_CHECKING:
    from textual.app import App
    from textual.screen import Screen
    from textual.widget import Widget

    from quarterdeck.fleet.api import WorkbenchRegistration

    from ..context import WorkbenchContext

__all__ = ["PACE", "CarryOutCall", "WorkbenchAttachment"]

log = logging.getLogger(__name__)

CarryOutCall: TypeAlias = Callable[[str, dict[str, Any], str], Awaitable[Any]]
"""Carries out a call: its name, its arguments, whose it is."""

PACE = 1.0
"""Seconds between two words to the fleet that someone sits here."""
_TYPING = 2.0
"""Seconds after a key for which the focus is not taken away."""
_SHOWN = 30.0
"""Seconds for which an offer is shown to the person; after that ``/widgets`` lists it."""
_MOVES = frozenset({"focus", "open_file", "open_diff", "open_agent", "open_tab", "load_layout"})
"""Calls that may take the focus with them."""


class PersonBusyError(QuarterdeckError):
    """The person is in the middle of something."""


class WorkbenchAttachment:
    """Offers the workbench to the fleet while ``run`` runs.

    Args:
        app: the workbench: its screens and its focus.
        context: the fleet, and how the connection to it is.
        call: carries out what is asked; one at a time, within the application.
    """

    def __init__(self, app: "App[None]", context: "WorkbenchContext", call: CarryOutCall) -> None:
        self._app = app
        self._app_context = context
        self._call = call
        self._turn = asyncio.Lock()
        self._used = asyncio.Event()
        self._linked = asyncio.Event()
        self._last = 0.0
        self._cwd = ""
        self._variables: Context = copy_context()

    def used(self) -> None:
        """The person has pressed a key, or clicked."""
        self._last = monotonic()
        self._used.set()

    async def run(self) -> None:
        """Be there for calls until cancelled; runs within the application, as a worker of it.

        A host that is older than screens is left in peace.
        """
        self._variables = copy_context()
        unwatch = self._app_context.watch(self._look)
        self._look()
        try:
            while True:
                await self._linked.wait()
                try:
                    await self._offer()
                except QuarterdeckError as error:
                    if isinstance(error, RpcError) and error.code == METHOD_NOT_FOUND:
                        return
                    log.info("cannot offer the workbench to agents: %s", error)
                    self._linked.clear()
        finally:
            unwatch()

    async def _offer(self) -> None:
        context = self._app_context
        self._cwd = context.cwd
        idle = monotonic() - self._last if self._last else 0.0
        async with context.fleet.attach_screen(self.answer, cwd=self._cwd, idle=idle) as screen:
            await self._report_use(screen)

    async def _report_use(self, screen: "WorkbenchRegistration") -> None:
        while True:
            await self._used.wait()
            self._used.clear()
            before, self._cwd = self._cwd, self._app_context.cwd
            await screen.active(self._cwd if self._cwd != before else None)
            await asyncio.sleep(PACE)

    async def answer(self, name: str, arguments: dict[str, Any], by: str) -> Any:
        """Carry out a call, after those that came before it."""
        async with self._turn:
            # The link to the host knows nothing of the application, which widgets need.
            variables = self._variables.copy()
            work = self._do(name, arguments, by)
            return await start_task(work, name=f"call of {name}", context=variables)

    async def _do(self, name: str, arguments: dict[str, Any], by: str) -> Any:
        is_busy = self._is_busy
        if name == "focus" and is_busy:
            raise PersonBusyError("the user is typing, so the focus does not change; do not retry")
        before = [(screen, screen.focused) for screen in self._app.screen_stack]
        try:
            answer = await self._call(name, arguments, by)
        finally:
            if is_busy or name not in _MOVES:
                _give_back(before)
        if name == "offer_widget":
            self._show_offer(str(arguments.get("name")), by)
        return answer

    def _show_offer(self, name: str, by: str) -> None:
        context = self._app_context
        agent = context.roster.find(context.find_session(by))
        who = agent.name if agent is not None else by
        text = f"{who} offers a widget; review it with /widget approve {name}"
        self._app.notify(sanitize_text(text), timeout=_SHOWN, markup=False)

    @property
    def _is_busy(self) -> bool:
        """Whether the person types, or has something open over the main screen."""
        return len(self._app.screen_stack) > 1 or monotonic() - self._last < _TYPING

    def _look(self) -> None:
        context = self._app_context
        if context.host == "connected":
            self._linked.set()
        if context.cwd != self._cwd:
            self._used.set()


def _give_back(before: "list[tuple[Screen[Any], Widget | None]]") -> None:
    for screen, focused in before:
        if focused is None or focused is screen.focused or not screen.is_attached:
            continue
        if focused.is_attached and focused.focusable and focused.display:
            screen.set_focus(focused, scroll_visible=False)
