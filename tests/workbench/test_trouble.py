"""An agent that fails: the screen stays, says what happened, and offers what can be done."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from quarterdeck.drivers.errors import (
    AgentMissingError,
    LoginMethod,
    LoginNeededError,
    OpenFailedError,
    StartTimeoutError,
    WrongProtocolError,
)
from quarterdeck.fleet.api import AgentInfo, SpawnOptions
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Prompted, SessionEnded, TurnEnded
from quarterdeck.wire.ids import SessionId, new_message_id
from quarterdeck.wire.session_options import SessionOptions
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.rendering.lines import flow, text_of, width_of
from quarterdeck.workbench.stores.discovery import DiscoveredAgent, MachineDiscovery
from quarterdeck.workbench.widgets.bars import TroubleKind, diagnose_agent, trouble_lines
from tests.support.hostile_text import hostile_strings
from tests.support.memory_fleet import FakeFleet
from tests.support.workbench_app import SIZES, begin, opened, screen_text, until

INSTALL = "npm install -g @anthropic-ai/claude-code"
CLAUDE = DiscoveredAgent(
    name="claude",
    title="Claude Code",
    is_here=True,
    install=INSTALL,
    login_hint="run `claude` and follow it",
)
WAY = LoginMethod(id="1", name="browser", command=("claude", "login"))
FAILURES: dict[str, tuple[str, TroubleKind, str]] = {
    "missing": (
        str(AgentMissingError("claude", "claude", "PATH", INSTALL)),
        "missing",
        "/install",
    ),
    "login": (str(LoginNeededError("claude wants to be logged in.", (WAY,))), "login", "/login"),
    "refused": ("the vendor said 401: invalid x-api-key", "login", "/login"),
    "key": ("no key for 'anthropic': set ANTHROPIC_API_KEY", "key", "f12"),
    "session": ("No conversation found with session ID: 123", "session", "/fresh"),
    "gone": ("session 'abc' not found", "session", "/fresh"),
    "old": (
        str(WrongProtocolError("claude speaks protocol version 0, this needs 1")),
        "version",
        "",
    ),
    "crash": (
        str(OpenFailedError("claude ended with exit code 3", exit_code=3)),
        "crash",
        "ctrl+r",
    ),
    "slow": (str(StartTimeoutError("claude did not answer within 30 s")), "crash", "ctrl+r"),
}


def info(reason: str | None, **fields: object) -> AgentInfo:
    known = {
        "session": SessionId("ses_1"),
        "name": "ann",
        "agent": "claude",
        "cwd": "/work",
        "state": "failed",
        "reason": reason,
        "can_resume": True,
    }
    return AgentInfo(**(known | fields))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("reason", "kind", "offer"), FAILURES.values(), ids=FAILURES.keys())
def test_each_failure_is_known_and_offers_what_mends_it(reason: str, kind: TroubleKind, offer: str):
    trouble = diagnose_agent(info(reason), CLAUDE)
    assert trouble is not None and trouble.kind == kind
    assert offer in "".join(one.key for one in trouble.offers)
    assert trouble.offers and trouble.reason == reason


def test_an_agent_at_work_has_no_trouble():
    for state in ("starting", "idle", "running", "waiting"):
        assert diagnose_agent(info(None, state=state, is_live=True), CLAUDE) is None
    assert diagnose_agent(info("x", is_archived=True), CLAUDE) is None


def test_one_that_was_ended_in_good_order_can_be_started_again():
    trouble = diagnose_agent(info(None, state="done"), None)
    assert trouble is not None and trouble.kind == "ended"
    assert [one.key for one in trouble.offers] == ["ctrl+r", "/fresh", "ctrl+t"]
    lost = diagnose_agent(info(None, state="done", can_resume=False), None)
    assert lost is not None and [one.key for one in lost.offers] == ["/fresh", "ctrl+t"]


def test_a_failed_turn_of_one_that_lives_is_sent_again():
    trouble = diagnose_agent(info("the model is overloaded", is_live=True), CLAUDE)
    assert trouble is not None and trouble.kind == "turn"


@pytest.mark.parametrize("width", [20, 80])
def test_whatever_an_agent_says_is_shown_literally(width: int):
    for words in hostile_strings(300):
        trouble = diagnose_agent(info(words, name=words), None)
        assert trouble is not None
        for line in trouble_lines(trouble, width):
            assert width_of(line) <= width
            assert not any(mark in text_of(line) for mark in "\x1b\u202e\u2066\r\x07")


async def broken(fleet: FakeFleet, reason: str, stderr: str = "") -> SessionId:
    session = await begin(fleet, "ann", "fix the parser")
    await fleet.append(session, SessionEnded(how="broken", reason=reason, stderr=stderr or None))
    return session


def known(app: Workbench) -> None:
    app.context.discovery.found = MachineDiscovery(agents=(CLAUDE,))
    app.context.changed()


async def command(pilot: Pilot[None], words: str) -> None:
    await pilot.press(*words, "enter")


@pytest.mark.parametrize("size", [*SIZES, (20, 5)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(("reason", "kind", "offer"), FAILURES.values(), ids=FAILURES.keys())
async def test_the_screen_stays_and_says_what_to_do(
    tmp_path: Path, size: tuple[int, int], reason: str, kind: TroubleKind, offer: str
):
    del kind
    fleet = FakeFleet()
    await broken(fleet, reason)
    async with opened(fleet, tmp_path, size) as (app, pilot):
        known(app)
        await pilot.pause()
        if size[1] > 5:
            await until(pilot, lambda: "another" in screen_text(app))  # wrapped after it
            assert offer in screen_text(app)
            assert "✗" in screen_text(app)
        await pilot.press("h", "i")
        assert app.main.chat.text == "hi"


async def test_retry_starts_it_where_it_was(tmp_path: Path):
    fleet = FakeFleet()
    session = await broken(fleet, "claude ended with exit code 3", "Segmentation fault")
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "Segmentation fault" in screen_text(app))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: fleet.infos[session].is_live)
        await until(pilot, lambda: "stopped unexpectedly" not in screen_text(app))


async def test_retry_sends_a_prompt_again_whose_turn_failed(tmp_path: Path):
    fleet = FakeFleet()
    session = await begin(fleet, "ann", "say hello")
    await fleet.append(session, TurnEnded(stop="failed", reason="the model is overloaded"))
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "resend the last prompt" in screen_text(app))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: len(_prompts(fleet)) == 2)
        assert _prompts(fleet) == ["say hello", "say hello"]


async def test_fresh_begins_anew_and_loses_no_words(tmp_path: Path):
    fleet = FakeFleet()
    old = await broken(fleet, "No conversation found with session ID: 123")
    async with opened(fleet, tmp_path) as (app, pilot):
        await until(pilot, lambda: "/fresh" in screen_text(app))
        await command(pilot, "/fresh")
        await until(pilot, lambda: fleet.infos[old].is_archived)
        await until(
            pilot, lambda: app.context.agent is not None and app.context.agent.session != old
        )
        assert app.context.agent is not None
        assert (app.context.agent.name, app.context.agent.cwd) == ("ann", "/work/project")
        await until(pilot, lambda: app.main.chat.text == "fix the parser")


async def test_the_command_that_installs_is_copied(tmp_path: Path):
    fleet = FakeFleet()
    await broken(fleet, str(AgentMissingError("claude", "claude", "PATH", INSTALL)))
    async with opened(fleet, tmp_path) as (app, pilot):
        known(app)
        await until(pilot, lambda: f"copy: {INSTALL}" in " ".join(screen_text(app).split()))
        await command(pilot, "/install")
        await until(pilot, lambda: app.clipboard == INSTALL)


async def test_logging_in_is_told(tmp_path: Path):
    fleet = FakeFleet()
    await broken(fleet, str(LoginNeededError("claude wants to be logged in.")))
    async with opened(fleet, tmp_path) as (app, pilot):
        known(app)
        await command(pilot, "/login")
        await until(pilot, lambda: "run `claude` and follow it" in screen_text(app))


async def test_the_ways_that_an_agent_offers_are_chosen_in_a_terminal(tmp_path: Path):
    fleet = FakeFleet()
    await broken(fleet, str(LoginNeededError("claude wants to be logged in.", (WAY,))))
    # Wide: the command begins with the path of our interpreter.
    async with opened(fleet, tmp_path, size=(300, 40)) as (app, pilot):
        odd = replace(CLAUDE, name="odd", offers_logins=True)
        app.context.discovery.found = MachineDiscovery(
            agents=(replace(CLAUDE, offers_logins=True), odd)
        )
        app.context.changed()
        await until(pilot, lambda: "choose how to log in" in screen_text(app))
        await command(pilot, "/login odd")
        await until(pilot, lambda: "-m quarterdeck login odd" in screen_text(app))
    await fleet.stop()


async def test_a_spawn_that_is_refused_keeps_what_was_typed(tmp_path: Path):
    fleet = FakeFleet()
    await fleet.spawn(
        SpawnOptions(options=SessionOptions(agent="claude", cwd="/work/project"), name="ann")
    )
    async with opened(fleet, tmp_path) as (app, pilot):
        await pilot.press(*"a draft")
        await fleet.append(
            next(iter(fleet.infos)), Prompted(content=(text("x"),), message=new_message_id())
        )
        await pilot.pause()
        assert app.main.chat.text == "a draft"


def _prompts(fleet: FakeFleet) -> list[str]:
    said = [record.event for record in fleet.records if isinstance(record.event, Prompted)]
    return [event.content[0].text for event in said]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_key_is_never_apart_from_what_it_does():
    lines = [
        (("ctrl+r", "key"), (" resume it", "text")),
        (("ctrl+t", "key"), (" start one", "text")),
    ]
    assert [text_of(line) for line in flow(lines, 40)] == ["ctrl+r resume it   ctrl+t start one"]
    assert [text_of(line) for line in flow(lines, 30)] == ["ctrl+r resume it", "ctrl+t start one"]
    assert all(width_of(line) <= 8 for line in flow(lines, 8))
