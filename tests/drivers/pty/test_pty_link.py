"""An agent that can only be used in a terminal, where the conformance suite does not look."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.errors import (
    AgentMissingError,
    BadAgentFileError,
    LoginNeededError,
    OpenFailedError,
    UnsupportedError,
)
from quarterdeck.drivers.pty.link import PtyLink
from quarterdeck.drivers.pty.patterns import load_patterns, parse_patterns
from quarterdeck.terminal.headless_terminal import neutralize_controls
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAsked,
    SessionEnded,
    ToolCallStarted,
)
from quarterdeck.wire.session_options import AgentMcpServer
from tests.drivers.rigs.pty import LAUNCH, link
from tests.support.deadlines import SOON
from tests.support.driver_rig import Rig, drive

FAKE = LAUNCH.command


def rig(*words: str, **changes: Any) -> Rig:
    return Rig(name="fake", make=lambda: link(command=(*FAKE, *words), **changes))


async def test_nothing_is_typed_into_a_trust_dialog(tmp_path: Path):
    with pytest.raises(OpenFailedError, match=r"trust.*accept-trust"):
        async with drive(rig("--dialog", "trust"), tmp_path):
            pass


async def test_policy_answers_the_dialogs_that_it_names(tmp_path: Path):
    asked = rig("--dialog", "trust", "--dialog", "update")
    quirks = frozenset(("accept-trust", "decline-update"))
    with pytest.raises(OpenFailedError, match="update"):
        async with drive(
            rig("--dialog", "trust", "--dialog", "update", quirks=frozenset(("accept-trust",))),
            tmp_path,
        ):
            pass
    made = Rig(name="fake", make=lambda: link(command=asked.make()._launch.command, quirks=quirks))
    async with drive(made, tmp_path) as driven:
        assert (await driven.say("echo hello")).stop == "end_turn"
        rows = _link(driven).terminal.screen.text()
        assert "  trust: yes" in rows and "  update: no" in rows


async def test_a_login_is_asked_for_by_name(tmp_path: Path):
    with pytest.raises(LoginNeededError):
        async with drive(rig("--dialog", "login"), tmp_path):
            pass


async def test_a_missing_program_says_how_to_get_it(tmp_path: Path):
    made = Rig(name="fake", make=lambda: link(command=("no-such-tui",), install="get it"))
    with pytest.raises(AgentMissingError, match="get it"):
        async with drive(made, tmp_path):
            pass


async def test_an_option_without_words_is_refused_by_name(tmp_path: Path):
    with pytest.raises(UnsupportedError, match="system_prompt"):
        async with drive(rig(), tmp_path, system_prompt="be brief"):
            pass
    with pytest.raises(UnsupportedError, match="mcp_servers"):
        async with drive(rig(), tmp_path, mcp_servers=(AgentMcpServer(name="x", command=("x",)),)):
            pass


async def test_prose_with_the_words_of_a_dialog_is_prose(tmp_path: Path):
    words = "echo  Run this command? ❯ 1. Yes 3. No enter to confirm · esc to cancel"
    async with drive(rig(), tmp_path) as driven:
        line = "─" * 60
        await driven.say(f"echo {line}\necho  Run this command?\necho    $ rm\n{words}")
        await driven.say("echo working · esc to interrupt")
    assert not driven.all(PermissionAsked) and not driven.all(ToolCallStarted)
    assert "working · esc to interrupt" in driven.text


async def test_the_same_question_is_asked_each_time_it_is_shown_and_once(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask make\nask make\necho end"))
        await driven.answer("allow_once")
        await driven.answer("reject_once")
        assert (await turn).stop == "end_turn"
    assert len(driven.all(PermissionAsked)) == 2
    assert "allowed" in driven.text and "denied" in driven.text and "end" in driven.text


async def test_an_escape_in_a_prompt_does_nothing(tmp_path: Path):
    async with drive(rig(), tmp_path) as driven:
        assert (await driven.say("echo a\x1b[201~b\x03c\x1b")).stop == "end_turn"
    assert driven.text == "a␛[201~b␃c␛"


async def test_ten_thousand_characters_arrive_whole_and_press_nothing(tmp_path: Path):
    evil = "a\x1b[201~\x1b[200~b\x00\x03\x07\x9b31m\x9d0;x\x9c\x7f 你好 🦀 "
    prompt = (evil * 1000)[:10_000].rstrip()
    async with drive(rig(), tmp_path) as driven:
        assert (await driven.say(f"echo {prompt}")).stop == "end_turn"
        assert (await driven.say("echo still here")).stop == "end_turn"
    first, _, rest = driven.text.partition("still here")
    assert first.strip() == neutralize_controls(prompt).strip() and not rest
    assert not driven.all(PermissionAsked)


async def test_a_prompt_is_waited_for_as_long_as_the_agent_needs_for_its_keys(tmp_path: Path):
    """On a busy machine a paste is seen after seconds, and a prompt is accepted much later."""
    async with drive(rig("--lag", "3.5"), tmp_path) as driven:
        ended = await driven.say("echo one", within=2 * SOON)
        assert (ended.stop, driven.text) == ("end_turn", "one")


async def test_an_agent_that_shows_a_prompt_and_hesitates_has_not_ended_its_turn(tmp_path: Path):
    async with drive(rig("--hesitation", "6"), tmp_path) as driven:
        ended = await driven.say("echo one", within=2 * SOON)
        assert (ended.stop, driven.text) == ("end_turn", "one")


async def test_a_prompt_that_is_not_accepted_yet_can_be_interrupted(tmp_path: Path):
    async with drive(rig("--lag", "5"), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("wait", within=2 * SOON))
        async with asyncio.timeout(SOON):
            while "> wait" not in _link(driven).terminal.screen.text():
                await asyncio.sleep(0.02)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert driven.all(SessionEnded) == []


async def test_a_deaf_agent_is_ended(tmp_path: Path):
    async with drive(rig("--deaf"), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("wait 600"))
        await driven.seen(MessageChunk)
        ended = await driven.session.close()
        await turn
    assert ended.signal == "SIGKILL"


def test_what_ships_can_be_read():
    for name in ("aider", "claude", "codex", "crush", "fake", "gemini", "opencode"):
        assert load_patterns(name).states
    assert load_patterns("aider").proven and not load_patterns("crush").proven


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"states": [], "answer": {"echo": "(", "text": ""}}, "not a valid pattern"),
        ({"states": [], "answer": {"echo": "", "text": ""}, "wrong": 1}, "wrong"),
        ({"states": [{"state": "dancing"}], "answer": {"echo": "", "text": ""}}, "dancing"),
    ],
)
def test_a_wrong_file_is_told(table: dict[str, Any], told: str):
    with pytest.raises(BadAgentFileError, match=told):
        parse_patterns("mine.toml", table)


def test_an_unknown_screen_is_named():
    with pytest.raises(BadAgentFileError, match=r"'nobody'.*claude"):
        load_patterns("nobody")


def _link(driven: Any) -> PtyLink:
    return driven.session._link
