"""A mode or a rule that an agent cannot keep to is refused when it is to be opened."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.driver import DriverSessionOptions
from quarterdeck.drivers.enforcement import change_mode, explain_unenforceable, is_reading_guarded
from quarterdeck.drivers.errors import UnenforceableError, UnsupportedError
from quarterdeck.drivers.transports import SESSION_TRANSPORTS, make_links
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.modes import MODES, Mode
from quarterdeck.wire.events import ModeChanged, NoticePosted, SessionEnded
from tests.drivers.rigs import oneshot
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import Rig, drive

AROUND = CallContext(cwd="/w", roots=("/w",))
SHIPPED = (
    *("amp", "auggie", "claude", "cline", "codex", "copilot", "cursor", "droid", "gemini"),
    *("goose", "grok", "junie", "kilo", "kimi", "kiro", "native", "opencode", "openhands", "pi"),
    *("qwen", "vibe"),
)
CELLS = [
    (name, transport)
    for name in SHIPPED
    for transport in find_agent(name).transports
    if transport in SESSION_TRANSPORTS
]


def gate_of(mode: Mode = "ask", *rules: str) -> Gate:
    return Gate(mode=mode, rules=tuple(parse_rule(one) for one in rules))


def reasons(agent: str, transport: str, gate: Gate, **options: Any) -> list[str]:
    guards = is_reading_guarded(gate, AROUND)
    link = make_links(find_agent(agent), transport, guards_reading=guards)[0]()
    opening = DriverSessionOptions.of(cwd="/w", mode=gate.mode, **options)
    return explain_unenforceable(link.enforcement(opening), opening, gate, AROUND)


@pytest.mark.parametrize(("agent", "transport"), CELLS)
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "deny-all"])
def test_without_rules_every_agent_can_be_asked_for(agent: str, transport: str, mode: Mode):
    # Whether one that never asks has words for the mode is found when it starts.
    assert reasons(agent, transport, gate_of(mode)) == []


@pytest.mark.parametrize(
    ("agent", "transport", "rule", "is_held"),
    [
        ("claude", "acp", "deny bash(curl)", True),
        ("claude", "acp", "deny edit(src/**)", True),
        ("claude", "acp", "deny read(.env)", False),
        ("claude", "acp", "ask read(.env)", False),
        ("claude", "acp", "deny fetch", True),
        ("claude", "acp", "deny tool(TodoWrite)", False),
        ("claude", "acp", "allow read(.env)", True),
        ("claude", "pipe", "deny read(.env)", True),
        ("claude", "pipe", "deny tool(TodoWrite)", True),
        ("goose", "acp", "deny read(.env)", True),
        ("goose", "acp", "deny *", True),
        ("opencode", "acp", "deny read(.env)", True),
        ("codex", "acp", "deny edit(src/**)", True),
        ("codex", "acp", "deny bash(curl)", False),
        ("codex", "daemon", "deny bash(curl)", True),
        ("codex", "pipe", "deny bash(curl)", False),
        ("codex", "pty", "deny bash(curl)", False),
        ("codex", "pty", "deny edit(src/**)", True),
        ("claude", "pty", "deny read(.env)", False),
        ("codex", "pipe", "deny edit(src/**)", True),
        ("pi", "pipe", "deny bash(curl)", True),
        ("pi", "pipe", "deny edit(src/**)", True),
        ("pi", "pipe", "deny read(.env)", False),
        ("gemini", "pipe", "deny read(.env)", False),
    ],
)
def test_a_rule_about_what_is_done_unasked_is_refused(
    agent: str, transport: str, rule: str, is_held: bool
):
    found = reasons(agent, transport, gate_of("ask", rule))
    assert (found == []) is is_held, found
    if not is_held:
        assert rule in found[0] and "without asking" in found[0]


def test_deny_all_needs_an_agent_that_asks_before_it_reads():
    assert reasons("goose", "acp", gate_of("deny-all")) == []
    assert reasons("opencode", "acp", gate_of("deny-all")) == []
    assert reasons("kimi", "acp", gate_of("deny-all"))


def test_a_mode_of_its_own_that_a_person_names_still_holds_no_rule():
    gate = gate_of("ask", "deny bash(curl)")
    assert reasons("vibe", "acp", gate) == []
    assert reasons("vibe", "acp", gate, agent_mode="ask") == []
    assert reasons("vibe", "acp", gate, agent_mode="auto-approve")
    assert reasons("vibe", "acp", gate_of("ask"), agent_mode="auto-approve") == []
    # Claude tells of every call in every mode; it asks in some only.
    assert reasons("claude", "pipe", gate, agent_mode="bypassPermissions") == []
    asking = gate_of("ask", "ask bash(curl)")
    assert reasons("claude", "pipe", asking, agent_mode="bypassPermissions")


@pytest.mark.parametrize(
    ("agent", "mode"),
    [
        ("codex", "accept-edits"),
        ("pi", "accept-edits"),
        ("pi", "full-auto"),
        ("gemini", "full-auto"),
    ],
)
async def test_a_mode_without_words_is_refused(agent: str, mode: Mode, tmp_path: Path):
    from quarterdeck.drivers.open_session import open_session

    async def sink(*_: object, **__: object) -> None:
        return

    opening = DriverSessionOptions.of(
        cwd=str(tmp_path), mode=mode, environment={"PATH": str(tmp_path)}
    )
    with pytest.raises(UnsupportedError, match="mode"):
        await open_session(agent, opening, sink, transport="pipe")


async def test_opening_fails_and_names_the_rule(tmp_path: Path):
    gate = gate_of("ask", "deny read(.env)")
    with pytest.raises(
        UnenforceableError, match=r"deny read\(.env\).*reads files without asking.*warn"
    ):
        async with drive(acp_rig(), tmp_path, gate=gate):
            raise AssertionError


async def test_by_setting_it_starts_with_a_warning(tmp_path: Path):
    around = CallContext(cwd=str(tmp_path), roots=(str(tmp_path),), on_unheld="warn")
    gate = gate_of("ask", "deny read(.env)")
    async with drive(acp_rig(), tmp_path, gate=gate, around=around) as driven:
        assert (await driven.say("echo hello")).stop == "end_turn"
    (notice,) = driven.all(NoticePosted)
    assert notice.severity == "warning" and "deny read(.env)" in (notice.description or "")


async def test_the_next_transport_is_tried_when_one_cannot_hold_a_rule(tmp_path: Path):
    from quarterdeck.drivers.open_session import start_session
    from quarterdeck.drivers.session import LinkSession
    from quarterdeck.wire.ids import new_session_id
    from tests.support.driver_rig import Driven

    driven = Driven()
    gate = gate_of("ask", "deny bash(curl)")
    around = CallContext(cwd=str(tmp_path), roots=(str(tmp_path),))
    sealed = acp_rig(asks=frozenset({"edit"}), sealed=frozenset({"run"}))
    session = driven.session = LinkSession(
        new_session_id(),
        "fake",
        DriverSessionOptions.of(cwd=str(tmp_path)),
        driven.sink,
        gate,
        around,
    )
    await start_session(session, [sealed.make, acp_rig().make])
    await session.close()
    (notice,) = driven.all(NoticePosted)
    assert "deny bash(curl)" in (notice.description or "")
    assert driven.all(SessionEnded)[0].how == "closed"


# Modes of the agent's own


async def test_an_agent_is_set_to_a_mode_in_which_it_asks(tmp_path: Path):
    async with drive(acp_rig(asking_modes=("plan",)), tmp_path) as driven:
        await driven.say("told")
    assert "plan" in driven.text
    assert driven.all(ModeChanged)[-1].mode == "plan"


async def test_an_agent_without_such_a_mode_is_not_opened(tmp_path: Path):
    with pytest.raises(UnsupportedError, match="manual"):
        async with drive(acp_rig(asking_modes=("manual",)), tmp_path):
            raise AssertionError


async def test_a_mode_that_nobody_chose_is_told_and_undone(tmp_path: Path):
    async with drive(acp_rig(asking_modes=("ask",)), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("mode plan\nwait"))
        await driven.seen(ModeChanged, lambda one: one.mode == "plan")
        notice = await driven.seen(NoticePosted)
        assert notice.severity == "error" and "'plan'" in notice.title
        await driven.seen(ModeChanged, lambda one: one.mode == "ask" and one.modes is None)
        await driven.session.interrupt()
        await turn
        driven.heard.clear()
        await driven.session.set_mode("plan")  # a person may
        await driven.say("echo hello")
    assert driven.all(NoticePosted) == []


async def test_a_person_cannot_choose_a_mode_in_which_a_rule_is_not_held(tmp_path: Path):
    gate = gate_of("ask", "deny bash(curl)")
    async with drive(acp_rig(asking_modes=("ask",)), tmp_path, gate=gate) as driven:
        with pytest.raises(UnenforceableError, match="curl"):
            await driven.session.set_mode("plan")


async def test_the_mode_of_an_agent_that_never_asks_is_fixed(tmp_path: Path):
    rig = Rig(name="codex", make=lambda: oneshot.link("codex"))
    async with drive(rig, tmp_path, mode="ask") as driven:
        change_mode(driven.session, "ask")
        with pytest.raises(UnenforceableError, match="Restart it"):
            change_mode(driven.session, "read-only")
    async with drive(acp_rig(), tmp_path) as driven:
        change_mode(driven.session, "read-only")
        assert driven.session.gate.mode == "read-only"
