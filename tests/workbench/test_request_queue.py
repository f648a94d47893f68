"""Requests under the person's fingers: each is followed by the next, and no stray key decides."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from quarterdeck.config.places import Places
from quarterdeck.fleet.api import InboxItem, SpawnOptions
from quarterdeck.fleet.permissions.session_gate import open_grants
from quarterdeck.policy.errors import RuleError
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
)
from quarterdeck.wire.ids import SessionId, ToolCallId, new_request_id, new_turn_id
from quarterdeck.wire.permissions import Selected
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.workbench import approvals
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.fleet_actions import RuleRefusedError, record_rule
from quarterdeck.workbench.panels.inbox import InboxList
from quarterdeck.workbench.preferences.keymap import KeyBinding
from quarterdeck.workbench.rendering.glyphs import CONFLICT
from quarterdeck.workbench.screens import key_guard
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.permission import PermissionCard, PermissionScreen
from quarterdeck.workbench.screens.question import QuestionForm
from tests.support.agent_states import codex_asked
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import begin, opened, screen_text, until

WIDE = (120, 40)


def decided(fleet: FakeFleet) -> list[PermissionAnswered]:
    return [r.event for r in fleet.records if isinstance(r.event, PermissionAnswered)]


def chosen(fleet: FakeFleet) -> list[str]:
    outcomes = [one.outcome for one in decided(fleet)]
    return [one.option_id for one in outcomes if isinstance(one, Selected)]


def is_ready(app: Workbench, name: str = "") -> bool:
    """Whether a permission request has the keys, and is read."""
    card = app.requests.current
    is_read = isinstance(card, PermissionCard) and bool(card.summary.heading)
    return is_read and (not name or (card is not None and card.item.name == name))


async def asks(fleet: FakeFleet, session: SessionId, raw: dict[str, Any] | None = None) -> None:
    """An agent asks as Codex does."""
    call = ToolCallId("call")
    request = new_request_id()
    like = codex_asked()
    asked = PermissionAsked(
        request=request, call=call, title=like.title, name=like.name, kind=like.kind,
        options=like.options, raw_input=raw or like.raw_input,
    )  # fmt: skip
    record = await fleet.append(session, asked)
    fleet.known.add(request)
    fleet.open[request] = InboxItem(
        request=request, session=session, name=fleet.infos[session].name, since=record.time,
        seq=record.seq, permission=asked,
    )  # fmt: skip


async def when_keys_count(pilot: Any) -> None:
    await pilot.pause(QUIET + 0.05)


async def test_three_agents_that_wait_are_answered_one_after_the_other(tmp_path: Path):
    fleet = FakeFleet()
    for name in ("ann", "bob", "cleo"):
        await begin(fleet, name)
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        for name in ("ann", "bob", "cleo"):
            await fleet.send(name, (text("ask"),))
        await until(pilot, lambda: len(app.context.inbox.items) == 3)
        for number, name in enumerate(("ann", "bob", "cleo"), 1):
            await until(pilot, lambda name=name: is_ready(app, name))
            assert isinstance(app.screen, PermissionScreen) is (name != "ann")
            await when_keys_count(pilot)
            await pilot.press("y")
            await until(pilot, lambda number=number: len(decided(fleet)) == number)
        assert {one.kind for one in decided(fleet)} == {"allow_once"}
        await until(pilot, lambda: app.requests.current is None)
        assert app.main.chat.text == "" and app.main.chat.has_focus


async def test_the_past_of_a_rule_arrives_later_and_blocks_no_key(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    for answer in ("allow-once", "allow-once", "reject-once"):
        await asks(fleet, ann)
        (item,) = await fleet.inbox()
        assert await fleet.answer(item.request, answer)
    ready = asyncio.Event()
    tried: list[tuple[str, ...]] = []
    try_now = fleet.back_test

    async def try_later(rules: tuple[str, ...], **options: Any) -> Any:
        tried.append(rules)
        await ready.wait()
        return await try_now(rules, **options)

    fleet.back_test = try_later  # pyright: ignore[reportAttributeAccessIssue]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await asks(fleet, ann)
        await until(pilot, lambda: is_ready(app))
        assert tried == [("allow bash(pytest -q tests)",)]
        assert "would have" not in screen_text(app)
        ready.set()
        await until(pilot, lambda: "would have answered 3 of 3" in screen_text(app))
        assert f"{CONFLICT} would have" in screen_text(app)
        ready.clear()
        await when_keys_count(pilot)
        await pilot.press("y")
        await until(pilot, lambda: len(decided(fleet)) == 4)
        await asks(fleet, ann)
        await until(pilot, lambda: is_ready(app))
        assert "would have" not in screen_text(app)  # the last one's line is gone
        await when_keys_count(pilot)
        await pilot.press("n")
        await until(pilot, lambda: len(decided(fleet)) == 5)


async def test_a_rule_that_cannot_be_tried_shows_nothing(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    tried = 0

    async def fail(rules: tuple[str, ...], **options: Any) -> Any:
        nonlocal tried
        tried += 1
        raise RuleError("bash(", 5, "a closing parenthesis")

    fleet.back_test = fail  # pyright: ignore[reportAttributeAccessIssue]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await asks(fleet, ann)
        await until(pilot, lambda: is_ready(app) and tried == 1)
        await when_keys_count(pilot)
        await pilot.press("m")
        await until(pilot, lambda: tried == 3)
        assert "would have" not in screen_text(app)
        await pilot.press("y")
        await until(pilot, lambda: len(decided(fleet)) == 1)


async def test_three_vendors_that_wait_are_answered_with_a_key_every_second_and_a_half(
    tmp_path: Path,
):
    """The chat input is never touched: the second key was once typed into it."""
    fleet = FakeFleet()
    sessions = []
    for name in ("claude", "codex", "opencode"):
        options = SessionOptions(agent=name, cwd="/work/project")
        info = await fleet.spawn(SpawnOptions(options=options, name=name))
        fleet.open_turns[info.session] = new_turn_id()
        sessions.append(info.session)
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        for number, session in enumerate(sessions):
            await asks(fleet, session, {"command": f"make step-{number}"})
        await until(pilot, lambda: len(app.context.inbox.items) == 3 and is_ready(app))
        for number in range(1, 4):
            await pilot.pause(1.5)
            await pilot.press("y")
            await until(pilot, lambda number=number: len(decided(fleet)) == number)
            assert app.main.chat.text == ""
        assert set(chosen(fleet)) == {"allow-once"} and not await fleet.inbox()
        await until(pilot, lambda: app.requests.current is None)


async def test_the_key_that_answers_one_request_does_not_answer_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await asks(fleet, ann, {"command": "first"})
        await asks(fleet, ann, {"command": "second"})
        await until(pilot, lambda: is_ready(app) and len(app.context.inbox.items) == 2)
        await when_keys_count(pilot)
        await pilot.press("z")  # means nothing; from now on keys count
        monkeypatch.setattr(key_guard, "QUIET", 60.0)  # however slow this machine types
        await pilot.press(*"yyyy")
        await until(pilot, lambda: is_ready(app) and "second" in screen_text(app))
        await pilot.press(*"yes", "1")
        assert len(decided(fleet)) == 1 and len(await fleet.inbox()) == 1
        assert app.main.chat.text == ""


async def test_a_choice_that_is_not_shown_is_shown_before_a_key_chooses_it(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await asks(fleet, ann)
        await until(pilot, lambda: is_ready(app))
        await when_keys_count(pilot)
        await pilot.press("8")
        await until(pilot, lambda: "don't ask again" in screen_text(app))
        assert not decided(fleet)
        await pilot.press("8")
        await until(pilot, lambda: decided(fleet))
        assert chosen(fleet) == ["session"]


@pytest.mark.parametrize(
    ("keys", "option"),
    [("s", "allow-session-1"), ("p", "allow-project-1"), ("n", "reject-once"), ("1", "allow-once")],
)
async def test_one_key_gives_one_answer(tmp_path: Path, keys: str, option: str):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await asks(fleet, ann)
        await until(pilot, lambda: is_ready(app))
        await when_keys_count(pilot)
        await pilot.press(*keys)
        await until(pilot, lambda: decided(fleet))
        assert chosen(fleet) == [option]


async def test_requests_that_are_alike_are_allowed_at_once(tmp_path: Path):
    fleet = FakeFleet()
    sessions = [await begin(fleet, name) for name in ("ann", "bob", "cleo")]
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        for session in sessions[:2]:
            await asks(fleet, session)
        await asks(fleet, sessions[2], {"command": "rm x"})
        await until(pilot, lambda: is_ready(app) and "2 of 3, 1 alike" in screen_text(app))
        await when_keys_count(pilot)
        await pilot.press("A")
        await until(pilot, lambda: len(decided(fleet)) == 2)
        await until(pilot, lambda: is_ready(app, "cleo"))
        assert chosen(fleet) == ["allow-once", "allow-once"]


async def test_who_types_elsewhere_keeps_the_keys(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        await pilot.press(*"half")
        await asks(fleet, ann)
        await until(pilot, lambda: "ctrl+g answer" in screen_text(app))
        await pilot.press(*" yes")
        assert app.main.chat.text == "half yes" and not decided(fleet)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: is_ready(app))
        await when_keys_count(pilot)
        await pilot.press("tab")  # back to the input; the request stays in view
        assert app.requests.current is None and "y allow once" in screen_text(app)


async def test_the_keys_of_a_request_can_be_rebound(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    bob = await begin(fleet, "bob")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        app.preferences.keymap.put(
            KeyBinding(key="o", command="decide", words="once", when="permission")
        )
        app.preferences.keymap.put(KeyBinding(key="y", command="", when="permission"))
        await asks(fleet, bob)
        await until(pilot, lambda: app.context.inbox.items)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: is_ready(app) and isinstance(app.screen, PermissionScreen))
        await when_keys_count(pilot)
        await pilot.press("y")
        assert not decided(fleet)
        await pilot.press("o")
        await until(pilot, lambda: decided(fleet))
        assert chosen(fleet) == ["allow-once"]


async def test_a_rule_of_ones_own_is_recorded_and_the_call_allowed(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        app.context.discovery.places = places
        await asks(fleet, ann)
        await until(pilot, lambda: is_ready(app))
        await when_keys_count(pilot)
        await pilot.press("e")
        words = app.main.panel.query_one("#words", Input)
        await until(pilot, lambda: words.has_focus)
        assert words.value == "bash(pytest -q tests)"
        words.value = "bash(pytest"
        await pilot.press("enter")
        await until(pilot, lambda: app._notifications)  # pyright: ignore[reportPrivateUsage]
        assert not decided(fleet)
        words.value = "bash(pytest -q:*)"
        await pilot.press("tab", "enter")
        await until(pilot, lambda: decided(fleet))
        (grant,) = (await open_grants(places)).all
        assert (grant.pattern, grant.scope, grant.effect) == ("bash(pytest -q:*)", "user", "allow")
        assert chosen(fleet) == ["allow-once"]


async def test_a_rule_that_allows_everything_is_refused(tmp_path: Path):
    places = Places.find({"QUARTERDECK_HOME": str(tmp_path / "home")})
    with pytest.raises(RuleRefusedError, match="permissions add"):
        await record_rule(places, "*", "user", str(tmp_path))
    with pytest.raises(RuleError):
        await record_rule(places, "bash(", "user", str(tmp_path))
    made = await record_rule(places, "bash(ls), edit(a/**)", "project", str(tmp_path))
    assert [(one.pattern, one.project) for one in made] == [
        ("bash(ls)", str(tmp_path)), ("edit(a/**)", str(tmp_path)),
    ]  # fmt: skip


async def test_own_words_choose_themselves_in_a_question(tmp_path: Path):
    form = {
        "properties": {
            "q1": {"title": "Which?", "enum": ["red", "blue"]},
            "q1_other": {"type": "string", "title": "Which?: in your own words"},
            "q2": {"type": "array", "title": "Parts?", "items": {"enum": ["api", "cli"]}},
            "q2_other": {"type": "string"},
        }
    }
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        asked = QuestionAsked(request=new_request_id(), text="Tell me", form=form)
        record = await fleet.append(ann, asked)
        fleet.known.add(asked.request)
        fleet.open[asked.request] = InboxItem(
            request=asked.request, session=ann, name="ann", since=0, seq=record.seq, question=asked
        )
        await until(pilot, lambda: isinstance(app.requests.current, QuestionForm))
        await pilot.press("tab", *"green", "enter", "enter")
        await until(pilot, lambda: "(●) other" in screen_text(app))
        assert "[x] api" in screen_text(app) and "[ ] other" in screen_text(app)
        await when_keys_count(pilot)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: app.requests.current is None)
        (answer,) = [r.event for r in fleet.records if isinstance(r.event, QuestionAnswered)]
        assert answer.content == {"q1_other": "green", "q2": ["api"]}


async def test_ages_in_the_inbox_go_on(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, WIDE) as (app, pilot):
        now = [0]
        app.action_command("open", "inbox")
        await until(pilot, lambda: app.query(InboxList))
        inbox = app.query_one(InboxList)
        inbox._clock = lambda: now[0]  # pyright: ignore[reportPrivateUsage]
        await asks(fleet, ann)
        await until(pilot, lambda: app.context.inbox.items)
        now[0] = app.context.inbox.items[0].since + 8_000_000
        await until(pilot, lambda: "ann 8s" in screen_text(app))
        now[0] += 60_000_000
        await until(pilot, lambda: "ann 1m" in screen_text(app))


async def test_a_request_that_came_up_is_not_brought_up_again_over_a_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(approvals, "_STAYED", 2.0)  # the layout is there first
    fleet = FakeFleet()
    session = [await begin(fleet, name) for name in ("ann", "bob", "cleo", "dora")][-1]
    await asks(fleet, session)
    async with opened(fleet, tmp_path, (80, 24)) as (app, pilot):
        await until(pilot, lambda: is_ready(app, "dora"))
        app.action_command("layout", "grid")
        await until(pilot, lambda: len(list(app.main.chats())) == 4)
        await until(pilot, lambda: app.main.panel.requests.card is None)  # a chat has no room now
        await pilot.pause(2.5)
        assert len(app.screen_stack) == 1


@pytest.mark.parametrize("stayed", [0.0, 1000.0])
async def test_a_request_whose_chat_becomes_too_small_goes_on_in_a_dialog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stayed: float
):
    monkeypatch.setattr(approvals, "_STAYED", stayed)
    fleet = FakeFleet()
    await asks(fleet, await begin(fleet, "ann"))
    async with opened(fleet, tmp_path, (60, 24)) as (app, pilot):
        await until(pilot, lambda: is_ready(app, "ann"))
        await pilot.resize_terminal(60, 14)
        await until(pilot, lambda: app.main.panel.requests.card is None)
        await until(pilot, lambda: isinstance(app.screen, PermissionScreen))
