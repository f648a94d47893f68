"""People are told what they need to know, once, and not at night."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import time
from pathlib import Path

import pytest

from quarterdeck.config.schema import NotificationSettings
from quarterdeck.fleet.api import AgentInfo, QueuedPrompt, SpawnOptions
from quarterdeck.fleet.notifications import (
    NotificationHistory,
    NotificationSender,
    Notifier,
    PersonNotification,
    desktop_command,
    is_quiet,
    make_notification,
    tellers,
)
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    ConflictChanged,
    Event,
    QuestionAsked,
    SessionEnded,
    TurnEnded,
)
from quarterdeck.wire.ids import MessageId, RequestId, SessionId, TurnId
from quarterdeck.wire.record import Record
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.wire.worktrees import ConflictFile
from tests.support.deadlines import SOON
from tests.support.memory_fleet import FakeFleet

ANN = AgentInfo(session=SessionId("ses_1"), name="ann", agent="fake", cwd="/", state="idle")
NOTE = PersonNotification(key="k", occasion="needed", agent="ann", session="ses_1", text="--x\n")
NOON = time(12)
FILES = (ConflictFile(path="a.py", kind="text"),)


def record(event: Event) -> Record:
    return Record(seq=7, time=0, session=ANN.session, turn=TurnId("trn_1"), event=event)


@pytest.mark.parametrize(
    ("event", "occasion"),
    [
        (QuestionAsked(request=RequestId("r"), text="?"), "needed"),
        (QuestionAsked(request=RequestId("r"), text="?", to=SessionId("ses_2")), None),
        (TurnEnded(stop="end_turn"), "done"),
        (TurnEnded(stop="failed", reason="no"), "failed"),
        (TurnEnded(stop="max_tokens"), "failed"),
        (TurnEnded(stop="cancelled"), None),
        (SessionEnded(how="broken"), "failed"),
        (SessionEnded(how="killed"), None),
        (SessionEnded(how="closed"), None),
        (ConflictChanged(other=SessionId("ses_2"), files=FILES, new_paths=("a.py",)), "conflict"),
        (ConflictChanged(other=SessionId("ses_2"), files=FILES), None),
        (ConflictChanged(other=SessionId("ses_2")), None),
    ],
)
def test_what_is_worth_telling(event: Event, occasion: str | None):
    note = make_notification(record(event), ANN)
    assert (note.occasion if note else None) == occasion


def test_a_turn_that_broke_with_its_session_is_one_thing():
    keys = {
        note.key
        for event in (TurnEnded(stop="failed"), SessionEnded(how="broken"))
        if (note := make_notification(record(event), ANN))
    }
    assert len(keys) == 1


def test_children_and_agents_with_more_to_do_are_not_done():
    import msgspec

    ended = record(TurnEnded(stop="end_turn"))
    child = msgspec.structs.replace(ANN, parent=SessionId("ses_0"))
    busy = msgspec.structs.replace(ANN, queue=(QueuedPrompt(message=MessageId("m"), content=()),))
    assert make_notification(ended, child) is None
    assert make_notification(ended, busy) is None


def test_quiet_hours_may_go_over_midnight():
    assert [is_quiet("22:00-07:00", time(hour)) for hour in (21, 22, 23, 0, 6, 7)] == [
        False, True, True, True, True, False,
    ]  # fmt: skip
    assert [is_quiet("12:00-13:00", time(hour)) for hour in (11, 12, 13)] == [False, True, False]
    assert not is_quiet(None, NOON)


def test_one_thing_is_told_once():
    told = NotificationHistory(["a"])
    assert [told.is_new(key) for key in ("a", "b", "b")] == [False, True, False]


def test_a_model_cannot_write_a_script():
    evil = PersonNotification(
        key="k", occasion="done", agent="a", session="s", text='" & do shell script "x'
    )
    argv = desktop_command(evil, "darwin")
    assert argv[-1] == evil.text
    assert evil.text not in argv[2]
    assert desktop_command(NOTE, "linux")[-3:] == ("--", "ann needs you", "--x\n")


@asynccontextmanager
async def notifying(
    fleet: FakeFleet, settings: NotificationSettings, *carry: NotificationSender, now: time = NOON
) -> AsyncIterator[None]:
    notifier = Notifier(fleet, settings, carry, now=lambda: now)
    task = asyncio.create_task(notifier.run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class Listener:
    def __init__(self) -> None:
        self.notes: list[PersonNotification] = []
        self.heard = asyncio.Event()

    async def __call__(self, note: PersonNotification) -> None:
        self.notes.append(note)
        self.heard.set()


async def test_a_person_is_told_what_waits(fleet: FakeFleet):
    listener = Listener()
    async with notifying(fleet, NotificationSettings(delay=0), listener):
        await fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="ask"))
        await asyncio.wait_for(listener.heard.wait(), SOON)
    (note,) = listener.notes
    assert (note.title, note.text) == ("ann needs you", "bash: ls / [31m")


async def test_what_was_answered_meanwhile_is_not_told(fleet: FakeFleet):
    listener = Listener()
    async with notifying(fleet, NotificationSettings(delay=0.05), listener):
        await fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="ask"))
        (item,) = await fleet.inbox()
        await fleet.answer(item.request, "allow_once")
        await asyncio.wait_for(listener.heard.wait(), SOON)
    assert [note.occasion for note in listener.notes] == ["done"]


async def test_nobody_is_woken_at_night_and_only_for_what_they_want(fleet: FakeFleet):
    asleep, choosy = Listener(), Listener()
    quiet = NotificationSettings(delay=0, quiet="22:00-07:00")
    only = NotificationSettings(delay=0, on=("needed",))
    async with notifying(fleet, quiet, asleep, now=time(3)), notifying(fleet, only, choosy):
        await fleet.spawn(
            SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="say hello")
        )
        await fleet.send("ann", (text("ask"),))
        await asyncio.wait_for(choosy.heard.wait(), SOON)
    assert asleep.notes == []
    assert [note.occasion for note in choosy.notes] == ["needed"]


async def test_what_happened_at_night_is_told_in_the_morning_if_it_still_counts(fleet: FakeFleet):
    clock, listener = [time(3)], Listener()
    settings = NotificationSettings(delay=0, quiet="22:00-07:00")
    notifier = Notifier(fleet, settings, [listener], now=lambda: clock[0], look=0.01)
    task = asyncio.create_task(notifier.run())
    await asyncio.sleep(0)
    await fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="say one"))
    await fleet.send("ann", (text("say two"),))
    await fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="bob", prompt="ask"))
    await fleet.spawn(SpawnOptions(options=SessionOptions(cwd="/"), name="cid", prompt="ask"))
    answered = next(item for item in await fleet.inbox() if item.name == "bob")
    await fleet.answer(answered.request, "allow_once")
    await asyncio.sleep(0.05)
    assert listener.notes == []
    clock[0] = time(7)
    async with asyncio.timeout(SOON):
        while len(listener.notes) < 3:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert sorted(note.title for note in listener.notes) == [
        "ann is done",
        "bob is done",
        "cid needs you",
    ]
    task.cancel()
    await asyncio.wait([task])


async def test_a_command_of_the_person_gets_it_all(tmp_path: Path):
    out = tmp_path / "out"
    code = (
        "import os, sys; open(sys.argv[1], 'w').write("
        "sys.stdin.read() + os.environ['QUARTERDECK_NOTE_TITLE'])"
    )
    settings = NotificationSettings(command=(sys.executable, "-c", code, str(out)))
    (teller,) = tellers(settings)
    await teller(NOTE)
    note, title = (await asyncio.to_thread(out.read_text)).splitlines()
    assert (json.loads(note)["agent"], title) == ("ann", "ann needs you")


async def test_a_command_that_fails_or_is_missing_hurts_nobody(fleet: FakeFleet):
    listener = Listener()
    broken = tellers(NotificationSettings(command=("no-such-program-anywhere",)))
    failing = tellers(NotificationSettings(command=("false",)))
    async with notifying(fleet, NotificationSettings(delay=0), *broken, *failing, listener):
        await fleet.spawn(
            SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="say hello")
        )
        await asyncio.wait_for(listener.heard.wait(), SOON)


def test_nothing_is_run_unless_it_is_asked_for():
    assert tellers(NotificationSettings()) == []


def test_a_conflict_names_the_files_that_are_new():
    event = ConflictChanged(other=SessionId("ses_2"), files=FILES, new_paths=("a.py", "b\n.py"))
    note = make_notification(record(event), ANN)
    assert note is not None
    assert (note.title, note.text) == ("ann conflicts with another agent", "a.py, b .py")


async def test_conflicts_of_the_night_are_all_told_in_the_morning():
    fleet = FakeFleet()
    await fleet.spawn(SpawnOptions.of(cwd="/", agent="claude", name="ann"))
    ann = fleet.find("ann")
    clock = [time(23)]
    notes: list[PersonNotification] = []

    async def hear(note: PersonNotification) -> None:
        notes.append(note)

    settings = NotificationSettings(quiet="22:00-07:00", delay=0.0)
    notifier = Notifier(fleet, settings, [hear], now=lambda: clock[0], look=0.01)
    task = asyncio.create_task(notifier.run())
    await asyncio.sleep(0.05)
    for path in ("a.py", "b.py"):
        other = SessionId(f"ses_{path}")
        await fleet.append(ann, ConflictChanged(other=other, files=FILES, new_paths=(path,)))
    await fleet.append(ann, TurnEnded(stop="end_turn"))
    await asyncio.sleep(0.05)
    assert notes == []
    clock[0] = time(8)
    async with asyncio.timeout(SOON):
        while len(notes) < 3:
            await asyncio.sleep(0.01)
    task.cancel()
    assert [note.occasion for note in notes] == ["conflict", "conflict", "done"]
    await fleet.stop()
