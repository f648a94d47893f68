"""Notifications of a person: which events are worth one, and how it is delivered.

An agent that needs a person, that has done what it was asked, that has failed, or that changes what
another one changes too, once for each file of the two. What a person
did themselves (an interruption, a kill) is no news to them, and what an agent's child does is
reported to the agent that started it.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from datetime import time
from datetime import time as time_of_day
from typing import TypeAlias

import msgspec
from msgspec import Struct

from quarterdeck.config.schema import NotificationSettings, Occasion
from quarterdeck.system.api import CommandSpec, EndingDeadlines, Process
from quarterdeck.system.local import LocalSystem
from quarterdeck.wire.clock import read_time_of_day, read_wall_clock
from quarterdeck.wire.errors import LinkError, QuarterdeckError
from quarterdeck.wire.events import (
    ConflictChanged,
    PermissionAsked,
    QuestionAsked,
    SessionEnded,
    TurnEnded,
)
from quarterdeck.wire.record import Record
from quarterdeck.wire.tasks import BackgroundTasks, cancel_tasks, start_task

from .api import AgentInfo, Fleet
from .errors import NoSuchAgentError

__all__ = [
    "NOTIFIED_EVENTS",
    "NotificationHistory",
    "NotificationSender",
    "Notifier",
    "PersonNotification",
    "desktop_command",
    "is_old",
    "is_quiet",
    "make_notification",
    "tellers",
]

NOTIFIED_EVENTS = (PermissionAsked, QuestionAsked, TurnEnded, SessionEnded, ConflictChanged)
"""The events that may be worth a note."""

_LONGEST = 200
_REMEMBERED = 10_000
_OLD = 600_000_000
"""Microseconds."""


class PersonNotification(Struct, frozen=True, kw_only=True):
    """Something to tell a person."""

    key: str
    """The request, the turn or the run that it is about: reported once for each."""
    occasion: Occasion
    agent: str
    """The agent's name."""
    session: str
    text: str
    request: str | None = None
    """The request that waits for an answer; the note is void once it has one."""

    @property
    def title(self) -> str:
        """What it is about, in a few words."""
        match self.occasion:
            case "needed":
                return f"{self.agent} needs you"
            case "done":
                return f"{self.agent} is done"
            case "failed":
                return f"{self.agent} failed"
            case "conflict":
                return f"{self.agent} conflicts with another agent"


def make_notification(record: Record, agent: AgentInfo) -> PersonNotification | None:
    """The note that a record is worth, if any."""
    match record.event:
        case PermissionAsked(request=request, title=title, name=name):
            words = f"{name}: {title}" if name else title
            return _note(record, agent, "needed", request, words, request)
        case QuestionAsked(request=request, text=text, to=None):
            return _note(record, agent, "needed", request, text, request)
        case TurnEnded(stop=stop, reason=reason) if agent.parent is None and not agent.queue:
            key = record.turn or f"{record.session}:{record.seq}"
            if stop == "end_turn":
                return _note(record, agent, "done", key, agent.title or "")
            if stop != "cancelled":
                return _note(record, agent, "failed", key, reason or stop)
            return None
        case SessionEnded(how="broken", reason=reason) if agent.parent is None:
            key = record.turn or f"{record.session}:{record.seq}"
            return _note(record, agent, "failed", key, reason or "its process ended")
        case ConflictChanged(other=other, new_paths=paths) if paths:
            key = f"{record.session}:{other}:{record.seq}"
            return _note(record, agent, "conflict", key, ", ".join(paths))
        case _:
            return None


def is_old(record: Record, now: int | None = None) -> bool:
    """Whether it happened too long ago to be news: it was taken over from another program."""
    return (now or read_wall_clock()) - record.time > _OLD


def is_quiet(hours: str | None, now: time) -> bool:
    """Whether a time of the day lies within hours such as ``22:00-07:00``."""
    if hours is None:
        return False
    begin, end = (time.fromisoformat(part) for part in hours.split("-"))
    if begin <= end:
        return begin <= now < end
    return now >= begin or now < end


class NotificationHistory:
    """What was reported already; remembers the latest ten thousand."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._keys = dict.fromkeys(keys)

    def is_new(self, key: str) -> bool:
        """Whether it was not reported yet; from now on it is."""
        if key in self._keys:
            return False
        self._keys[key] = None
        if len(self._keys) > _REMEMBERED:
            del self._keys[next(iter(self._keys))]
        return True


def _note(
    record: Record,
    agent: AgentInfo,
    occasion: Occasion,
    key: str,
    text: str,
    request: str | None = None,
) -> PersonNotification:
    # It goes to other programs: one line, nothing that acts on a terminal.
    shown = "".join(letter if letter.isprintable() else " " for letter in text)
    return PersonNotification(
        key=key,
        occasion=occasion,
        agent=agent.name,
        session=record.session,
        text=" ".join(shown.split())[:_LONGEST],
        request=request,
    )


log = logging.getLogger(__name__)

NotificationSender: TypeAlias = Callable[[PersonNotification], Awaitable[None]]
"""Carries a note to a person."""

_SECONDS = 10.0
_MOST_WAITING = 100
_LOOK = 60.0
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")


class Notifier:
    """Tells a person what happens from now on, by every teller, once.

    What happens in quiet hours is reported after them: each request that is still open, each new
    conflict, and of every agent the last thing that it has done or failed at.

    Args:
        fleet: what is watched.
        settings: when to tell.
        tellers: how to.
        now: the time of the day.
        look: seconds after which it is looked whether quiet hours are over; clocks are changed,
            and machines sleep.
    """

    def __init__(
        self,
        fleet: Fleet,
        settings: NotificationSettings,
        tellers: Sequence[NotificationSender],
        *,
        now: Callable[[], time_of_day] = read_time_of_day,
        look: float = _LOOK,
    ) -> None:
        self._fleet = fleet
        self._settings = settings
        self._tellers = tellers
        self._now = now
        self._history = NotificationHistory()
        self._look = look
        self._waiting = BackgroundTasks()
        self._held: dict[str, PersonNotification] = {}
        self._morning: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Watch until cancelled, or until the fleet ends."""
        if not self._tellers:
            return
        try:
            async with aclosing(self._fleet.follow()) as records:
                async for record in records:
                    if not isinstance(record.event, NOTIFIED_EVENTS) or is_old(record):
                        continue
                    try:
                        agent = await self._fleet.agent(record.session)
                    except NoSuchAgentError:  # a session of no agent, or one that was deleted
                        continue
                    if (note := make_notification(record, agent)) is not None:
                        self._take(note)
        finally:
            await cancel_tasks(filter(None, (self._morning,)))
            await self._waiting.close()

    def _take(self, note: PersonNotification) -> None:
        if note.occasion not in self._settings.on or not self._history.is_new(note.key):
            return
        if is_quiet(self._settings.quiet, self._now()):
            self._hold(note)
        else:
            self._begin(note)

    def _hold(self, note: PersonNotification) -> None:
        lasting = note.key if note.occasion == "conflict" else None
        about = note.request or lasting or note.session
        self._held.pop(about, None)
        if len(self._held) >= _MOST_WAITING:
            lost = self._held.pop(next(iter(self._held)))
            log.warning("too many notifications after the quiet hours; %r is dropped", lost.title)
        self._held[about] = note
        if self._morning is None or self._morning.done():
            self._morning = start_task(self._wait_for_morning(), name="wait for the morning")

    async def _wait_for_morning(self) -> None:
        while is_quiet(self._settings.quiet, self._now()):  # noqa: ASYNC110 - no one tells the time
            await asyncio.sleep(self._look)
        held, self._held = self._held, {}
        for note in held.values():
            self._begin(note)

    def _begin(self, note: PersonNotification) -> None:
        if len(self._waiting) >= _MOST_WAITING:
            log.warning("too many notifications at once; %r is dropped", note.title)
            return
        self._waiting.start(self._tell(note), name=f"notification {note.title!r}")

    async def _tell(self, note: PersonNotification) -> None:
        await asyncio.sleep(self._settings.delay)
        if note.request is not None and not await self._is_open(note.request):
            return
        for teller in self._tellers:
            try:
                await teller(note)
            except (QuarterdeckError, OSError, TimeoutError) as error:
                log.warning("could not send notification %r: %s", note.title, error)

    async def _is_open(self, request: str) -> bool:
        try:
            return any(item.request == request for item in await self._fleet.inbox())
        except QuarterdeckError:
            return False


def tellers(settings: NotificationSettings) -> list[NotificationSender]:
    """What the settings ask a host to use."""
    found: list[NotificationSender] = []
    if settings.desktop:
        found.append(_show_on_desktop)
    if settings.command:
        found.append(lambda note: _run(settings.command, note))
    return found


def desktop_command(note: PersonNotification, platform: str = sys.platform) -> tuple[str, ...]:
    """The program that shows a note on the desktop."""
    if platform == "darwin":
        # As arguments, never as part of the script: the text comes from a model.
        script = "on run a\ndisplay notification (item 2 of a) with title (item 1 of a)\nend run"
        return ("osascript", "-e", script, note.title, note.text or note.title)
    urgency = "critical" if note.occasion == "needed" else "normal"
    return ("notify-send", "-a", "quarterdeck", "-u", urgency, "--", note.title, note.text)


async def _show_on_desktop(note: PersonNotification) -> None:
    await _run(desktop_command(note), note)


async def _run(argv: Sequence[str], note: PersonNotification) -> None:
    variables = {
        f"QUARTERDECK_NOTE_{name.upper()}": str(value or "")
        for name, value in msgspec.structs.asdict(note).items()
    }
    variables["QUARTERDECK_NOTE_TITLE"] = note.title
    async with LocalSystem(["/"]) as system:
        command = CommandSpec(argv=argv, env=variables, inherit=_DESKTOP)
        process = await system.processes.spawn(command)
        try:
            async with asyncio.timeout(_SECONDS):
                await _feed(process, msgspec.json.encode(note) + b"\n")
                exit_ = await process.wait()
        finally:
            await process.end(EndingDeadlines(ask=0, terminate=0.5))
    if not exit_.is_success:
        log.warning("%r ended with %s: %s", argv[0], exit_, process.stderr()[-500:])


async def _feed(process: Process, data: bytes) -> None:
    with suppress(LinkError):  # it does not read, which is its right
        await process.send(data)
    process.close_input()
    while await process.receive():
        pass
