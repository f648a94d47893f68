"""A race that is decided: contenders that lost end, whenever their turns begin."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.config.places import Places
from quarterdeck.plans.conduct import PlanConduct
from quarterdeck.plans.plan import load_plan
from quarterdeck.plans.progress import ContenderReport, ProgressLog
from quarterdeck.plans.run import create_run
from quarterdeck.plans.turn import SentPrompt
from quarterdeck.wire.events import Event, Prompted, SessionEnded, TurnStarted
from quarterdeck.wire.ids import MessageId, SessionId, TurnId
from quarterdeck.wire.record import Record
from tests.support.deadlines import SOON

SENT = SentPrompt(session="ses_a", name="a", message="msg_1")
PLAN = """[tasks.quick]
prompt = "x"
race = { agents = ["codex", "pi"], pick = "first" }
"""


class LateFleet:
    """An agent whose turn begins when it likes, and ends only when it is closed."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.closed: list[str] = []

    async def follow(self, after: int, **_: Any) -> AsyncGenerator[Record]:
        seq = after
        while True:
            seq += 1
            event = await self.events.get()
            turn = TurnId("t") if isinstance(event, TurnStarted) else None
            yield Record(seq=seq, time=seq, session=SessionId("ses_a"), turn=turn, event=event)

    async def close(self, session: str) -> None:
        self.closed.append(session)
        self.events.put_nowait(SessionEnded(how="closed"))

    async def agent(self, session: str) -> Any:
        raise AssertionError("the end of a session says enough")


@asynccontextmanager
async def conducting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_decided: bool = False
) -> AsyncGenerator[Any]:
    places, fleet = Places.find(), LateFleet()
    file = tmp_path / "work.toml"
    file.write_text(PLAN)
    checked = await asyncio.to_thread(load_plan, file)
    run = await asyncio.to_thread(create_run, places, checked, {}, "work")
    log = ProgressLog(run.progress_file)
    await asyncio.to_thread(log.__enter__)
    if is_decided:
        report = ContenderReport(contender="pi", agent="pi", state="passed")
        about = {"task": "quick", "contender": "pi", "report": report}
        await asyncio.to_thread(log.note, "contender_ended", "quick/pi/end", **about)
    plan = await asyncio.to_thread(run.load_kept_plan)
    monkeypatch.setattr(run, "load_kept_plan", lambda: plan)  # it was read in a thread
    yield PlanConduct(run, log, fleet, places), fleet  # type: ignore[arg-type]
    log.__exit__()


@pytest.mark.parametrize("began", [False, True])
async def test_a_contender_that_lost_is_closed_even_if_its_turn_begins_later(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began: bool
):
    async with conducting(tmp_path, monkeypatch) as (conduct, fleet), asyncio.timeout(SOON):
        if began:
            fleet.events.put_nowait(Prompted(content=(), message=MessageId("msg_1")))
            fleet.events.put_nowait(TurnStarted(prompt=MessageId("msg_1")))
        waiting = asyncio.ensure_future(conduct.wait_turn("quick", SENT))
        await asyncio.sleep(0)
        conduct.mark_decided("quick")
        result = await waiting
    assert (result.stop, fleet.closed) == ("withdrawn", ["ses_a"])


async def test_a_runner_that_comes_back_knows_that_the_race_is_decided(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with (
        conducting(tmp_path, monkeypatch, is_decided=True) as (conduct, fleet),
        asyncio.timeout(SOON),
    ):
        # The session ended while no runner was there: the prompt must not be sent again.
        result = await conduct.wait_turn("quick", SENT)
    assert (result.stop, fleet.closed) == ("withdrawn", ["ses_a"])
