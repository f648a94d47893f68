"""The feed over all agents: modes, the bound, the join with the log, and where a line leads."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    GrantRevoked,
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    SessionEnded,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from quarterdeck.wire.ids import RequestId, SessionId, ToolCallId
from quarterdeck.wire.permissions import Cancelled, Decider, Selected
from quarterdeck.wire.record import Record, event_type
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.panels.feed import FeedPanel, activity_line
from quarterdeck.workbench.panels.feed_model import FEED_MODES, FeedMode, FeedModel
from quarterdeck.workbench.rendering.lines import text_of, width_of
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, say, screen_text, until

CALL, REQUEST = ToolCallId("c1"), RequestId("r1")


async def some(fleet: FakeFleet) -> tuple[SessionId, SessionId]:
    ann, bob = await begin(fleet, "ann"), await begin(fleet, "bob")
    await fleet.append(ann, ToolCallStarted(call=CALL, title="ls \x1b[31m", name="bash"))
    by = Decider(kind="rule", name="allow bash(ls)")
    chosen = Selected(option_id="yes")
    await fleet.append(
        ann,
        PermissionAnswered(request=REQUEST, call=CALL, outcome=chosen, by=by, kind="allow_once"),
    )
    await fleet.append(ann, ToolCallEnded(call=CALL, status="completed"))
    await say(fleet, bob, "blah blah")
    await fleet.append(bob, NoticePosted(title="disk nearly full", severity="warning"))
    return ann, bob


def feeds(app: Workbench) -> list[FeedPanel]:
    return list(app.main.query(FeedPanel))


def feed_of(app: Workbench) -> FeedPanel:
    return feeds(app)[0]


async def shown(fleet: FakeFleet, mode: FeedMode, agent: SessionId | None = None) -> list[str]:
    activity = FeedModel(mode, agent)
    await activity.start(fleet)
    return [event_type(record.event) for record in activity.records]


async def test_each_mode_shows_its_own():
    fleet = FakeFleet()
    ann, bob = await some(fleet)
    assert await shown(fleet, "audit") == [
        "tool_call_started",
        "permission_answered",
        "tool_call_ended",
    ]
    assert await shown(fleet, "notices") == ["notice"]
    assert set(await shown(fleet, "agents", ann)) == {
        "session_spawned", "session_opened", "prompted", "turn_started"
    }  # fmt: skip
    assert len(await shown(fleet, "debug")) == len(fleet.records)
    assert await shown(fleet, "notices", ann) == []
    assert await shown(fleet, "notices", bob) == ["notice"]
    await fleet.append(bob, TurnEnded(stop="failed", reason="no model"))
    assert (await shown(fleet, "audit"))[-1] == "turn_ended"


@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, 30), more=st.integers(0, 30))
async def test_what_happens_while_the_log_is_read_comes_once_and_in_order(at: int, more: int):
    fleet = FakeFleet()
    session = await begin(fleet, "ann")
    for number in range(at):
        await say(fleet, session, str(number))
    activity = FeedModel("debug")
    late = [await fleet.append(session, NoticePosted(title=str(n))) for n in range(more)]
    activity.live(late[: more // 2], may_drop=True)
    await activity.start(fleet)
    activity.live(late, may_drop=True)
    assert [record.seq for record in activity.records] == list(range(1, len(fleet.records) + 1))


async def test_the_window_is_bounded_at_both_ends():
    fleet = FakeFleet()
    session = await begin(fleet, "ann")
    for number in range(FeedModel.WINDOW + 500):
        await say(fleet, session, str(number))
    activity = FeedModel("debug")
    await activity.start(fleet)
    while activity.has_older and activity.is_at_end:
        await activity.older(fleet)
    assert len(activity.records) == FeedModel.WINDOW
    assert not activity.is_at_end
    await activity.start(fleet)
    fresh = [
        await fleet.append(session, NoticePosted(title=str(n))) for n in range(FeedModel.WINDOW)
    ]
    came, _ = activity.live(fresh, may_drop=True)
    assert (came, len(activity.records)) == (FeedModel.WINDOW, FeedModel.WINDOW)
    one_more = [await fleet.append(session, NoticePosted(title="last"))]
    assert activity.live(one_more, may_drop=False) == (0, 0)
    assert not activity.is_at_end


@pytest.mark.parametrize("width", [1, 20, 80])
@pytest.mark.parametrize(
    "event",
    [
        ToolCallStarted(call=CALL, title="\x1b[2J[bold]\u202ex\n" * 50),
        ToolCallEnded(call=CALL, status="failed", reason="\x07"),
        PermissionAnswered(
            request=REQUEST, call=CALL, outcome=Cancelled(), by=Decider(kind="timeout")
        ),
        GrantRevoked(grant="\x1b]0;x\x07", by=Decider(kind="person", name="\u202e")),
        MessageChunk(content=text("\x00" * 5000)),
        SessionEnded(how="broken", reason="\x1b[0m", stderr="\r\n\x1b"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_a_line_is_one_line_and_literal(event, width: int):
    record = Record(seq=1, time=0, session=SessionId("s"), event=event)
    line = activity_line(record, "ev\x1bil", width)
    assert width_of(line) <= width
    assert text_of(line).isprintable()


async def test_who_decided_is_told():
    by = Decider(kind="person", name="workbench")
    event = PermissionAnswered(
        request=REQUEST,
        call=CALL,
        outcome=Selected(option_id="no"),
        by=by,
        kind="reject_once",
        feedback="use rg",
    )
    line = activity_line(Record(seq=1, time=0, session=SessionId("s"), event=event), "ann", 200)
    assert "✗ denied by person workbench (reject once): use rg" in text_of(line)


async def test_f8_opens_the_feed_and_a_line_leads_to_its_agent(tmp_path: Path):
    fleet = FakeFleet()
    ann, bob = await some(fleet)
    async with opened(fleet, tmp_path, (240, 40)) as (app, pilot):
        await pilot.press("f8")
        await until(pilot, lambda: "✓ allowed by rule allow bash(ls)" in screen_text(app))
        assert "▸ bash: ls \\x1b[31m" in screen_text(app)
        await pilot.press("3")
        await until(pilot, lambda: "disk nearly full" in screen_text(app))
        await fleet.append(ann, NoticePosted(title="something new"))
        await until(pilot, lambda: "something new" in screen_text(app))
        await pilot.press("up", "up", "enter")
        await until(pilot, lambda: app.context.shown == bob)
        await pilot.press("f8")
        await until(pilot, lambda: app.main.focused is not None)
        await pilot.press("f8")
        await until(pilot, lambda: app.main.chat.has_focus)


async def test_a_paused_feed_holds_still_and_catches_up(tmp_path: Path):
    fleet = FakeFleet()
    ann, _ = await some(fleet)
    async with opened(fleet, tmp_path, (240, 40)) as (app, pilot):
        await pilot.press(*"/feed notices", "enter")
        await until(pilot, lambda: "disk nearly full" in screen_text(app))
        await pilot.press("p")
        for number in range(3):
            await fleet.append(ann, NoticePosted(title=f"while paused {number}"))
        await until(pilot, lambda: "paused, p resumes, 3 more" in screen_text(app))
        assert not any("while paused" in line for line in feed_lines(app))
        await pilot.press("p")
        await until(pilot, lambda: any("while paused 2" in line for line in feed_lines(app)))
        await pilot.press("f")
        await until(pilot, lambda: not any("disk" in line for line in feed_lines(app)))
        await pilot.press("f")
        await until(pilot, lambda: any("disk" in line for line in feed_lines(app)))


def feed_lines(app: Workbench) -> list[str]:
    return [str(record.event) for record in feed_of(app).activity.records]


async def test_going_up_reads_older_and_what_is_read_stays(tmp_path: Path):
    fleet = FakeFleet()
    ann, _ = await some(fleet)
    for number in range(1200):
        await fleet.append(ann, NoticePosted(title=f"note {number:04}"))
    async with opened(fleet, tmp_path, (240, 40)) as (app, pilot):
        await pilot.press(*"/feed notices", "enter")
        await until(pilot, lambda: "note 1199" in screen_text(app))
        before = len(feed_of(app).activity.records)
        await pilot.press("home", "up")
        await until(pilot, lambda: len(feed_of(app).activity.records) > before)
        read = top_line(app)
        await fleet.append(ann, NoticePosted(title="the newest"))
        await until(pilot, lambda: "the newest" in str(feed_lines(app)[-1]))
        assert top_line(app) == read
        await pilot.press("end")
        await until(pilot, lambda: feed_of(app)._rows.is_following)
        await until(pilot, lambda: top_line(app) != read)


def top_line(app: Workbench) -> str:
    rows = feed_of(app)._rows
    return text_of(rows.line_at(rows.scroll_offset.y)[0])


async def test_an_unknown_mode_is_told(tmp_path: Path):
    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        await pilot.press(*"/feed nonsense", "enter")
        await until(pilot, lambda: any("no mode" in n.message for n in app._notifications))


@pytest.mark.parametrize("size", [(20, 5), (80, 24)])
async def test_it_fits_small_screens(tmp_path: Path, size: tuple[int, int]):
    fleet = FakeFleet()
    await some(fleet)
    async with opened(fleet, tmp_path, size) as (app, pilot):
        for mode in FEED_MODES:
            app.action_command("feed", mode)
            await until(pilot, lambda mode=mode: mode in [p.activity.mode for p in feeds(app)])
            assert screen_text(app)
