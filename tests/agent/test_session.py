"""Sessions of one agent: side by side, with real tools, with settings that change."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from quarterdeck.agent.tools.tool import LiveCall, ToolOutcome, text_outcome
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.models.model import Model, ModelRequest
from quarterdeck.models.script import Script
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.wire.content import text
from quarterdeck.wire.events import (
    ModeChanged,
    Prompted,
    QuestionAnswered,
    SessionChanged,
    SessionEnded,
    ToolCallEnded,
)
from tests.support.agent_tools import FakeTool, Gathering, NumberArguments, returns
from tests.support.native_agents import assert_valid, call, deck, results, says, told, types


async def test_a_prompt_is_on_disk_before_the_model_is_asked(tmp_path: Path):
    seen: list[int] = []

    class Looking(ScriptedModel):
        async def stream(self, request: ModelRequest):
            session = ship.session
            records = [r async for r in session.journal.history(session=session.id)]
            seen.append(sum(isinstance(record.event, Prompted) for record in records))
            async for delta in super().stream(request):
                yield delta

    async with deck(tmp_path, tools=()) as ship:
        ship.session.setup.model = Looking(Script.sequence("one", "two"))
        await ship.prompt("one")
        await ship.prompt("two")
    assert seen == [1, 2]


async def test_real_tools_write_edit_and_run(tmp_path: Path):
    replies = (
        says("A file.", call("write", path="deck.txt", content="all hands\non deck\n")),
        says(call("read", path="deck.txt"), call("bash", command="cat deck.txt")),
        says(call("edit", path="deck.txt", old="on deck", new="below deck")),
        says(call("bash", command="cat nothing-here")),
        "Done.",
    )
    async with deck(tmp_path, *replies, mode="accept-edits") as ship:
        async with asyncio.timeout(45):
            ended = await ship.prompt()
        ends = [end.status for end in await ship.events(ToolCallEnded)]
        content = await asyncio.to_thread((ship.cwd / "deck.txt").read_text)
    assert ended.stop == "end_turn"
    assert content == "all hands\nbelow deck\n"
    assert ends[:4] == ["completed"] * 4
    second = results(ship.requests[2].messages[-1])
    assert "all hands" in told(second[0])
    assert "all hands" in told(second[1])
    assert_valid(ship.requests[-1].messages)


async def test_sessions_of_one_agent_run_side_by_side(tmp_path: Path):
    gathering = Gathering()
    tool = FakeTool(gathering.run)
    script = Script.sequence(*[says(call("fake", n=1))] * 3, "done", "done", "done")
    async with deck(tmp_path, script, tools=[tool]) as ship:
        others = [await ship.agent.new(ship.options.at(str(ship.cwd))) for _ in range(2)]
        turns = [ship.start(), *(asyncio.ensure_future(o.prompt((text("x"),))) for o in others)]
        await gathering.wait_for(3)
        await others[0].cancel()
        gathering.door.set()
        stops = [(await turn).stop for turn in turns]
    assert stops == ["end_turn", "cancelled", "end_turn"]


async def test_a_model_that_was_replaced_is_closed_when_no_turn_asks_it(tmp_path: Path):
    made: list[ScriptedModel] = []

    def make(name: str) -> Model:
        made.append(ScriptedModel(Script.sequence(says(call("fake")), "end"), name=name[9:]))
        return made[-1]

    gathering = Gathering()
    tool = FakeTool(gathering.run)
    async with deck(tmp_path, tools=[tool], make_model=make) as ship:
        running = ship.start()
        await gathering.wait_for(1)
        await ship.session.set_model("scripted/other")
        assert ship.session.model.name == "scripted/other"
        assert not made[0]._closed.is_set()
        gathering.door.set()
        assert (await running).stop == "end_turn"
        assert made[0]._closed.is_set()
        await ship.session.set_model("scripted/third")
        assert made[1]._closed.is_set()
        changed = [event.model for event in await ship.events(SessionChanged) if event.model]
    assert changed == ["scripted/other", "scripted/third"]
    assert made[2]._closed.is_set()


async def test_a_session_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path):
    def fail(name: str) -> Model:
        raise ModelSetupError("no such model; name another")

    async with deck(tmp_path, "one", tools=()) as ship:
        await ship.prompt()
        broken = replace(ship.options, make_model=fail)
        with pytest.raises(ModelSetupError):
            await ship.agent.new(broken.at(str(ship.cwd)))
        assert [found.id for found in await ship.agent.sessions()] == [ship.session.id]
        id_ = ship.session.id
        await ship.agent.close(id_)
        with pytest.raises(ModelSetupError):
            await ship.agent.load(id_, options=broken)
        session = await ship.agent.load(id_, options=ship.options)
        assert len(session._conversation.messages()) == 2


async def test_a_question_with_nobody_there_is_answered_as_cancelled(tmp_path: Path):
    async def ask(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        answer = await live.ask("Which?", {"type": "object", "properties": {}})
        return text_outcome(f"they {answer.action}")

    async with deck(tmp_path, says(call("fake")), "ok", tools=[FakeTool(ask)], attended=False) as s:
        async with asyncio.timeout(45):
            await s.prompt()
        answer = await s.only(QuestionAnswered)
    assert answer.action == "cancel"
    assert told(results(s.requests[1].messages[-1])[0]) == "they cancel"


async def test_the_first_words_become_the_title_until_somebody_names_it(tmp_path: Path):
    async with deck(tmp_path, "one", "two", tools=()) as ship:
        await ship.prompt("  Paint   the\nhull " + "blue " * 40)
        assert ship.session.title is not None
        assert ship.session.title.startswith("Paint the hull blue")
        assert len(ship.session.title) <= 60
        await ship.session.set_title("Hull")
        await ship.prompt("something else")
        assert ship.session.title == "Hull"


async def test_a_closed_session_ends_its_log_once(tmp_path: Path):
    async with deck(tmp_path, "one", tools=()) as ship:
        await ship.prompt()
        await ship.session.set_mode("plan")
        await asyncio.gather(ship.session.close(), ship.session.close())
        events = await ship.events(SessionEnded, ModeChanged)
        assert types(events) == ["ModeChanged", "SessionEnded"]
        assert events[-1] == SessionEnded(how="closed")


async def test_only_the_tools_that_were_wished_for_are_there(tmp_path: Path):
    some = [FakeTool(returns("ran"), name=name) for name in ("one", "two")]
    async with deck(tmp_path, says(call("one")), "ok", tools=some) as ship:
        options = ship.options.with_options(tools=("two",))
        ship.session = await ship.agent.new(options.at(str(ship.cwd)))
        await ship.prompt()
    assert [spec.name for spec in ship.requests[0].tools] == ["two"]
    assert "There is no tool 'one'" in told(results(ship.requests[1].messages[-1])[0])
