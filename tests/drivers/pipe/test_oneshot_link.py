"""The link to agents that run once for each turn: what it starts, says, survives and leaves."""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.agent_process import Launch
from quarterdeck.drivers.errors import AgentMissingError, OpenFailedError, UnsupportedError
from quarterdeck.drivers.pipe.codex import CODEX
from quarterdeck.drivers.pipe.oneshot_link import OneshotLink
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PlanChanged,
    SessionChanged,
    SessionEnded,
    ToolCallStarted,
    TurnStarted,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.usage import TokenUsage
from tests.drivers.rigs.oneshot import LAUNCHES, RIGS, link
from tests.support.deadlines import SOON
from tests.support.driver_rig import Rig, drive

SPEAKER = """
print('{"event": "speech", "data": {"words": "hi"}}')
print('{"event": "bye"}')
"""


@pytest.fixture(params=RIGS, ids=lambda rig: rig.name)
def rig(request: pytest.FixtureRequest) -> Rig:
    return request.param


def rig_of(name: str, **changes: Any) -> Rig:
    return Rig(name=name, make=lambda: link(name, **changes))


# Whether it is there


async def test_a_missing_program_is_told_at_once(tmp_path: Path):
    launch = Launch(
        agent="codex",
        command=("no-such-codex",),
        install="npm install -g @openai/codex",
        modes=LAUNCHES["codex"].modes,
        environment={"PATH": "/nowhere:/usr/bin"},
    )
    rig = Rig(name="codex", make=lambda: OneshotLink(launch, CODEX))
    began = time.monotonic()
    with pytest.raises(AgentMissingError) as caught:
        async with drive(rig, tmp_path):
            pass
    assert time.monotonic() - began < 1
    told = str(caught.value)
    assert "no-such-codex" in told and "/nowhere:/usr/bin" in told
    assert "npm install -g @openai/codex" in told


async def test_a_directory_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(OpenFailedError, match="gone"):
        async with drive(rig_of("codex"), tmp_path / "gone"):
            pass


async def test_a_program_that_vanishes_fails_the_turn_only(tmp_path: Path):
    program = tmp_path / "agent"
    program.write_text(f"#!{sys.executable}\n{SPEAKER}")
    program.chmod(0o755)
    rig = rig_of("generic", command=(str(program),))
    async with drive(rig, tmp_path) as driven:
        program.unlink()
        ended = await driven.say("hi")
        assert ended.stop == "failed" and "agent" in (ended.reason or "")
        program.write_text(f"#!{sys.executable}\n{SPEAKER}")
        program.chmod(0o755)
        assert (await driven.say("hi")).stop == "end_turn"


async def test_nothing_runs_before_the_first_prompt(tmp_path: Path):
    rig = rig_of("generic", command=(sys.executable, "-c", "open('started', 'w')"))
    async with drive(rig, tmp_path):
        await asyncio.sleep(0)
        assert not (tmp_path / "started").exists()


# What it says and survives


async def test_the_session_is_learned_once_and_resumed(rig: Rig, tmp_path: Path):
    environment = {"FAKE_STATE": str(tmp_path / "state")}
    async with drive(rig, tmp_path, environment=environment) as driven:
        assert driven.session.agent_session is None
        await driven.say("echo one")
        first = driven.session.agent_session
        await driven.say("echo two")
        assert driven.session.agent_session == first and first
        assert len([e for e in driven.all(SessionChanged) if e.agent_session == first]) == 1
        async with drive(rig, tmp_path, environment=environment) as other:
            await other.say("history")
            assert "(nothing)" in other.text and other.session.agent_session != first


@pytest.mark.parametrize("name", ["codex", "opencode", "pi"])
async def test_a_fork_is_another_session_with_the_same_past(name: str, tmp_path: Path):
    environment = {"FAKE_STATE": str(tmp_path / "state")}
    async with drive(rig_of(name), tmp_path, environment=environment) as driven:
        await driven.say("echo one")
        theirs = driven.session.agent_session
    options = {"environment": environment, "resume": theirs}
    async with drive(rig_of(name), tmp_path, fork=True, **options) as driven:
        await driven.say("history")
        forked = driven.session.agent_session
        await driven.say("history")
        assert driven.session.agent_session == forked != theirs
    assert driven.text.count("echo one") == 2


async def test_one_that_does_not_let_it_go_back_keeps_its_session(tmp_path: Path):
    rig = Rig(
        name="pi",
        make=lambda: link("pi"),
        environment={"FAKE_STATE": str(tmp_path / "state"), "FAKE_QUIRKS": "no-fork"},
    )
    async with drive(rig, tmp_path) as driven:
        await driven.say("echo one")
        before = driven.session.agent_session
        with pytest.raises(UnsupportedError, match="An extension of it did not allow that"):
            await driven.session.rewind(1)
        assert driven.session.agent_session == before
        await driven.say("history")
        assert driven.text.endswith("echo one")


async def test_only_turns_that_it_remembers_as_they_were_asked_are_taken_back(tmp_path: Path):
    state = tmp_path / "state"
    rig = Rig(name="pi", make=lambda: link("pi"), environment={"FAKE_STATE": str(state)})
    async with drive(rig, tmp_path) as driven:
        await driven.say("echo one")
        await driven.say("echo two")
        (file,) = await asyncio.to_thread(lambda: list(state.iterdir()))
        kept = (await asyncio.to_thread(file.read_text)).replace("echo two", "echo more")
        await asyncio.to_thread(file.write_text, kept)
        with pytest.raises(UnsupportedError, match="other prompts than those that were sent"):
            await driven.session.rewind(1)


async def test_a_program_that_fails_while_it_goes_back_says_why(tmp_path: Path):
    words = {**LAUNCHES["pi"].words, "rewind": ("--no-such-word",)}
    rig = Rig(
        name="pi",
        make=lambda: link("pi", words=words),
        environment={"FAKE_STATE": str(tmp_path / "state")},
    )
    async with drive(rig, tmp_path) as driven:
        await driven.say("echo one")
        with pytest.raises(UnsupportedError, match="--no-such-word"):
            await driven.session.rewind(1)
        assert (await driven.say("history")).stop == "end_turn"


async def test_usage_is_counted_once_a_turn(rig: Rig, tmp_path: Path):
    environment = {"FAKE_STATE": str(tmp_path / "state")}
    async with drive(rig, tmp_path, environment=environment) as driven:
        turns = [await driven.say("echo hi") for _ in range(3)]
        theirs = driven.session.agent_session
    wanted = None if rig.name == "cursor-pipe" else TokenUsage(input=11, output=7)
    assert [turn.usage for turn in turns] == [wanted] * 3
    if rig.name == "codex-pipe":
        totals = [event.session_tokens for event in driven.all(UsageReported)]
        assert totals[-1] == TokenUsage(input=33, output=21)
        async with drive(rig, tmp_path, environment=environment, resume=theirs) as driven:
            assert (await driven.say("echo hi")).usage is None, "what was before is not known"
            assert (await driven.say("echo hi")).usage == wanted


async def test_a_session_that_the_agent_lost_fails_the_turn(rig: Rig, tmp_path: Path):
    environment = {"FAKE_STATE": str(tmp_path / "state")}
    async with drive(rig, tmp_path, environment=environment, resume="gone") as driven:
        ended = await driven.say("echo hi")
    assert ended.stop == "failed" and "no session found" in (ended.reason or "")


async def test_a_session_that_was_never_kept_begins_anew(rig: Rig, tmp_path: Path):
    state = tmp_path / "state"
    async with drive(rig, tmp_path, environment={"FAKE_STATE": str(state)}) as driven:
        await driven.say("error no")
        for kept in await asyncio.to_thread(lambda: list(state.iterdir())):
            kept.unlink()
        assert (await driven.say("echo again")).stop == "end_turn"
        assert [notice.severity for notice in driven.all(NoticePosted)] == ["warning"]
        for kept in await asyncio.to_thread(lambda: list(state.iterdir())):
            kept.unlink()
        assert (await driven.say("echo lost")).stop == "failed", "what was kept is not given up"
    assert driven.text == "again"


async def test_garbage_is_kept_as_unknown(rig: Rig, tmp_path: Path):
    async with drive(rig, tmp_path) as driven:
        assert (await driven.say("garbage 2\nunknown there")).stop == "end_turn"
    raws = [event.raw for event in driven.all(UnknownEvent)]
    assert raws[0] == "garbage 0 \ufffd\ufffd {]" and raws[2:4] == ["[1, 2]", "3"]
    assert {"type": "teleport", "to": "there"} in raws


async def test_a_plan_is_told(tmp_path: Path):
    for name in ("codex", "generic"):
        async with drive(rig_of(name), tmp_path) as driven:
            await driven.say("plan look,mend")
        assert [entry.content for entry in driven.all(PlanChanged)[0].entries] == ["look", "mend"]


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("codex", {}, "denied"),
        ("codex", {"mode": "full-auto"}, "allowed"),
        ("gemini", {}, "denied"),
        ("gemini", {"mode": "accept-edits"}, "denied"),
        ("gemini", {"agent_mode": "yolo"}, "allowed"),
        ("opencode", {}, "denied"),
        ("opencode", {"mode": "accept-edits"}, "denied"),
        ("opencode", {"agent_mode": "auto"}, "allowed"),
        ("cursor", {"agent_mode": "force"}, "allowed"),
        ("pi", {}, "denied"),
        ("pi", {"agent_mode": "all-tools"}, "allowed"),
        ("generic", {"mode": "full-auto"}, "allowed"),
    ],
)
async def test_the_mode_decides_what_may_run(
    tmp_path: Path, name: str, options: dict[str, Any], told: str
):
    async with drive(rig_of(name), tmp_path, **options) as driven:
        assert not driven.session.capabilities.asks
        await driven.say("ask make things")
    assert driven.text == told
    assert bool(driven.all(ToolCallStarted)) == (told == "allowed")


@pytest.mark.parametrize("name", ["codex", "gemini", "opencode", "cursor"])
async def test_leaving_with_0_and_no_result_is_a_failure_where_one_is_due(
    name: str, tmp_path: Path
):
    async with drive(rig_of(name), tmp_path) as driven:
        ended = await driven.say("silence")
        assert ended.stop == "failed" and "exit code 0" in (ended.reason or "")


async def test_a_failure_names_code_and_last_words_and_masks_secrets(tmp_path: Path):
    code = "import sys; sys.stderr.write('key sk-abcdefghijklmnop is bad'); sys.exit(7)"
    rig = rig_of("generic", command=(sys.executable, "-c", code))
    async with drive(rig, tmp_path) as driven:
        ended = await driven.say("hi")
    assert ended.stop == "failed" and "exit code 7" in (ended.reason or "")
    assert "is bad" in (ended.reason or "") and "sk-abc" not in (ended.reason or "")


async def test_a_line_without_end_is_not_waited_for(tmp_path: Path):
    code = "import sys\nfor _ in range(40): sys.stdout.write('x' * 1_000_000)"
    rig = rig_of("generic", command=(sys.executable, "-c", code))
    async with drive(rig, tmp_path) as driven:
        ended = await driven.say("hi")
        assert ended.stop == "failed" and "longer than" in (ended.reason or "")


async def test_one_that_closes_its_output_and_lives_on_is_ended(tmp_path: Path):
    async with drive(rig_of("codex"), tmp_path) as driven:
        ended = await driven.say("echo said\nhang-up")
        assert ended.stop == "failed" and "SIGTERM" in (ended.reason or "")
        assert (await driven.say("echo again")).stop == "end_turn"
    assert driven.text == "saidagain"


async def test_one_that_never_reads_its_prompt_holds_nobody(tmp_path: Path):
    code = """print('{"event": "bye"}')"""
    rig = rig_of("generic", command=(sys.executable, "-c", code))
    async with drive(rig, tmp_path) as driven:
        assert (await driven.say("x" * 2_000_000)).stop == "end_turn"


LAST = """
import os
os.write(1, b'{"event": "speech", "data": {"words": "last"}}\\n{"event": "bye"}')
os._exit(0)
"""


async def _last_lines(tmp_path: Path, count: int) -> None:
    rig = rig_of("generic", command=(sys.executable, "-S", "-c", LAST))
    async with drive(rig, tmp_path) as driven:
        for _ in range(count):
            assert (await driven.say("hi")).stop == "end_turn"
    assert driven.text == "last" * count


async def test_the_last_line_before_the_exit_is_not_lost(tmp_path: Path):
    await _last_lines(tmp_path, 50)


@pytest.mark.stress
async def test_the_last_line_before_the_exit_is_never_lost(tmp_path: Path):
    await _last_lines(tmp_path, 1000)


# Interrupting and ending


@pytest.mark.parametrize("name", ["codex", "gemini", "opencode"])
async def test_interrupting_is_quick_also_where_signals_are_ignored(name: str, tmp_path: Path):
    async with drive(rig_of(name), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("wait 600"))
        await driven.seen(MessageChunk)
        began = time.monotonic()
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert time.monotonic() - began < 5


async def test_interrupting_before_the_program_runs_cancels_too(rig: Rig, tmp_path: Path):
    async with drive(rig, tmp_path) as driven:
        for yields in range(6):
            turn = asyncio.create_task(driven.say("wait 600"))
            while not driven.session.is_running:
                await asyncio.sleep(0)
            for _ in range(yields):
                await asyncio.sleep(0)
            async with asyncio.timeout(SOON):
                while not turn.done():
                    await driven.session.interrupt()
                    await asyncio.sleep(0.01)
            assert turn.result().stop == "cancelled"
        assert (await driven.say("echo next")).stop == "end_turn"


async def test_a_held_back_consumer_holds_the_agent_back(tmp_path: Path):
    async with drive(rig_of("gemini"), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("stream 4000 100", within=2 * SOON))
        await driven.seen(TurnStarted)
        driven.hold = hold = asyncio.Event()
        try:
            await asyncio.sleep(0.3)
            held = len(driven.events)
            await asyncio.sleep(0.3)
            assert len(driven.events) == held < 3000
        finally:
            driven.hold = None
            hold.set()
        assert (await turn).stop == "end_turn"
    assert driven.text.count("chunk ") == 4000


async def test_a_closed_session_ran_nothing_that_ended_badly(tmp_path: Path):
    async with drive(rig_of("codex"), tmp_path) as driven:
        await driven.say("crash 3")
    (ended,) = driven.all(SessionEnded)
    assert (ended.how, ended.exit_code, ended.signal) == ("closed", None, None)


def test_what_the_words_allow_is_what_the_link_can():
    bare = link("codex", words={}).capabilities
    full = link("codex").capabilities
    assert (bare.resumes, bare.forks) == (False, False)
    assert (full.resumes, full.forks, full.process, full.asks) == (True, True, "turn", False)
    assert link("gemini").capabilities.streams and not link("codex").capabilities.streams


async def test_settings_are_fixed_while_it_runs(tmp_path: Path):
    async with drive(rig_of("codex"), tmp_path) as driven:
        for change in (
            driven.session.set_mode("plan"),
            driven.session.set_model("x"),
            driven.session.set_option("x", True),
            driven.session.list_sessions(),
        ):
            with pytest.raises(UnsupportedError):
                await change
