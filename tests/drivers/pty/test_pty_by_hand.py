"""A person at the agent's own screen while a session drives it: nobody gets in the other's way."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.pty.link import PtyLink
from quarterdeck.policy.gate import PermissionAnswer
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    SessionEnded,
    TurnStarted,
)
from quarterdeck.wire.permissions import Cancelled, Decider, Selected
from tests.drivers.rigs.pty import link
from tests.support.deadlines import SOON
from tests.support.driver_rig import Driven, Rig, drive

BY = Decider(kind="person", name="test")


def rig(**changes: Any) -> Rig:
    return Rig(name="fake", make=lambda: link(**changes))


def terminal(driven: Driven) -> HeadlessTerminal:
    used = driven.session._link
    assert isinstance(used, PtyLink)
    return used.terminal


async def shows(driven: Driven, words: str) -> None:
    """Wait until this is somewhere on the screen."""
    async with asyncio.timeout(SOON):
        while not any(words in row.text for row in terminal(driven).screen.rows()):
            await terminal(driven).change()


async def test_what_is_answered_on_the_screen_is_no_longer_asked(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask make\necho end"))
        asked = await driven.seen(PermissionAsked)
        await terminal(driven).write(b"1")
        assert (await turn).stop == "end_turn"
        chosen = PermissionAnswer(outcome=Selected(option_id="3"), by=BY)
        assert not driven.session.answer(asked.request, chosen)
    (answered,) = driven.all(PermissionAnswered)
    assert answered.outcome == Cancelled()
    assert "terminal" in driven.all(NoticePosted)[0].title
    assert "allowed" in driven.text and "end" in driven.text


async def test_a_late_answer_is_not_pressed_into_the_next_dialog(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask one\nask two\necho end"))
        first = await driven.seen(PermissionAsked)
        await terminal(driven).write(b"3")
        await shows(driven, "$ two")
        allow = PermissionAnswer(outcome=Selected(option_id="1"), by=BY)
        driven.session.answer(first.request, allow)
        second = await driven.seen(PermissionAsked, lambda one: one.request != first.request)
        assert second.raw_input == {"command": "two"}
        assert "$ two" in "\n".join(row.text for row in terminal(driven).screen.rows())
        assert driven.session.answer(second.request, allow)
        assert (await turn).stop == "end_turn"
    assert driven.text.split() == ["denied", "allowed", "end"]
    assert len(driven.all(PermissionAsked)) == 2


async def test_a_prompt_waits_for_a_turn_that_was_begun_by_hand(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        await terminal(driven).write(b"wait 1\r")
        await shows(driven, "working")
        assert (await driven.say("echo mine")).stop == "end_turn"
        rows = [row.text for row in terminal(driven).screen.rows()]
    assert driven.text == "mine"
    assert rows.index("> wait 1") < rows.index("> echo mine")


async def test_what_that_turn_asks_is_put_to_whoever_waits_for_it(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        await terminal(driven).write(b"ask make\r")
        await shows(driven, "$ make")
        turn = asyncio.create_task(driven.say("echo mine"))
        await driven.answer("allow_once")
        assert (await turn).stop == "end_turn"
        await shows(driven, "allowed")
    assert driven.text == "mine"


async def test_stopping_what_waits_stops_nothing_else(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        await terminal(driven).write(b"wait 60\r")
        await shows(driven, "working")
        turn = asyncio.create_task(driven.say("echo never"))
        await driven.seen(TurnStarted)
        await asyncio.wait_for(driven.session.interrupt(), SOON)
        assert (await turn).stop == "cancelled"
        rows = [row.text for row in terminal(driven).screen.rows()]
        assert any("working" in row for row in rows) and "> echo never" not in rows
        await terminal(driven).press("escape")
        assert (await driven.say("echo again")).stop == "end_turn"
    assert driven.text == "again"


@pytest.mark.parametrize("kind", ["trust", "update", "login"])
async def test_a_dialog_in_the_middle_fails_the_turn_and_is_not_typed_into(
    kind: str, tmp_path: Path
):
    async with drive(rig(), tmp_path) as driven:
        ended = await driven.say(f"dialog {kind}\necho end")
        assert ended.stop == "failed" and kind in (ended.reason or "")
        rows = "\n".join(row.text for row in terminal(driven).screen.rows())
        assert "enter to confirm" in rows or "Log in first" in rows
        assert "yes" not in rows and "no" not in rows.split()


async def test_policy_answers_a_dialog_in_the_middle(tmp_path: Path):
    made = rig(quirks=frozenset(("decline-update",)))
    async with drive(made, tmp_path) as driven:
        assert (await driven.say("dialog update\necho end")).stop == "end_turn"
        assert "  update: no" in terminal(driven).screen.text()
    assert driven.text.endswith("end")


async def test_a_window_of_one_cell_answers_nothing_and_is_got_over(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask make\necho end"))
        asked = await driven.seen(PermissionAsked)
        terminal(driven).resize(1, 1)
        await asyncio.sleep(0.8)  # longer than an answer by hand takes to be believed
        assert not driven.all(PermissionAnswered)
        terminal(driven).resize(120, 40)
        await shows(driven, "$ make")
        driven.session.answer(
            asked.request, PermissionAnswer(outcome=Selected(option_id="1"), by=BY)
        )
        assert (await turn).stop == "end_turn"
    assert driven.text.split() == ["allowed", "end"]


async def test_noise_on_the_screen_is_nothing(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        assert (await driven.say("noise 20000\necho end")).stop == "end_turn"
        assert not driven.all(PermissionAsked)
        before = len(driven.text)
        assert (await driven.say("echo fine")).stop == "end_turn"
    assert driven.text[before:].strip() == "fine"


async def test_an_agent_that_dies_while_it_asks(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask make"))
        await driven.seen(PermissionAsked)
        os.kill(terminal(driven).pid, signal.SIGKILL)
        assert (await turn).stop == "failed"
        ended = await driven.seen(SessionEnded)
    assert ended.how == "broken" and ended.signal == "SIGKILL"
    (answered,) = driven.all(PermissionAnswered)
    assert answered.outcome == Cancelled()


async def test_an_agent_that_dies_during_a_paste(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        os.kill(terminal(driven).pid, signal.SIGSTOP)
        turn = asyncio.create_task(driven.say("echo " + "x" * (1 << 20)))
        await driven.seen(TurnStarted)
        await asyncio.sleep(0.5)  # the paste fills what the terminal holds
        os.kill(terminal(driven).pid, signal.SIGKILL)
        assert (await turn).stop == "failed"
        ended = await driven.seen(SessionEnded)
    assert ended.how == "broken" and not driven.all(MessageChunk)


async def test_a_turn_that_is_stopped_as_it_begins_leaves_no_prompt_behind(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("wait 60"))
        await driven.seen(TurnStarted)
        await asyncio.wait_for(driven.session.interrupt(), SOON)
        assert (await turn).stop == "cancelled"
        before = len(driven.text)
        assert (await driven.say("echo clean")).stop == "end_turn"
    assert driven.text[before:].strip() == "clean"
