"""What an agent said last, however long it was."""

import pytest

from quarterdeck.cli.fleet.agent_control import read_last_message, read_last_records
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.wire.content import text
from quarterdeck.wire.events import MessageChunk, Prompted, TurnEnded
from quarterdeck.wire.ids import SessionId, new_message_id
from quarterdeck.wire.session_options import SessionOptions
from tests.support.memory_fleet import FakeFleet


@pytest.fixture
async def fleet() -> FakeFleet:
    fleet = FakeFleet()
    await fleet.spawn(
        SpawnOptions(options=SessionOptions(cwd="/"), name="ann", prompt="say before")
    )
    return fleet


async def prompt(fleet: FakeFleet) -> SessionId:
    session = fleet.find("ann")
    await fleet.append(session, Prompted(content=(text("go"),), message=new_message_id()))
    return session


async def test_a_message_of_many_pieces_is_whole(fleet: FakeFleet):
    session = await prompt(fleet)
    for number in range(1_300):
        await fleet.append(session, MessageChunk(content=text(f"{number} ")))
    await fleet.append(session, TurnEnded(stop="end_turn"))
    words = await read_last_message(fleet, await fleet.agent("ann"))
    assert words.split() == [str(number) for number in range(1_300)]


async def test_words_before_the_last_prompt_or_another_message_do_not_count(fleet: FakeFleet):
    assert await read_last_message(fleet, await fleet.agent("ann")) == "before"
    session = await prompt(fleet)
    assert await read_last_message(fleet, await fleet.agent("ann")) == ""
    for words in ("first", "second"):
        chunk = MessageChunk(content=text(words), message=new_message_id())
        await fleet.append(session, chunk)
    assert await read_last_message(fleet, await fleet.agent("ann")) == "second"


async def test_the_last_records_begin_with_a_whole_message(fleet: FakeFleet):
    session = await prompt(fleet)
    for number in range(5):
        await fleet.append(session, MessageChunk(content=text(f"{number}")))
    await fleet.append(session, TurnEnded(stop="end_turn"))
    info = await fleet.agent("ann")
    seqs = [record.seq for record in await read_last_records(fleet, info, 3)]
    assert seqs == list(range(info.last_seq - 5, info.last_seq + 1))
    assert await read_last_records(fleet, info, 0) == []
    assert len(await read_last_records(fleet, info, 1)) == 1
    assert len(await read_last_records(fleet, info, 10_000)) == info.last_seq
