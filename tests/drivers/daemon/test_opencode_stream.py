"""A stream of events that is cut: nothing is lost and nothing is told twice."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quarterdeck.drivers.daemon.opencode.link import OpencodeLink
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.policy.rules import RuleSource
from quarterdeck.testing.daemons.opencode import FakeOpencode
from quarterdeck.wire.content import TextContent
from quarterdeck.wire.events import (
    MessageChunk,
    PermissionAsked,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
)
from tests.drivers.rigs.daemons import OPENCODE
from tests.support.contract import judge
from tests.support.driver_rig import Driven, Rig, drive

PROMPT = (
    "think it over\nstream 300\ntool look\necho zwischen\nask make things\nstream 90\necho ende ✓"
)
"""Long enough that a client which was cut off is back before the end."""
RULE = parse_rule("allow bash(make:*)", scope="user", source=RuleSource(origin="flag", where="t"))
WORDS = [f"chunk {n}\n" for n in range(300)], [f"chunk {n}\n" for n in range(90)]
SAID = "".join(WORDS[0]) + "zwischen" + "allowed" + "".join(WORDS[1]) + "ende ✓"


def rig_for(fake: FakeOpencode, *, away: float = 10.0) -> Rig:
    launch = replace(OPENCODE, url=fake.url)
    return Rig(name="opencode", make=lambda: OpencodeLink(launch, away=away, again=0.0))


def said(driven: Driven, kind: type[MessageChunk] | type[ThoughtChunk] = MessageChunk) -> str:
    contents = (event.content for event in driven.all(kind))
    return "".join(one.text for one in contents if isinstance(one, TextContent))


async def talk(cuts: list[int], cwd: Path, prompt: str = PROMPT) -> Driven:
    async with FakeOpencode(cuts=cuts) as fake:
        async with drive(rig_for(fake), cwd, gate=Gate(mode="ask", rules=(RULE,))) as driven:
            assert (await driven.say(prompt)).stop == "end_turn"
            assert (await driven.say("echo again")).stop == "end_turn"
        judge(driven.heard)
        assert not fake._server.failures
    return driven


class TestCuts:
    @settings(
        max_examples=12,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(cuts=st.lists(st.integers(min_value=60, max_value=30_000), min_size=1, max_size=5))
    @example(cuts=[61])
    @example(cuts=[3000, 4000, 5000, 6000, 700])
    def test_wherever_the_stream_is_cut_all_is_told_once(self, cuts: list[int], tmp_path: Path):
        driven = asyncio.run(talk(cuts, tmp_path))
        assert said(driven) == SAID + "again"
        assert said(driven, ThoughtChunk) == "it over"
        calls = Counter(event.call for event in driven.all(ToolCallStarted))
        assert list(calls.values()) == [1, 1]
        assert [end.status for end in driven.all(ToolCallEnded)] == ["completed"] * 2
        first, second = driven.all(TurnEnded)
        assert first.usage == second.usage and first.usage is not None
        assert (first.usage.input, first.usage.output) == (11, 7)

    @pytest.mark.stress
    @pytest.mark.timeout(1800)
    def test_every_byte(self, tmp_path: Path):
        short = PROMPT.replace("stream 300", "stream 8").replace("stream 90", "stream 3")
        words = said(asyncio.run(talk([], tmp_path, short)))
        assert 100 < len(words) < 200
        for cut in range(60, 10_500):
            driven = asyncio.run(talk([cut], tmp_path, short))
            assert said(driven) == words, cut
            assert [end.status for end in driven.all(ToolCallEnded)] == ["completed"] * 2, cut

    async def test_a_permission_that_was_asked_in_the_gap_is_asked(self, tmp_path: Path):
        async with FakeOpencode() as fake, drive(rig_for(fake), tmp_path) as driven:
            fake.publish_raw(b": so that the stream has begun\n\n")
            turn = asyncio.create_task(driven.say("wait 0.05\nask make things"))
            await driven.seen(MessageChunk)
            fake.cut_all()
            await driven.answer("allow_once")
            assert (await turn).stop == "end_turn"
            assert len(driven.all(PermissionAsked)) == 1
        assert said(driven).endswith("allowed")

    async def test_an_end_in_the_gap_ends_the_turn(self, tmp_path: Path):
        async with FakeOpencode() as fake, drive(rig_for(fake), tmp_path) as driven:
            turn = asyncio.create_task(driven.say("wait 0.05\necho done"))
            await driven.seen(MessageChunk)
            fake.cut_all(hold=0.2)
            ended = await turn
            assert ended.stop == "end_turn" and ended.usage is not None
        assert said(driven) == "waitingdone"


class TestAway:
    async def test_a_server_that_comes_back_is_used_again(self, tmp_path: Path):
        async with FakeOpencode() as fake:
            port = fake.port
            async with drive(rig_for(fake), tmp_path) as driven:
                assert (await driven.say("echo one")).stop == "end_turn"
                turn = asyncio.create_task(driven.say("wait 600"))
                await driven.seen(MessageChunk, lambda one: "waiting" in str(one.content))
                await fake.__aexit__(None, None, None)
                async with FakeOpencode(port=port, like=fake) as second:
                    ended = await turn
                    assert ended.stop in ("failed", "cancelled")
                    assert (await driven.say("echo two")).stop == "end_turn"
                    assert said(driven).endswith("two")
                    assert second.requests

    async def test_one_that_stays_away_ends_the_session(self, tmp_path: Path):
        async with FakeOpencode() as fake:
            async with drive(rig_for(fake, away=0.2), tmp_path) as driven:
                turn = asyncio.create_task(driven.say("wait 600"))
                await driven.seen(MessageChunk)
                await fake.__aexit__(None, None, None)
                assert (await turn).stop == "failed"
                over = await driven.session.wait()
            assert over.how == "broken" and "is not reachable" in (over.reason or "")
            await fake.__aenter__()
