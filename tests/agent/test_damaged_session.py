"""A session whose log is damaged goes on with what is whole, or says why it cannot."""

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec import structs

from quarterdeck.agent.resume import DamagedSessionError
from quarterdeck.agent.session_store import SessionStore
from quarterdeck.journal import JournalError
from quarterdeck.models.history_repair import repair_history
from quarterdeck.models.script import Script, ScriptReply
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.wire.events import NoticePosted, TurnEnded
from tests.support.agent_tools import FakeTool, returns
from tests.support.native_agents import Deck, assert_valid, call, deck, says

REPLIES = (says("Let me see.", call("edit", n=1)), "Done.")


def tools() -> list[FakeTool]:
    return [FakeTool(returns("wrote"), name="edit", kind="edit", writes="a.txt")]


async def converse(ship: Deck) -> Path:
    """A turn with a call that is allowed for the session; returns its log, closed."""
    running = ship.start("first")
    (asked,) = await ship.asked()
    ship.answer(asked, next(one.option_id for one in asked.options if "session" in one.option_id))
    await running
    id_ = ship.session.id
    await ship.agent.close(id_)
    return ship.places.state / "sessions" / f"{id_}.db"


async def load(ship: Deck, *replies: ScriptReply | str) -> ScriptedModel:
    """Go on with the session on a model that is open."""
    model = ScriptedModel(Script.sequence(*replies), name="test")
    options = structs.replace(ship.options, make_model=lambda _: model)
    ship.session = await ship.agent.load(ship.session.id, options=options)
    return model


def spoil(log: Path, seq: int) -> None:
    with closing(sqlite3.connect(log)) as connection:
        connection.execute("UPDATE events SET body = X'00' || body WHERE seq = ?", (seq,))
        connection.commit()


async def test_each_record_may_be_damaged(tmp_path: Path):
    async with deck(tmp_path, *REPLIES, tools=tools()) as ship:
        log = await converse(ship)
        id_ = ship.session.id
        whole = log.with_suffix(".whole")
        await asyncio.to_thread(shutil.copy, log, whole)
        with closing(sqlite3.connect(whole)) as connection:
            seqs = [seq for (seq,) in connection.execute("SELECT seq FROM events")]
        refused = 0
        for seq in seqs:
            await asyncio.to_thread(shutil.copy, whole, log)
            await asyncio.to_thread(spoil, log, seq)
            try:
                model = await load(ship, "Again.")
            except DamagedSessionError as error:
                assert "record of its directory" in str(error)
                refused += 1
                continue
            ended = await ship.prompt("go on")
            assert (seq, ended.stop, ended.reason) == (seq, "end_turn", None)
            # As every vendor's form does: a call whose end is lost gets one.
            assert_valid(repair_history(model.requests[-1].messages, owner="test"))
            (notice,) = [
                one for one in await ship.events(NoticePosted) if "cannot be read" in one.title
            ]
            assert notice.title == "1 record of this session cannot be read"
            await ship.agent.close(id_)
        assert refused == 1


async def test_what_was_allowed_is_asked_for_again(tmp_path: Path):
    async with deck(tmp_path, *REPLIES, tools=tools()) as ship:
        log = await converse(ship)
        with closing(sqlite3.connect(log)) as connection:
            (seq,) = connection.execute(
                "SELECT max(seq) FROM events WHERE type = 'message_chunk'"
            ).fetchone()
        await asyncio.to_thread(spoil, log, seq)
        await load(ship, says(call("edit", n=2)), "Done.")
        running = ship.start("more")
        (_, asked) = await ship.asked(2)
        ship.answer(asked, "reject-once")
        assert isinstance(await running, TurnEnded)


@pytest.mark.parametrize("size", [0, 10, 4096, 9000])
async def test_a_log_that_is_cut_off_is_listed_and_refused_clearly(tmp_path: Path, size: int):
    async with deck(tmp_path, *REPLIES, tools=tools()) as ship:
        log = await converse(ship)
        data = await asyncio.to_thread(log.read_bytes)
        await asyncio.to_thread(log.write_bytes, data[:size] if size else b"\x00" * len(data))
        (listed,) = await SessionStore(log.parent).sessions()
        assert listed.id == ship.session.id
        assert "damaged" in (listed.damage or "")
        with pytest.raises(JournalError, match="damaged"):
            await ship.agent.load(ship.session.id, options=ship.options)
