"""A session is its log: loaded again it sends what the running one would have sent."""

import asyncio
import datetime
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from quarterdeck.agent.native import NativeAgent
from quarterdeck.agent.resume import read_resume_state
from quarterdeck.agent.session_store import NoSuchSessionError, SessionStore
from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome
from quarterdeck.journal import JournalLockedError
from quarterdeck.models.model import Delta, ModelInfo, ModelRequest, ReplyFinished
from quarterdeck.models.script import ScriptReply
from quarterdeck.models.script import ScriptTextPart as Says
from quarterdeck.models.script import ScriptThinkingPart as Thinks
from quarterdeck.wire.content import (
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    text,
)
from quarterdeck.wire.conversation import (
    ImagePart,
    Message,
    OpaquePart,
    TextPart,
    ThinkingPart,
    ToolUsePart,
)
from quarterdeck.wire.events import (
    MessageChunk,
    ModelCallFinished,
    ModelCallStarted,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    SessionEnded,
    SessionOpened,
    SessionResumed,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from quarterdeck.wire.ids import SessionId, TurnId
from quarterdeck.wire.record import Record
from quarterdeck.wire.usage import TokenUsage
from tests.support.agent_tools import FakeTool, Gathering, NumberArguments, returns
from tests.support.native_agents import Deck, assert_valid, call, deck, results, says, told

PIXEL = "iVBORw0KGgo="


async def picture(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
    parts = (TextPart(text="a picture"), ImagePart(data=PIXEL, mime_type="image/png"))
    return ToolOutcome(result=parts, raw_output={"size": 1})


def tools() -> list[FakeTool]:
    return [
        FakeTool(picture, name="look"),
        FakeTool(returns("wrote"), name="edit", kind="edit", writes="a.txt"),
    ]


PROMPT = (
    text("What is this?"),
    ImageContent(data=PIXEL, mime_type="image/png"),
    ResourceLink(name="notes", uri="file:///notes.md"),
    EmbeddedResource(resource=ResourceContents(uri="file:///x.py", text="print(1)")),
)
REPLIES = (
    ScriptReply(parts=(Thinks(thinking="Hm. "), Says(text="Let me look."), call("look", n=1))),
    says(call("edit", n=2), call("nosuch")),
    "It is a pixel.",
    "Second.",
    "Third.",
)


async def converse(ship: Deck) -> None:
    """A turn with an image, thinking, a tool's image, a denial and a bad call."""
    running = asyncio.ensure_future(ship.session.prompt(PROMPT))
    (asked,) = await ship.asked()
    ship.answer(asked, "reject-once", "not now")
    await running


async def test_a_resumed_session_sends_what_the_running_one_would(tmp_path: Path):
    sent: dict[bool, ModelRequest] = {}
    for resumed in (False, True):
        folder = tmp_path / str(resumed)
        folder.mkdir()
        async with deck(folder, *REPLIES, tools=tools()) as ship:
            await converse(ship)
            if resumed:
                await ship.reload()
            await ship.prompt("And now?")
            sent[resumed] = ship.requests[-1]
    running, loaded = sent[False], sent[True]
    assert loaded.messages == running.messages
    assert loaded.tools == running.tools
    assert loaded.effort == running.effort
    assert loaded.system.replace("/True/", "/False/") == running.system
    assert_valid(loaded.messages)
    parts = [part for message in loaded.messages for part in message.parts]
    assert any(isinstance(part, ThinkingPart) for part in parts)
    assert ImagePart(data=PIXEL, mime_type="image/png") in loaded.messages[0].parts
    assert any("file:///notes.md" in part.text for part in parts if isinstance(part, TextPart))
    assert any("print(1)" in part.text for part in parts if isinstance(part, TextPart))
    found = [result for message in loaded.messages for result in results(message)]
    assert ImagePart(data=PIXEL, mime_type="image/png") in found[0].content
    assert "They said: not now" in told(found[1])


async def test_a_denied_call_is_in_the_log_once(tmp_path: Path):
    async with deck(tmp_path, *REPLIES, tools=tools()) as ship:
        await converse(ship)
        starts = [event.call for event in await ship.events(ToolCallStarted)]
        ends = [event.call for event in await ship.events(ToolCallEnded)]
        await ship.reload()
        await ship.prompt()
    assert len(starts) == len(set(starts)) == 3
    assert sorted(starts) == sorted(ends)


class Sealed:
    """A model whose thinking is signed, redacted and followed by a thing of its own."""

    info = ModelInfo(vendor="vendor", id="sealed", window=1000, max_output=100, thinking=True)
    reply = Message(
        role="assistant",
        parts=(
            ThinkingPart(text="So…", vendor="vendor", signature="sig=="),
            ThinkingPart(text="", vendor="vendor", redacted="opaque=="),
            OpaquePart(vendor="vendor", raw={"type": "search", "n": [1, None, 2.5]}),
            TextPart(text="Yes.", signature="vendor|seal"),
        ),
    )

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        self.requests.append(request)
        yield ReplyFinished(reply=self.reply, stop="end_turn", usage=TokenUsage(input=1, output=1))

    async def close(self) -> None:
        pass


async def test_signed_and_redacted_thinking_comes_back_unchanged(tmp_path: Path):
    model = Sealed()
    async with deck(tmp_path, tools=(), make_model=lambda _: model) as ship:
        await ship.prompt("one")
        await ship.reload()
        await ship.prompt("two")
    assert model.requests[1].messages[1] == Sealed.reply


async def test_model_mode_effort_and_title_survive(tmp_path: Path):
    async with deck(tmp_path, "one", tools=()) as ship:
        model = ship.options.make_model
        named = replace(ship.options, make_model=lambda name: renamed(model, name))
        await ship.reload(named)
        await ship.session.set_model("scripted/other")
        await ship.session.set_mode("plan")
        await ship.session.set_effort("high")
        await ship.session.set_title("Paint it blue")
        await ship.reload(named.with_options(model=None))
        session = ship.session
        assert session.model.name == "scripted/other"
        assert session.gate.mode == "plan"
        assert session.setup.effort == "high"
        assert session.title == "Paint it blue"
        # What is wished for at loading is what the log says from then on.
        await ship.reload(named.with_options(model="scripted/third", mode="ask"))
        await ship.reload(named.with_options(model=None))
        assert ship.session.model.name == "scripted/third"
        assert ship.session.gate.mode == "ask"
        fork = await ship.agent.fork(
            ship.session.id, options=named.with_options(model="scripted/fourth", mode="plan")
        )
        await ship.agent.close(fork.id)
        fork = await ship.agent.load(fork.id, options=named.with_options(model=None))
        assert (fork.model.name, fork.gate.mode) == ("scripted/fourth", "plan")


def renamed(make: object, name: str) -> object:
    from quarterdeck.models.script import Script
    from quarterdeck.models.scripted_model import ScriptedModel

    return ScriptedModel(Script(scenes={}), name=name.partition("/")[2])


async def test_the_day_that_the_model_is_told_is_the_day_the_session_began(tmp_path: Path):
    async with deck(tmp_path, "one", "two", tools=()) as ship:
        await ship.prompt()
        id_, path = ship.session.id, ship.session.journal.path
        await ship.agent.close(id_)
        await asyncio.to_thread(move_to_the_past, path)
        ship.session = await ship.agent.load(id_, options=ship.options)
        await ship.prompt()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    assert f"Today: {today}" in ship.requests[0].system
    assert "Today: 2020-01-01" in ship.requests[1].system


def move_to_the_past(path: Path) -> None:
    import sqlite3

    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE events SET time = 1577836800000000, checksum = NULL")
    connection.close()


async def test_a_fork_can_begin_at_the_end_of_any_turn(tmp_path: Path):
    replies = ("one", says(call("fake", n=1)), "two", "three", "fork one", "fork two")
    async with deck(tmp_path, *replies, tools=[FakeTool(returns("ran"))]) as ship:
        for words in ("first", "second", "third"):
            await ship.prompt(words)
        original = ship.session._conversation.messages()
        ends = [r.seq for r in await ship.records() if isinstance(r.event, TurnEnded)]
        before = await ship.records()
        lengths = []
        for seq in ends:
            fork = await ship.agent.fork(ship.session.id, until=seq, options=ship.options)
            shared = fork._conversation.messages()
            assert shared == original[: len(shared)]
            assert_valid(shared)
            lengths.append(len(shared))
        ship.session, source = fork, ship.session
        await ship.prompt("goes another way")
        opened = (await ship.events(SessionOpened))[0]
        assert (opened.forked_from, opened.forked_at) == (source.id, ends[-1])
        assert ship.requests[-1].messages[: len(original)] == original
        await ship.reload()
        assert ship.session._conversation.messages()[: len(original)] == original
        ship.session = source
        assert await ship.records() == before
    assert lengths == [2, 6, 8]


async def test_a_fork_of_a_running_turn_is_whole(tmp_path: Path):
    gathering = Gathering()
    replies = (says("Well.", call("fake", n=1), call("fake", n=2)), "done", "forked")
    async with deck(tmp_path, *replies, tools=[FakeTool(gathering.run)]) as ship:
        running = ship.start()
        await gathering.wait_for(2)
        fork = await ship.agent.fork(ship.session.id, options=ship.options)
        assert_valid(fork._conversation.messages())
        gathering.door.set()
        assert (await running).stop == "end_turn"
        ship.session = fork
        records = await ship.records()
        reasons = [r.event.reason for r in records if isinstance(r.event, TurnEnded)]
        assert reasons == ["the conversation was forked here"]
        assert not any(isinstance(record.event, SessionEnded) for record in records)


async def test_a_session_that_is_open_elsewhere_cannot_be_loaded(tmp_path: Path):
    async with deck(tmp_path, "one", tools=()) as ship:
        async with NativeAgent(ship.places, {}) as other:
            with pytest.raises(JournalLockedError):
                await other.load(ship.session.id, options=ship.options)
        assert (await ship.prompt()).stop == "end_turn"
        assert await ship.agent.load(ship.session.id) is ship.session


@pytest.mark.parametrize(
    "id_",
    ["", "nope", "../../etc/passwd", "ses_" + "0" * 26, "ses_../../x", "ses_" + "0" * 26 + "\n"],
)
async def test_an_unknown_session_is_named_and_no_file_is_touched(tmp_path: Path, id_: str):
    async with deck(tmp_path, "one", tools=()) as ship:
        before = files_below(tmp_path)
        for attempt in (ship.agent.load(id_), ship.agent.fork(id_)):
            with pytest.raises(NoSuchSessionError, match="no session"):
                await attempt
        assert ship.agent.get(id_) is None
        assert files_below(tmp_path) == before


def files_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


async def test_sessions_are_listed_newest_first_and_can_be_deleted(tmp_path: Path):
    async with deck(tmp_path, "one", "two", tools=()) as ship:
        first = ship.session
        await ship.prompt("the first")
        other = tmp_path / "other"
        other.mkdir()
        ship.session = await ship.agent.new(ship.options.at(str(other)))
        await ship.prompt("the second")
        listed = await ship.agent.sessions()
        assert [summary.title for summary in listed] == ["the second", "the first"]
        (found,) = await ship.agent.sessions(cwd=str(other))
        assert found.id == ship.session.id
        assert [s.id for s in await ship.agent.sessions(before=listed[0].updated)] == [first.id]
        await first.journal.search("first")  # makes the index, a file of its own
        assert await ship.agent.delete(first.id)
        assert not await ship.agent.delete(first.id)
        assert [s.id for s in await ship.agent.sessions()] == [ship.session.id]
        assert not list(ship.places.state.glob(f"sessions/*{first.id}*"))


async def test_damaged_logs_do_not_hide_the_others(tmp_path: Path):
    async with deck(tmp_path, "one", tools=()) as ship:
        await ship.prompt()
        folder = ship.places.state / "sessions"
        (folder / ("ses_" + "0" * 26 + ".db")).write_bytes(b"no database at all")
        (folder / ("ses_" + "1" * 26 + ".db")).write_bytes(b"")
        assert [s.id for s in await ship.agent.sessions()] == [ship.session.id]


async def test_a_log_cut_off_in_the_middle_of_a_write_opens_without_its_tail(tmp_path: Path):
    async with deck(tmp_path, "one", "two", tools=()) as ship:
        await ship.prompt("kept")
        journal, id_ = ship.session.journal.path, ship.session.id
        ahead = journal.with_name(journal.name + "-wal")
        torn = tmp_path / "torn/sessions"
        torn.mkdir(parents=True)
        (torn / journal.name).write_bytes(journal.read_bytes())
        (torn / ahead.name).write_bytes(ahead.read_bytes()[:-1000])
        async with await SessionStore(torn).open(id_) as copy:
            records = [record async for record in copy.history(session=id_)]
    assert records
    past = read_resume_state(records)
    assert_valid(past.conversation.messages())


S, T = SessionId("s"), TurnId("t")


def record(seq: int, event: object, turn: TurnId | None = T) -> Record:
    return Record(seq=seq, time=0, session=S, turn=turn, event=event)


def died_after(*events: object) -> list[Record]:
    opening = (
        SessionOpened(agent="native", cwd="/w"),
        Prompted(content=(text("go"),), message="m"),
        TurnStarted(prompt="m"),
    )
    return [record(seq, event) for seq, event in enumerate((*opening, *events), 1)]


USE = ToolUsePart(id="c1", name="bash", arguments="{}")
TWO = (USE, ToolUsePart(id="c2", name="read", arguments='{"path": "x"}'))


def test_what_the_model_was_saying_when_the_process_died_is_kept():
    past = read_resume_state(
        died_after(
            ModelCallStarted(model="m/1"),
            MessageChunk(content=text("Once "), message="a"),
            MessageChunk(content=text("upon"), message="a"),
        )
    )
    finished = past.closing[0][1]
    assert isinstance(finished, ModelCallFinished)
    assert finished.error == "the process that ran the session died"
    assert past.conversation.messages()[-1].parts == (TextPart(text="Once upon"),)


def test_calls_that_had_not_begun_when_the_process_died_get_their_results():
    reply = Message(role="assistant", parts=TWO)
    past = read_resume_state(
        died_after(
            ModelCallStarted(model="m/1"),
            ModelCallFinished(model="m/1", reply=reply),
            ToolCallStarted(call="c1", title="bash"),
            PermissionAsked(request="r", call="c1", title="bash", options=()),
        )
    )
    messages = past.conversation.messages()
    assert_valid(messages)
    assert "may have taken effect" in told(results(messages[-1])[0])
    assert "before this ran" in told(results(messages[-1])[1])
    events = [event for _, event in past.closing]
    assert sum(isinstance(event, PermissionAnswered) for event in events) == 1
    assert isinstance(events[-2], TurnEnded)
    assert isinstance(events[-1], SessionEnded)
    assert past.closing[0][0] == T


def test_a_log_that_was_closed_well_needs_nothing():
    past = read_resume_state(
        [*died_after(TurnEnded(stop="end_turn")), record(9, SessionEnded(how="closed"), None)]
    )
    assert past.closing == ()


def test_closing_events_close_a_log_for_good():
    records = died_after(ModelCallStarted(model="m/1"))
    closing = read_resume_state(records).closing
    whole = [*records, *(record(90 + i, e, turn) for i, (turn, e) in enumerate(closing))]
    assert read_resume_state(whole).closing == ()
    resumed = [*whole, record(200, SessionResumed(), None)]
    assert [type(e) for _, e in read_resume_state(resumed).closing] == [SessionEnded]
