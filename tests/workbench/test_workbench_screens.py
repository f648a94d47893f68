"""What a person sees and does, at three sizes, without a terminal."""

import asyncio
from pathlib import Path

import pytest
from textual import events

from quarterdeck.fleet.api import InboxItem
from quarterdeck.wire.content import text
from quarterdeck.wire.events import PermissionAnswered, Prompted, QuestionAnswered, QuestionAsked
from quarterdeck.wire.ids import new_request_id, new_session_id
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.screens import key_guard
from quarterdeck.workbench.screens.key_guard import QUIET
from quarterdeck.workbench.screens.permission import PermissionCard
from quarterdeck.workbench.screens.question import QuestionForm, QuestionScreen
from quarterdeck.workbench.widgets.bars import AgentBar, QueueBar
from quarterdeck.workbench.widgets.transcript import TranscriptView
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import (
    SIZES,
    LostFleet,
    begin,
    opened,
    say,
    screen_text,
    think,
    until,
)

sizes = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")


def decided(fleet: FakeFleet) -> list[PermissionAnswered]:
    return [r.event for r in fleet.records if isinstance(r.event, PermissionAnswered)]


def is_asked(app: Workbench) -> bool:
    """Whether a permission request has the keys, and is read."""
    card = app.requests.current
    return isinstance(card, PermissionCard) and bool(card.summary.heading)


def is_questioned(app: Workbench) -> bool:
    return isinstance(app.requests.current, QuestionForm)


async def after_the_guard(pilot) -> None:
    await pilot.pause(QUIET + 0.05)


@sizes
async def test_an_empty_fleet_says_what_to_do(tmp_path: Path, size: tuple[int, int]):
    async with opened(FakeFleet(), tmp_path, size) as (app, pilot):
        await until(pilot, lambda: "Start with" in screen_text(app))
        assert "Type a task and press enter." in screen_text(app)
        await pilot.press("h", "i")
        assert app.main.chat.text == "hi"


@sizes
async def test_two_agents_stream_and_one_is_shown(tmp_path: Path, size: tuple[int, int]):
    fleet = FakeFleet()
    ann, bob = await begin(fleet, "ann", "fix the parser"), await begin(fleet, "bob")
    async with opened(fleet, tmp_path, size) as (app, pilot):
        for number in range(40):
            await say(fleet, ann, f"ann{number} ")
            await say(fleet, bob, f"bob{number} ")
        await until(pilot, lambda: "ann39" in screen_text(app))
        shown = screen_text(app)
        assert "bob39" not in shown
        assert "❯ fix the parser" in shown
        assert "2 running" in shown
        await pilot.press("ctrl+n")
        await until(pilot, lambda: "bob39" in screen_text(app))
        assert "ann39" not in screen_text(app)


async def test_agents_may_change_while_a_chat_is_taken_down(tmp_path: Path):
    fleet = FakeFleet()
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await begin(fleet, "ann")
        await until(pilot, lambda: "ann" in screen_text(app))
        await app.query(AgentBar).remove()
        await app.query(QueueBar).remove()
        await begin(fleet, "bob")
        await until(pilot, lambda: "bob" in screen_text(app))


@sizes
async def test_a_permission_is_asked_whole_and_answered_with_one_key(
    tmp_path: Path, size: tuple[int, int]
):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, size) as (app, pilot):
        await fleet.send("ann", (text("ask"),))
        await until(pilot, lambda: is_asked(app))
        await until(pilot, lambda: "y allow once" in screen_text(app))
        shown = screen_text(app)
        for words in ("ls /", "run a command", "y allow once", "n deny", "m 1 more", "esc later"):
            assert words in shown
        assert "\\x1b[31m\\u202e" in shown  # the title of this request tries to hide itself
        await after_the_guard(pilot)
        await pilot.press("y")
        await until(pilot, lambda: decided(fleet))
        assert decided(fleet)[0].kind == "allow_once"
        await until(pilot, lambda: "You said Allow." in screen_text(app))
        assert len(app.screen_stack) == 1 and app.requests.current is None


async def test_a_denial_carries_what_the_person_wrote(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await fleet.send("ann", (text("ask"),))
        await until(pilot, lambda: is_asked(app))
        await after_the_guard(pilot)
        await pilot.press("f", *"use rg", "enter")
        await until(pilot, lambda: decided(fleet))
        assert (decided(fleet)[0].kind, decided(fleet)[0].feedback) == ("reject_once", "use rg")


async def test_keys_that_were_meant_for_the_input_approve_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(key_guard, "QUIET", 60.0)  # however slow this machine types
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await fleet.send("ann", (text("ask"),))
        await until(pilot, lambda: is_asked(app))
        await pilot.press(*"yay 12 yes")
        assert not decided(fleet)
        assert is_asked(app)


async def test_who_is_typing_is_not_interrupted_by_a_request(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"half a thou")
        await fleet.send("ann", (text("ask"),))
        await until(pilot, lambda: app.context.inbox.items)
        await pilot.press(*"ght")
        assert (len(app.screen_stack), app.main.chat.text) == (1, "half a thought")
        assert "1 need" in screen_text(app) and app.requests.current is None
        await pilot.press("ctrl+g")
        await until(pilot, lambda: is_asked(app))
        await after_the_guard(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: app.requests.current is None)
        assert app.main.chat.text == "half a thought" and app.main.chat.has_focus
        assert app.context.inbox.items


async def test_a_request_that_is_answered_elsewhere_goes_away(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await fleet.send("ann", (text("ask"),))
        await until(pilot, lambda: is_asked(app))
        (item,) = await fleet.inbox()
        await fleet.answer(item.request, "no", by="cli")
        await until(pilot, lambda: app.requests.current is None)
        assert app.main.chat.has_focus


async def test_a_question_is_answered_by_its_form(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await fleet.send("ann", (text("question"),))
        await until(pilot, lambda: is_questioned(app))
        await after_the_guard(pilot)
        await pilot.press("ctrl+x")
        await until(pilot, lambda: app.requests.current is None)
        (answer,) = [r.event for r in fleet.records if isinstance(r.event, QuestionAnswered)]
        assert answer.action == "decline"


@sizes
async def test_what_is_filled_in_survives_putting_off_and_a_restart(
    tmp_path: Path, size: tuple[int, int]
):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path, size) as (app, pilot):
        await fleet.send("ann", (text("form"),))
        await until(pilot, lambda: is_questioned(app))
        await pilot.press("down", "enter", "tab", "tab", "enter", "tab", *"it fits")
        await until(pilot, lambda: "it fits" in screen_text(app))
        await after_the_guard(pilot)
        await pilot.press("escape")
        await until(pilot, lambda: app.requests.current is None)
        assert app.context.inbox.items
    async with opened(fleet, tmp_path, size) as (app, pilot):
        await until(pilot, lambda: app.context.inbox.items)
        if app.requests.current is None:
            await pilot.press("ctrl+g")
        await until(pilot, lambda: is_questioned(app))
        await until(pilot, lambda: "it fits" in screen_text(app))
        shown = screen_text(app)
        assert "(●) blue" in shown and "( ) red" in shown  # told without colour
        assert "[x] large" in shown and "[ ] small" in shown
        await after_the_guard(pilot)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: app.requests.current is None)
        (answer,) = [r.event for r in fleet.records if isinstance(r.event, QuestionAnswered)]
        assert answer.content == {"colour": "blue", "sizes": ["large"], "why": "it fits"}
    assert not list(tmp_path.glob("**/question-*"))  # noqa: ASYNC240


async def test_a_default_of_many_lines_is_shown_in_one_and_sent_as_it_is(tmp_path: Path):
    default = "first\nsecond\x1b[31m"
    form = {"properties": {"why": {"type": "string", "default": default}}}
    asked = QuestionAsked(request=new_request_id(), text="Why?", form=form)
    item = InboxItem(
        request=asked.request, session=new_session_id(), name="ann", since=0, seq=1, question=asked
    )
    fleet = FakeFleet()
    async with opened(fleet, tmp_path) as (app, pilot):
        screen = QuestionScreen(item)
        app.push_screen(screen)
        await until(pilot, lambda: r"first\nsecond\x1b[31m" in screen_text(app))
        assert screen.form.answer() == {"why": default}
        await pilot.press("end", "!")
        assert screen.form.answer() == {"why": r"first\nsecond\x1b[31m!"}


async def test_a_draft_stays_with_its_agent_and_over_a_restart(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    await begin(fleet, "bob")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"for ann")
        await pilot.press("ctrl+n")
        assert app.main.chat.text == ""
        await pilot.press(*"for bob", "ctrl+b")
        assert app.main.chat.text == "for ann"
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: app.main.chat.text == "for ann")
        await pilot.press("ctrl+n")
        assert app.main.chat.text == "for bob"


async def test_what_is_typed_is_on_disk_while_the_workbench_runs(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"not lost")
        file = tmp_path / f"{ann}.txt"
        await until(pilot, lambda: file.exists() and file.read_text() == "not lost")
        await pilot.press("enter")
        await until(pilot, lambda: any(isinstance(r.event, Prompted) for r in fleet.records[-8:]))
        await until(pilot, lambda: not file.exists())
        assert app.main.chat.text == ""


async def test_a_prompt_that_is_refused_is_back_in_the_input(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    await fleet.kill("ann")
    fleet.cannot_resume.add("ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: app.main.panel.is_home)
        await pilot.press("ctrl+n", *"hello", "enter")
        await until(pilot, lambda: "cannot be resumed" in screen_text(app))
        assert app.main.chat.text == "hello"


@sizes
async def test_who_reads_is_not_moved_by_what_comes(tmp_path: Path, size: tuple[int, int]):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann")
    for number in range(30):
        await think(fleet, ann, "thinking")
        await say(fleet, ann, f"paragraph {number}\n\nsecond of {number}\n\n- and a list\n")
    async with opened(fleet, tmp_path, size) as (app, pilot):
        view = app.query_one(TranscriptView)
        await until(pilot, lambda: "second of 29" in screen_text(app))
        assert view.follows
        view.focus()
        for _ in range(3):
            await pilot.press("pageup")
        await pilot.pause()
        top = view.line_at(view.scroll_offset.y)
        rows = [view.line_at(view.scroll_offset.y + n) for n in range(view.size.height)]
        for number in range(60):
            await say(fleet, ann, f"more {number} words\n\n")
        store = app.context.pages.store(ann)
        await until(pilot, lambda: "more 59" in store.blocks[-1].text)
        assert view.line_at(view.scroll_offset.y) == top
        assert [view.line_at(view.scroll_offset.y + n) for n in range(view.size.height)] == rows
        assert not view.follows
        await pilot.press("end")
        await until(pilot, lambda: "more 59" in screen_text(app))
        assert view.follows


async def test_a_long_transcript_is_read_page_by_page_up_to_its_beginning(tmp_path: Path):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann", "the very first")
    for number in range(700):
        await (think if number % 2 else say)(fleet, ann, f"step {number}")
    async with opened(fleet, tmp_path) as (app, pilot):
        view = app.query_one(TranscriptView)
        await until(pilot, lambda: "step 699" in screen_text(app))
        assert len(app.context.pages.store(ann).blocks) <= 400
        view.focus()
        async with asyncio.timeout(30):
            while "the very first" not in screen_text(app):
                await pilot.press("pageup")
                await pilot.pause()
        texts = [getattr(block, "text", "") for block in app.context.pages.store(ann).blocks]
        steps = [one for one in texts if one.startswith("step")]
        assert steps == [f"step {number}" for number in range(700)]


@sizes
async def test_a_host_that_is_lost_is_told_and_found_again(tmp_path: Path, size: tuple[int, int]):
    fleet = LostFleet()
    ann = await begin(fleet, "ann")
    async with opened(fleet, tmp_path, size) as (app, pilot):
        await until(pilot, lambda: app.context.host == "connected")
        await pilot.press(*"typed ")
        await fleet.lose()
        await until(pilot, lambda: "host: lost" in screen_text(app))
        await pilot.press(*"on")
        assert app.main.chat.text == "typed on"
        await say(fleet, ann, "said meanwhile")
        fleet.is_gone = False
        await until(pilot, lambda: "said meanwhile" in screen_text(app))
        assert "host: lost" not in screen_text(app)
        assert app.main.chat.text == "typed on"


async def test_help_stays_and_names_every_command(tmp_path: Path):
    from quarterdeck.workbench.commands.registry import COMMANDS
    from quarterdeck.workbench.screens.help import collect_key_help

    async with opened(FakeFleet(), tmp_path) as (app, pilot):
        await pilot.press("?")
        await until(pilot, lambda: "Here, in the input" in screen_text(app))
        await pilot.press("x", "down")
        assert "╭─ help ─" in screen_text(app)
        await pilot.press("escape")
        assert len(app.screen_stack) == 1
    words = {key for _, rows in collect_key_help() for key, _ in rows}
    assert {f"/{command.name}" for command in COMMANDS} <= words


async def test_commands_reach_the_agent_in_view_only(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    await begin(fleet, "bob")
    async with opened(fleet, tmp_path) as (app, pilot):
        assert app.context.agent is not None and app.context.agent.name == "ann"
        await pilot.press("ctrl+c")
        await until(pilot, lambda: fleet.infos[fleet.find("ann")].state == "interrupted")
        assert fleet.infos[fleet.find("bob")].state == "running"
        await pilot.press(*"/rename anna", "enter")
        await until(pilot, lambda: "anna" in {info.name for info in fleet.infos.values()})
        await pilot.press("ctrl+o", *"/kill", "enter")
        await until(pilot, lambda: fleet.infos[fleet.find("anna")].state == "killed")
        assert fleet.infos[fleet.find("bob")].state == "running"


async def test_the_agent_in_view_is_handed_over(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (_, pilot):
        await pilot.press(*"/hand-over codex now the docs", "enter")
        await until(pilot, lambda: fleet.infos[fleet.find("ann")].state == "done")
        await until(pilot, lambda: "codex" in {info.agent for info in fleet.infos.values()})


async def test_leaving_ends_no_agent(tmp_path: Path):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (_, pilot):
        await pilot.press("ctrl+q")
    assert fleet.infos[fleet.find("ann")].state == "running"


@pytest.mark.parametrize("opens", ["f1", "ctrl+t", "ctrl+p"])
async def test_a_dialog_does_not_keep_one_from_quitting(tmp_path: Path, opens: str):
    fleet = FakeFleet()
    await begin(fleet, "ann")
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(opens)
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running)


@pytest.mark.parametrize("key", ["f2", "f3", "f4"])
async def test_a_key_right_after_one_that_moves_the_focus_is_for_the_new_place(
    tmp_path: Path, key: str
):
    fleet = FakeFleet()
    ann = await begin(fleet, "ann", "fix the parser")
    await say(fleet, ann, "words to read")
    async with opened(fleet, tmp_path, (120, 40)) as (app, pilot):
        await until(pilot, lambda: "words to read" in screen_text(app))
        await pilot.press("a")
        for one in (events.Key("b", "b"), events.Key(key, None), events.Key("j", "j")):
            app.post_message(one)  # as a slow line brings them: all at once
        await pilot.pause()
        await until(pilot, lambda: not app.main.chat.has_focus)
        assert app.main.chat.text == "ab"
