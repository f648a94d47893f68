"""The agents that one session has started: opening, running, reporting, ending them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from quarterdeck.config.schema import ChildSettings
from quarterdeck.policy.modes import narrow_mode
from quarterdeck.wire.events import ChildEnded, ChildStarted, SessionOpened
from quarterdeck.wire.ids import SessionId, new_session_id
from quarterdeck.wire.tasks import cancel_tasks, log_failure, start_task

from ..limits import TurnLimits, TurnSpending
from ..recovery import child_end_text
from ..tools.tool import ToolError
from .child import ChildAgent, ChildRequest, ParentWatch, RequestRelay, answer_in, open_child
from .profile import DEFAULT, Profile, ProfileLibrary, part

if TYPE_CHECKING:
    from quarterdeck.policy.modes import Mode

    from ..session import Session
    from ..session_setup import SessionSetup
    from ..tools.tool import LiveCall

__all__ = ["Children", "ChildrenContext"]

_NOT_STARTED = "The agent could not be started."
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ChildrenContext:
    """What all generations below one session share."""

    settings: ChildSettings
    read_profiles: Callable[[], Awaitable[ProfileLibrary]]
    prompt: str
    """The prompt for every agent that works in this directory."""
    live: int = 0
    """How many are at work."""


class Children:
    """The children of one session. Those in the background end with it: ``close``."""

    def __init__(
        self, parent: "Session", setup: "SessionSetup", family: ChildrenContext, depth: int = 0
    ) -> None:
        self._parent = parent
        self._setup = setup
        self._family = family
        self._depth = depth
        self._live: dict[SessionId, ChildAgent] = {}
        self._over: dict[SessionId, ChildAgent] = {}
        self._tasks: dict[SessionId, asyncio.Task[None]] = {}

    async def profile(self, name: str | None) -> Profile:
        """The profile of that name, as it is now; None: the one that only looks.

        Raises:
            ToolError: there is none; the text names those there are.
        """
        library = await self._family.read_profiles()
        if (found := library.profiles.get(name or DEFAULT)) is not None:
            return found
        why = "".join(f" {problem}." for problem in library.problems)
        known = ", ".join(sorted(library.profiles))
        raise ToolError(f"There is no profile {name!r}; available: {known}.{why}")

    def check_room(self) -> None:
        """Refuse one more child where there would be too many.

        Raises:
            ToolError: there are too many, or too many generations.
        """
        settings = self._family.settings
        if self._depth >= settings.depth:
            raise ToolError(
                f"Agents may be nested at most {settings.depth} levels deep; do it yourself."
            )
        if self._family.live >= settings.live:
            raise ToolError(
                f"{settings.live} agents are already running; wait for one, or stop one."
            )

    async def run(self, profile: Profile, task: str, live: "LiveCall") -> ChildEnded:
        """Start a child and wait for it; cancelling this stops it, and returns when it is over.

        Raises:
            ToolError: it cannot be started.
        """
        child = await self._open(profile, task, live, background=False)
        try:
            return await child.run(self._parent.id, live.emit)
        finally:
            self._left(child)

    async def start(self, profile: Profile, task: str, live: "LiveCall") -> ChildAgent:
        """Start a child that works on while the session does something else.

        When it ends, its answer is sent to the model at the next step, or with the next prompt.

        Raises:
            ToolError: it cannot be started.
        """
        child = await self._open(profile, task, live, background=True)
        task_ = start_task(self._work(child), name=f"child {child.id}")
        task_.add_done_callback(log_failure)
        self._tasks[child.id] = task_
        task_.add_done_callback(lambda _: self._tasks.pop(child.id, None))
        return child

    @property
    def background(self) -> tuple[ChildAgent, ...]:
        """Those that were started in the background, oldest first, also when they are over."""
        known = (*self._over.values(), *self._live.values())
        return tuple(one for one in known if one.started.background)

    async def wait(self, id_: str | None, seconds: float) -> None:
        """Wait until a child in the background is over, or any of them; at most ``seconds``."""
        tasks = [t for child, t in self._tasks.items() if id_ is None or child == id_]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self, id_: str) -> None:
        """Stop a child in the background; one that is over stays as it is."""
        if (task := self._tasks.get(SessionId(id_))) is not None:
            task.cancel()
            await asyncio.wait([task])

    async def answer(self, id_: str) -> str:
        """The whole last message of a child, also of one from before a crash.

        Raises:
            ToolError: this session has started no such agent.
        """
        found, last = False, ""
        async for record in self._parent.journal.history(session=SessionId(id_)):
            event = record.event
            if isinstance(event, SessionOpened):
                found = event.parent_session == self._parent.id
            last = answer_in(event) or last
        if not found:
            known = ", ".join(one.id for one in self.background) or "none"
            raise ToolError(f"You have not started an agent {id_!r}; in the background: {known}.")
        return last

    async def follow_mode(self, mode: "Mode") -> None:
        """Narrow those that are at work to their parent's mode, as it is now."""
        for child in tuple(self._live.values()):
            wanted = narrow_mode(child.profile.mode or mode, mode)
            if child.session.gate.mode != wanted:
                await child.session.set_mode(wanted)

    async def close(self) -> None:
        """Stop all that are at work; returns when they are over."""
        await cancel_tasks(self._tasks.values())

    # ---- within

    async def _work(self, child: ChildAgent) -> None:
        try:
            await child.run(self._parent.id, self._parent.note)
        except Exception:
            _log.exception("child %s failed", child.id)
        finally:
            self._left(child)
            if child.ended is not None:
                await self._parent.note(child_end_text(child.profile.name, child.ended))

    def _left(self, child: ChildAgent) -> None:
        self._family.live -= 1
        self._live.pop(child.id, None)
        if child.started.background:
            self._over[child.id] = child

    async def _open(
        self, profile: Profile, task: str, live: "LiveCall", *, background: bool
    ) -> ChildAgent:
        self.check_room()
        self._family.live += 1
        try:
            return await self._opened(profile, task, live, background=background)
        except BaseException:
            self._family.live -= 1
            raise

    async def _opened(
        self, profile: Profile, task: str, live: "LiveCall", *, background: bool
    ) -> ChildAgent:
        family, id_ = self._family, new_session_id()
        started = ChildStarted(
            child=id_, call=live.call, name=profile.name, task=task, background=background
        )
        wanted = ChildRequest(
            id=id_,
            profile=profile,
            task=task,
            prompt=f"{family.prompt.rstrip()}\n\n{await asyncio.to_thread(part)}",
            can_spawn=self._depth + 1 < family.settings.depth,
            settings=family.settings,
            spending=self._beside(live.spending) if background else live.spending,
        )
        relay = RequestRelay(
            gate=self._parent.gate,
            emit=self._parent.note if background else live.emit,
            child=id_,
            name=profile.name,
            call=live.call,
        )
        await live.emit(started)
        try:
            session, setup = await open_child(self._parent, self._setup, wanted, relay)
        except BaseException:
            gone = ChildEnded(child=id_, call=live.call, how="failed", answer=_NOT_STARTED)
            await live.emit(gone)
            raise
        if not background:
            session.files = ParentWatch(live)
        setup.workspace.make_children = partial(Children, session, setup, family, self._depth + 1)
        child = ChildAgent(
            session=session,
            profile=profile,
            started=started,
            answer_bytes=family.settings.answer_bytes,
        )
        self._live[id_] = child
        return child

    def _beside(self, turn: TurnSpending) -> TurnSpending:
        """Where children in the background count what they spend; each turn takes it over."""
        if self._setup.beside is None:
            self._setup.beside = TurnSpending(limits=TurnLimits(), started=turn.started)
        turn.beside = self._setup.beside
        return self._setup.beside
