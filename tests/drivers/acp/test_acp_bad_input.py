"""Agents that misbehave: each has a typed outcome within a deadline, and nothing is left behind."""

import asyncio
import time
from pathlib import Path

import pytest

from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    MessageChunk,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    SessionEnded,
    TurnEnded,
)
from tests.drivers.rigs.acp import acp_rig
from tests.support.deadlines import SOON
from tests.support.driver_rig import Driven, drive


async def over(driven: Driven) -> SessionEnded:
    async with asyncio.timeout(SOON):
        return await driven.session.wait()


async def test_one_that_never_obeys_is_ended(tmp_path: Path):
    async with drive(acp_rig("--ignore-cancel"), tmp_path, cancel_limit=0.5) as driven:
        turn = asyncio.create_task(driven.say("wait"))
        await driven.seen(MessageChunk)
        began = time.monotonic()
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        ended = await over(driven)
        assert time.monotonic() - began < 10
        assert ended.how == "broken" and "did not stop" in (ended.reason or "")
        with pytest.raises(QuarterdeckError):
            await driven.say("anyone?")


async def test_one_that_closes_its_output_and_lives_on_is_ended(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        ended = await driven.say("hang-up")
        assert ended.stop == "failed" and "closed its output" in (ended.reason or "")
        assert (await over(driven)).how == "broken"


@pytest.mark.parametrize(
    ("how", "code", "signal"), [("crash 5", 5, None), ("crash SIGKILL", None, "SIGKILL")]
)
async def test_a_crash_is_told_with_its_code_and_last_words(
    how: str, code: int | None, signal: str | None, tmp_path: Path
):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = await driven.say(how)
        assert turn.stop == "failed" and str(code or signal) in (turn.reason or "")
        ended = await over(driven)
        assert (ended.how, ended.exit_code, ended.signal) == ("broken", code, signal)
        assert "about to crash" in (ended.stderr or "")
        assert driven.text == "crashing"
        assert [type(event) for event in driven.events][-2:] == [TurnEnded, SessionEnded]


async def test_a_crash_answers_what_was_asked(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask make"))
        await driven.seen(PermissionAsked)
        link = driven.session._link  # pyright: ignore[reportPrivateUsage]
        await link._child.end()  # type: ignore[union-attr]
        await turn
        await over(driven)
        kinds = [type(event) for event in driven.events]
        assert kinds.index(PermissionAnswered) < kinds.index(TurnEnded)


async def test_leaving_in_good_order_is_an_end(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("crash 0")
        assert (await over(driven)).how == "ended"


async def test_garbage_is_ignored_and_told_once(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("garbage 50\necho fine")
        await driven.say("echo on")
        assert driven.text == "after the garbagefineon"
        assert [notice.title[:8] for notice in driven.all(NoticePosted)] == ["50 lines"]


async def test_ten_megabytes_on_stderr_stop_nothing(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("stderr 10000000")
        assert driven.text == "said a lot on stderr"
    ended = driven.all(SessionEnded)[0]
    assert 0 < len(ended.stderr or "") <= 4000


async def test_wrong_and_doubled_ids_change_nothing(tmp_path: Path):
    (tmp_path / "a.txt").write_text("a")
    async with drive(acp_rig(), tmp_path) as driven:
        ended = await driven.say("wrong-ids\necho fine")
        assert ended.stop == "end_turn"
        assert driven.text == "after the wrong idsfine"
        assert (await driven.say("echo more")).stop == "end_turn"


async def test_a_long_line_is_one_message(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("long 20000000")
        assert len(driven.text) == 20_000_000


async def test_a_line_beyond_the_limit_breaks_the_session(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = await driven.say("long 34000000")
        assert turn.stop == "failed" and "longer" in (turn.reason or "")
        ended = await over(driven)
        assert ended.how == "broken" and "longer" in (ended.reason or "")


async def test_nothing_of_its_tree_is_left(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("children 2\nchildren 1 detached")
        process = driven.session._link._child.process  # type: ignore[union-attr]
    assert len(driven.all(SessionEnded)) == 1 and process.has_ended


async def test_an_opening_that_is_cancelled_leaves_nothing(tmp_path: Path):
    from quarterdeck.drivers.acp.link import AcpLink
    from tests.support.driver_rig import Rig

    links: list[AcpLink] = []
    rig = acp_rig("--silent")

    def make() -> AcpLink:
        links.append(rig.make())  # type: ignore[arg-type]
        return links[-1]

    async def open_() -> None:
        async with drive(Rig(name="acp", make=make), tmp_path):
            pass

    opening = asyncio.create_task(open_())
    while not links or links[0]._child is None:  # pyright: ignore[reportPrivateUsage]
        await asyncio.sleep(0.01)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    child = links[0]._child  # pyright: ignore[reportPrivateUsage]
    assert child is not None and child.process.exit is not None


@pytest.mark.stress
@pytest.mark.timeout(300)
async def test_the_last_words_before_an_exit_are_never_lost(tmp_path: Path):
    for round_ in range(100):
        async with drive(acp_rig(), tmp_path) as driven:
            await driven.say(f"stream 20\ncrash {round_ % 3}")
            await over(driven)
            assert driven.text.endswith("chunk 19\ncrashing")
