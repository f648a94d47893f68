"""Agents that an agent starts: waited for, side by side, in the background."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.models.script import SceneConditions, Script, ScriptReply, ScriptScene
from quarterdeck.wire.conversation import Message
from quarterdeck.wire.events import (
    ChildEnded,
    ChildStarted,
    ModelCallStarted,
    PermissionAnswered,
    PermissionAsked,
    Prompted,
    SessionEnded,
    SessionOpened,
    ToolCallEnded,
    ToolCallUpdated,
    TurnEnded,
)
from quarterdeck.wire.record import Record
from tests.support.agent_tools import FakeTool, Gathering, NumberArguments, returns
from tests.support.deadlines import SOON
from tests.support.native_agents import Deck, assert_valid, call, deck, results, says, told


def play(**scenes: Any) -> Script:
    """Each scene is played for prompts that contain its name."""
    made = {}
    for name, replies in scenes.items():
        listed = replies if isinstance(replies, tuple) else (replies,)
        made[name] = ScriptScene(
            replies=tuple(ScriptReply.of(one) if isinstance(one, str) else one for one in listed),
            when=SceneConditions(contains=name),
        )
    return Script(scenes=made)


def spawn(task: str, **more: Any) -> Any:
    return call("spawn_agent", task=task, **more)


async def records(ship: Deck) -> list[Record]:
    journal = ship.session.journal
    await journal.durable(journal.last)
    return [record async for record in journal.history()]


async def of_child(ship: Deck, *kinds: type) -> list[Any]:
    found = await records(ship)
    return [r.event for r in found if r.session != ship.session.id and isinstance(r.event, kinds)]


@asynccontextmanager
async def family(tmp_path: Path, script: Script, *own: Any, **options: Any) -> AsyncIterator[Deck]:
    from quarterdeck.agent.tools.builtin import all_tools

    kept = (*await asyncio.to_thread(all_tools), *own)
    async with deck(tmp_path, script, tools=kept, **options) as ship:
        yield ship


def result_of(message: Message) -> str:
    (result,) = results(message)
    return told(result)


async def test_a_child_does_its_task_and_its_answer_is_the_result(tmp_path: Path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("hidden treasure\n")
    script = play(
        lead=(says(spawn("find treasure")), "It is in a.txt."),
        find=(says(call("grep", pattern="treasure")), "a.txt, line 1"),
    )
    async with family(tmp_path, script) as ship:
        ended = await ship.prompt("lead")
        mine = await ship.events(ChildStarted, ChildEnded, ToolCallEnded)
        everything = await records(ship)
    assert (ended.stop, ended.reason) == ("end_turn", None)
    assert [type(event).__name__ for event in mine] == [
        "ChildStarted",
        "ChildEnded",
        "ToolCallEnded",
    ]
    started, over, _ = mine
    assert (started.name, started.task, started.background) == ("explore", "find treasure", False)
    assert (over.child, over.how, over.answer) == (started.child, "completed", "a.txt, line 1")
    last = ship.requests[-1].messages
    assert_valid(last)
    assert result_of(last[-1]) == "a.txt, line 1"
    own = [record.event for record in everything if record.session == started.child]
    opened = own[0]
    assert isinstance(opened, SessionOpened)
    assert (opened.parent_session, opened.mode) == (ship.session.id, "read-only")
    assert isinstance(own[-1], SessionEnded)
    (prompted,) = [event for event in own if isinstance(event, Prompted)]
    assert (prompted.origin, prompted.sender) == ("agent", ship.session.id)


async def test_a_child_counts_in_its_parents_turn(tmp_path: Path):
    script = play(lead=(says(spawn("task one")), "done"), task="an answer of its own")
    async with family(tmp_path, script) as ship:
        ended = await ship.prompt("lead")
        (over,) = await ship.events(ChildEnded)
        calls = await ship.events(ModelCallStarted)
    assert len(calls) == 2
    assert ended.usage is not None
    assert over.usage is not None
    assert over.usage.total > 0
    assert ended.usage.total > over.usage.total


async def test_children_of_one_step_work_side_by_side(tmp_path: Path):
    gathering = Gathering()
    script = play(
        lead=(says(*(spawn(f"task {n}", profile="general") for n in range(3))), "done"),
        task=(says(call("fake")), "fine"),
    )
    async with family(tmp_path, script, FakeTool(gathering.run)) as ship:
        running = ship.start("lead")
        await gathering.wait_for(3)
        gathering.door.set()
        assert (await running).stop == "end_turn"
    assert gathering.most == 3
    assert [told(r) for r in results(ship.requests[-1].messages[-1])] == ["fine"] * 3


async def test_progress_is_shown_at_the_call(tmp_path: Path):
    script = play(lead=(says(spawn("task")), "done"), task=(says(call("fake", n=7)), "fine"))
    profile = tmp_path / "home" / "profiles" / "worker.md"
    profile.parent.mkdir(parents=True)
    profile.write_text("---\nname: explore\ntools: fake\n---\nWork.\n")
    async with family(tmp_path, script, FakeTool(returns("did"))) as ship:
        await ship.prompt("lead")
        updates = await ship.events(ToolCallUpdated)
    shown = [u.content[0].content.text for u in updates if isinstance(u.content, tuple)]
    assert shown
    assert shown[0].startswith("explore: ")


async def test_a_child_in_the_background_answers_at_the_next_step(tmp_path: Path):
    gathering = Gathering()
    script = play(
        lead=(
            says(spawn("task", profile="general", background=True)),
            says(call("children", action="wait")),
            "heard",
        ),
        task=(says(call("fake")), "background answer"),
    )
    async with family(tmp_path, script, FakeTool(gathering.run)) as ship:
        running = ship.start("lead")
        await gathering.wait_for(1)
        gathering.door.set()
        assert (await running).stop == "end_turn"
        prompts = await ship.events(Prompted)
        (over,) = await ship.events(ChildEnded)
    assert [(one.origin, one.steers) for one in prompts] == [("person", False), ("agent", True)]
    assert prompts[1].sender == over.child
    assert "background answer" in str(ship.requests[-1].messages[-1])
    assert_valid(ship.requests[-1].messages)


async def test_a_child_that_ends_between_turns_is_heard_with_the_next_prompt(tmp_path: Path):
    gathering = Gathering()
    script = play(
        lead=(says(spawn("task", profile="general", background=True)), "going on"),
        task=(says(call("fake")), "late answer"),
        next="I know",
    )
    async with family(tmp_path, script, FakeTool(gathering.run)) as ship:
        await ship.prompt("lead")
        await gathering.wait_for(1)
        gathering.door.set()
        await ship.seen(ChildEnded)
        ended = await ship.prompt("next")
        running = ship.session._conversation.messages()
        await ship.reload()
        loaded = ship.session._conversation.messages()
    assert ended.stop == "end_turn"
    asked = ship.requests[-1].messages
    assert "late answer" in str(asked)
    assert_valid(asked)
    assert running == loaded


async def test_cancelling_the_turn_ends_every_generation(tmp_path: Path):
    gathering = Gathering()
    script = play(
        lead=says(*(spawn(f"middle {n}", profile="general") for n in range(2))),
        middle=says(spawn("inner", profile="general")),
        inner=says(call("fake")),
    )
    async with family(tmp_path, script, FakeTool(gathering.run)) as ship:
        running = ship.start("lead")
        await gathering.wait_for(2)
        async with asyncio.timeout(SOON):
            await ship.session.cancel()
        assert (await running).stop == "cancelled"
        everything = await records(ship)
        sessions = {r.session for r in everything}
        assert len(sessions) == 5
        for id_ in sessions - {ship.session.id}:
            own = [r.event for r in everything if r.session == id_]
            assert isinstance(own[-1], SessionEnded)
            assert [e.stop for e in own if isinstance(e, TurnEnded)] == ["cancelled"]
        ends = await ship.events(ChildEnded)
        assert [end.how for end in ends] == ["cancelled"] * 2
        assert gathering.inside == 0


async def test_closing_the_session_ends_children_in_the_background(tmp_path: Path):
    gathering = Gathering()
    script = play(
        lead=(says(spawn("task", profile="general", background=True)), "ok"),
        task=says(call("fake")),
    )
    async with family(tmp_path, script, FakeTool(gathering.run)) as ship:
        await ship.prompt("lead")
        await gathering.wait_for(1)
        async with asyncio.timeout(SOON):
            await ship.reload()
        assert gathering.inside == 0
        (over,) = await ship.events(ChildEnded)
        assert over.how == "cancelled"
        messages = ship.session._conversation.messages()
        assert_valid(messages)
        assert "stopped before it had finished" in str(messages)


async def test_generations_are_limited(tmp_path: Path):
    script = play(
        lead=(says(spawn("one", profile="general")), "done"),
        one=(says(spawn("two", profile="general")), "one done"),
        two=(says(spawn("three", profile="general")), "two done"),
    )
    async with family(tmp_path, script) as ship:
        await ship.prompt("lead")
        ends = await of_child(ship, ToolCallEnded)
    reasons = [str(end.reason) for end in ends if end.status == "failed"]
    assert reasons == [r for r in reasons if "There is no tool 'spawn_agent'" in r] != []


async def test_the_number_of_children_is_limited(tmp_path: Path):
    gathering = Gathering()
    script = play(
        lead=(says(*(spawn(f"task {n}", profile="general") for n in range(3))), "done"),
        task=(says(call("fake")), "fine"),
    )
    flags = {"children": {"live": 2}}
    async with family(tmp_path, script, FakeTool(gathering.run), flags=flags) as ship:
        running = ship.start("lead")
        await gathering.wait_for(2)
        gathering.door.set()
        await running
    answers = [told(r) for r in results(ship.requests[-1].messages[-1])]
    assert answers[:2] == ["fine", "fine"]
    assert "2 agents are already running" in answers[2]


async def test_a_child_never_has_a_wider_mode_than_its_parent(tmp_path: Path):
    profile = tmp_path / "home" / "profiles" / "wild.md"
    profile.parent.mkdir(parents=True)
    profile.write_text("---\nname: wild\nmode: full-auto\n---\nDo as you like.\n")
    script = play(
        lead=(says(spawn("task", profile="wild")), "done"),
        task=(says(call("fake")), "fine"),
    )
    tool = FakeTool(returns("wrote"), kind="edit", writes="a.txt")
    async with family(tmp_path, script, tool, mode="read-only") as ship:
        await ship.prompt("lead")
        (opened,) = await of_child(ship, SessionOpened)
    assert opened.mode == "read-only"
    assert tool.ran == []


async def test_a_mode_that_is_narrowed_holds_for_children_at_once(tmp_path: Path):
    gathering = Gathering()
    script = play(
        lead=(says(spawn("task", profile="general")), "done"),
        task=(says(call("fake")), says(call("change")), "fine"),
    )
    change = FakeTool(returns("wrote"), name="change", kind="edit", writes="a.txt")
    tools = (FakeTool(gathering.run), change)
    async with family(tmp_path, script, *tools, mode="accept-edits") as ship:
        running = ship.start("lead")
        await gathering.wait_for(1)
        await ship.session.set_mode("read-only")
        gathering.door.set()
        await running
    assert change.ran == []


@pytest.fixture
def asking(tmp_path: Path) -> tuple[Script, FakeTool]:
    script = play(
        lead=(says(spawn("middle", profile="general")), "done"),
        middle=(says(spawn("inner", profile="general")), "middle done"),
        inner=(says(call("fake", n=5)), "inner done"),
    )
    return script, FakeTool(returns("wrote"), kind="edit", writes="a.txt")


async def test_what_a_child_asks_is_asked_in_its_parents_session(
    tmp_path: Path, asking: tuple[Script, FakeTool]
):
    script, tool = asking
    async with family(tmp_path, script, tool) as ship:
        running = ship.start("lead")
        (asked,) = await ship.asked()
        assert asked.title == "general ▸ general ▸ fake 5"
        assert asked.child is not None
        assert asked.child.path == ("general", "general")
        (started,) = await ship.events(ChildStarted)
        assert asked.call == started.call
        assert ship.answer(asked, "allow-once")
        await running
        assert [e.request for e in await ship.events(PermissionAnswered)][-1] == asked.request
        assert await of_child(ship, PermissionAsked) == []
        answers = await of_child(ship, PermissionAnswered)
        assert asked.request in [answer.request for answer in answers]
    assert len(tool.ran) == 1


async def test_feedback_reaches_the_model_of_the_child(
    tmp_path: Path, asking: tuple[Script, FakeTool]
):
    script, tool = asking
    async with family(tmp_path, script, tool) as ship:
        running = ship.start("lead")
        (asked,) = await ship.asked()
        ship.answer(asked, "reject-once", "use b.txt")
        await running
        ends = await of_child(ship, ToolCallEnded)
    assert tool.ran == []
    assert any(end.result and "They said: use b.txt" in told(end.result) for end in ends)


async def test_where_nobody_is_a_child_is_refused_with_a_reason(
    tmp_path: Path, asking: tuple[Script, FakeTool]
):
    script, tool = asking
    async with family(tmp_path, script, tool, attended=False) as ship:
        await ship.prompt("lead")
        ends = await of_child(ship, ToolCallEnded)
        assert ship.session.gate.refused_unattended == 1
    assert tool.ran == []
    assert any(end.result and "no person can be asked" in told(end.result) for end in ends)


async def test_what_is_allowed_for_the_session_holds_for_the_family(tmp_path: Path):
    script = play(
        lead=(
            says(spawn("task one", profile="general")),
            says(spawn("task two", profile="general")),
            "done",
        ),
        task=(says(call("fake", n=1)), "fine"),
    )
    tool = FakeTool(returns("wrote"), kind="edit", writes="a.txt")
    async with family(tmp_path, script, tool) as ship:
        running = ship.start("lead")
        (asked,) = await ship.asked()
        option = next(o for o in asked.options if "session" in o.option_id)
        ship.answer(asked, option.option_id)
        async with asyncio.timeout(SOON):
            await running
    assert len(tool.ran) == 2


async def test_a_question_of_a_child_is_answered_by_the_person(tmp_path: Path):
    from quarterdeck.policy.gate import QuestionReply
    from quarterdeck.wire.events import QuestionAsked
    from quarterdeck.wire.permissions import Decider

    question = {"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]}
    script = play(
        lead=(says(spawn("task", profile="general")), "done"),
        task=(says(call("ask_user", questions=[question])), "fine"),
    )
    async with family(tmp_path, script) as ship:
        running = ship.start("lead")
        (asked,) = await ship.seen(QuestionAsked)
        assert asked.text.startswith("general ▸ ")
        assert asked.child is not None
        reply = QuestionReply(action="decline", by=Decider(kind="person"))
        assert ship.session.gate.reply(asked.request, reply)
        await running
        ends = await of_child(ship, ToolCallEnded)
    assert any(end.result and "declined to answer" in told(end.result) for end in ends)


async def test_a_huge_answer_is_cut_and_can_be_read_on(tmp_path: Path):
    script = play(
        lead=(says(spawn("task")), "done"),
        task="begin " + "x" * 300_000 + " end",
        reading=(says(call("children", action="read", id="ID", offset=0)), "read"),
    )
    async with family(tmp_path, script) as ship:
        await ship.prompt("lead")
        (over,) = await ship.events(ChildEnded)
        children = ship.session.setup.workspace.get_children()
        assert children is not None
        whole = await children.answer(over.child)
    assert len(over.answer) < 25_000
    assert f"`read` and id {over.child}" in over.answer
    assert over.answer.startswith("begin ")
    assert len(whole) == 300_010


async def test_a_child_that_never_ends_is_stopped_at_its_limit(tmp_path: Path):
    script = play(
        lead=(says(spawn("task", profile="general")), "done"),
        task=ScriptReply.of(call("fake", n=1)),
    )
    flags = {"children": {"model_calls": 5}}
    async with family(tmp_path, script, FakeTool(returns("again")), flags=flags) as ship:
        ended = await ship.prompt("lead")
        (over,) = await ship.events(ChildEnded)
    assert over.how == "limit"
    assert "5 model calls" in over.answer
    assert (ended.stop, ended.reason) == ("end_turn", None)


async def test_a_child_cannot_spend_more_than_its_parents_turn(tmp_path: Path):
    script = play(
        lead=(says(spawn("task", profile="general")), "done"),
        task=ScriptReply.of(call("fake", n=1)),
    )
    limits = {"tokens": 30_000}
    async with family(tmp_path, script, FakeTool(returns("again")), limits=limits) as ship:
        ended = await ship.prompt("lead")
        (over,) = await ship.events(ChildEnded)
    assert over.how == "limit"
    assert (ended.stop, ended.reason) == ("max_tokens", "30000 tokens in one turn")


async def wait_for_ever(arguments: NumberArguments, live: Any) -> Any:
    await asyncio.Event().wait()


async def test_a_parents_time_limit_stops_its_children(tmp_path: Path):
    script = play(
        lead=says(spawn("task", profile="general")),
        task=says(call("fake")),
    )
    async with family(tmp_path, script, FakeTool(wait_for_ever), limits={"seconds": 0.3}) as ship:
        ended = await ship.prompt("lead")
        (over,) = await ship.events(ChildEnded)
    assert ended.reason == "0.3 seconds in one turn"
    assert over.how == "cancelled"


async def test_an_unknown_profile_names_those_there_are(tmp_path: Path):
    script = play(lead=(says(spawn("task", profile="wizard")), "done"))
    async with family(tmp_path, script) as ship:
        await ship.prompt("lead")
        (end,) = await ship.events(ToolCallEnded)
    assert end.reason == "There is no profile 'wizard'; available: explore, general."


async def test_a_list_of_sessions_shows_the_parent_alone(tmp_path: Path):
    script = play(lead=(says(spawn("task")), "done"), task="fine")
    async with family(tmp_path, script) as ship:
        await ship.prompt("lead")
        await records(ship)
        listed = await ship.agent.sessions()
    assert [one.id for one in listed] == [ship.session.id]


async def test_what_a_child_changes_is_undone_with_the_turn(tmp_path: Path):
    from quarterdeck.wire.events import Checkpointed

    script = play(
        lead=(says(spawn("task", profile="general")), "done"),
        task=(says(call("write", path="new.txt", content="hello")), "written"),
    )
    async with family(tmp_path, script, mode="accept-edits") as ship:
        await ship.prompt("lead")
        assert (ship.cwd / "new.txt").read_text() == "hello"
        kept = await ship.events(Checkpointed)
        assert [one.paths for one in kept] == [("new.txt",)]
        await ship.prompt("/undo")
        assert not (ship.cwd / "new.txt").exists()
        assert await of_child(ship, Checkpointed) == []


async def test_a_hook_that_refuses_calls_refuses_those_of_children(tmp_path: Path):
    script = play(
        lead=(says(spawn("task", profile="general")), "done"),
        task=(says(call("fake")), "fine"),
    )
    veto = "grep -q spawn_agent && exit 0; echo not today >&2; exit 2"
    tool = FakeTool(returns("did"))
    flags = {"hooks": {"before_tool": [{"command": veto}]}}
    async with family(tmp_path, script, tool, flags=flags) as ship:
        await ship.prompt("lead")
        ends = await of_child(ship, ToolCallEnded)
    assert tool.ran == []
    assert any("not today" in str(end.reason) for end in ends)
