"""Claude Code itself over its pipe, on the scripted model: what the fake promises, for real."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from quarterdeck.drivers.agent_description import make_launch
from quarterdeck.drivers.catalogue import find_agent
from quarterdeck.drivers.errors import LoginNeededError, OpenFailedError, UnsupportedError
from quarterdeck.drivers.pipe.claude.link import ClaudeLink
from quarterdeck.policy.gate import QuestionReply
from quarterdeck.testing.model_server import ModelServer
from quarterdeck.wire.events import (
    MessageChunk,
    ModeChanged,
    NoticePosted,
    PermissionAnswered,
    PermissionAsked,
    QuestionAsked,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    SessionEnded,
    ToolCallEnded,
    ToolCallStarted,
    UnknownEvent,
)
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.session_options import AgentMcpServer
from tests.support import real_agents
from tests.support.driver_rig import Driven, Rig, drive

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.skipif(real_agents.find("claude") is None, reason="claude is not installed"),
]
LONG = 60.0
SCRIPT = """
version = 1
default = "echo"
[[scenes.echo.replies]]
parts = [{ text = "You said: {{prompt}}" }]
[[scenes.question.replies]]
parts = [{ call = "AskUserQuestion", arguments = { questions = [{ question = "Which colour?", \
header = "Colour", multiSelect = false, options = [{ label = "red", description = "warm" }, \
{ label = "blue", description = "cold" }] }] } }]
[[scenes.question.replies]]
parts = [{ text = "It said: {{last_tool_result}}" }]
[[scenes.below.replies]]
parts = [{ call = "Task", arguments = { description = "look around", \
prompt = "scene:inner please", subagent_type = "general-purpose", run_in_background = false } }]
[[scenes.below.replies]]
parts = [{ text = "All done." }]
[[scenes.inner.replies]]
parts = [{ call = "Read", arguments = { file_path = "/etc/hostname" } }]
[[scenes.inner.replies]]
parts = [{ text = "Inner done." }]
[[scenes.long.replies]]
parts = [{ call = "Bash", arguments = { command = "touch begun.txt && sleep 61" } }]
"""
LAUNCH = make_launch(find_agent("claude"), "pipe")


@dataclass(frozen=True, slots=True)
class Lab:
    """A model, a home and a project for one test."""

    server: ModelServer
    rig: Rig
    project: Path

    def requests(self) -> list[str]:
        """What the model was asked, as text."""
        return [
            json.dumps(one.json) for one in self.server.requests if "messages" in (one.json or ())
        ]


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncGenerator[Lab]:
    project = tmp_path / "project"
    project.mkdir()
    async with ModelServer() as server:
        environment = real_agents.environment("claude", tmp_path / "home", server.url)
        rig = Rig(name="claude", make=lambda: ClaudeLink(LAUNCH), environment=environment)
        yield Lab(server, rig, project)
        assert not server.failures


@pytest.fixture
async def own_lab(tmp_path: Path) -> AsyncGenerator[Lab]:
    """A lab whose model knows other scenes."""
    project = tmp_path / "project"
    project.mkdir()
    script = tmp_path / "script.toml"
    script.write_text(SCRIPT)
    async with ModelServer(script) as server:
        environment = real_agents.environment("claude", tmp_path / "home", server.url)
        rig = Rig(name="claude", make=lambda: ClaudeLink(LAUNCH), environment=environment)
        yield Lab(server, rig, project)


@asynccontextmanager
async def claude(lab: Lab, **options: object) -> AsyncGenerator[Driven]:
    async with drive(lab.rig, lab.project, model="claude-sonnet-4-5", **options) as driven:
        yield driven


def running(lab: Lab) -> list[str]:
    """The command lines of what runs with the home of this test."""
    home = lab.rig.environment["HOME"].encode()
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if home in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
    return found


async def test_text_turns_in_one_process(lab: Lab) -> None:
    async with claude(lab) as driven:
        first = await driven.say("scene:text please", within=LONG)
        second = await driven.say("scene:think please", within=LONG)
    assert (first.stop, second.stop) == ("end_turn", "end_turn")
    assert driven.text == "Hello from the scripted model.Thought and answered."
    assert len(driven.all(MessageChunk)) > 3
    assert first.usage is not None and first.usage.total > 0
    assert first.cost is not None and first.cost.amount > 0
    assert driven.session.agent_session is not None
    assert [one.raw for one in driven.all(UnknownEvent)] == []
    assert running(lab) == []


@pytest.mark.parametrize("scene", ["write", "shell"])
async def test_an_allowed_call_is_done(lab: Lab, scene: str) -> None:
    async with claude(lab) as driven:
        turn = asyncio.create_task(driven.say(f"scene:{scene} please", within=LONG))
        asked = await driven.answer("allow_once")
        assert (await turn).stop == "end_turn"
    file = {"write": "hello.txt", "shell": "made-by-shell.txt"}[scene]
    assert (lab.project / file).exists()
    assert asked.kind == {"write": "edit", "shell": "execute"}[scene]
    (started,) = driven.all(ToolCallStarted)
    (ended,) = driven.all(ToolCallEnded)
    assert (ended.call, ended.status) == (started.call, "completed")
    assert asked.call == started.call


async def test_a_refused_call_is_not_done_and_the_model_hears_why(lab: Lab) -> None:
    async with claude(lab) as driven:
        turn = asyncio.create_task(driven.say("scene:write please", within=LONG))
        await driven.answer("reject_once", feedback="use another name")
        assert (await turn).stop == "end_turn"
        after = await driven.say("scene:text please", within=LONG)
    assert not (lab.project / "hello.txt").exists()
    assert [one.status for one in driven.all(ToolCallEnded)] == ["failed"]
    assert "use another name" in lab.requests()[-1]
    assert after.stop == "end_turn"


async def test_a_stream_is_interrupted_and_the_next_prompt_works(lab: Lab) -> None:
    async with claude(lab) as driven:
        turn = asyncio.create_task(driven.say("scene:slow please", within=LONG))
        await driven.seen(MessageChunk, within=LONG)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        after = await driven.say("scene:text please", within=LONG)
    assert after.stop == "end_turn"
    assert driven.text.endswith("Hello from the scripted model.")
    assert running(lab) == []


async def test_an_interrupt_before_the_first_word_stops_the_turn(lab: Lab) -> None:
    async with claude(lab) as driven:
        turn = asyncio.create_task(driven.say("scene:slow please", within=LONG))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        after = await driven.say("scene:text please", within=LONG)
        assert after.stop == "end_turn"
    assert driven.text == "Hello from the scripted model."


async def test_an_open_permission_is_answered_by_an_interrupt(lab: Lab) -> None:
    async with claude(lab) as driven:
        turn = asyncio.create_task(driven.say("scene:shell please", within=LONG))
        await driven.seen(ToolCallStarted, within=LONG)
        await driven.seen(PermissionAsked, within=LONG)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        (answered,) = driven.all(PermissionAnswered)
        assert answered.by.kind == "cancel"
        assert (await driven.say("scene:text please", within=LONG)).stop == "end_turn"
    assert not (lab.project / "made-by-shell.txt").exists()


@pytest.mark.parametrize("fork", [False, True])
async def test_a_resumed_session_knows_the_earlier_turn(lab: Lab, fork: bool) -> None:
    async with claude(lab) as driven:
        before = await driven.say("scene:text, the word is heliotrope", within=LONG)
        first = driven.session.agent_session
    async with claude(lab, resume=first, fork=fork) as driven:
        ended = await driven.say("scene:text again", within=LONG)
        second = driven.session.agent_session
    assert "heliotrope" in lab.requests()[-1]
    assert (first == second) is not fork
    assert before.cost is not None and ended.cost is not None
    assert ended.cost.amount < 1.5 * before.cost.amount, "the earlier turn is counted again"


@pytest.mark.parametrize(("scene", "told"), [("e400", "400"), ("e529", "529"), ("e429", "429")])
async def test_a_failure_of_the_model_fails_the_turn(lab: Lab, scene: str, told: str) -> None:
    async with claude(lab) as driven:
        ended = await driven.say(f"scene:{scene} please", within=LONG)
        # The program sends both prompts as one message, so the scene is played again.
        await driven.say("and this", within=LONG)
    assert ended.stop == "failed"
    assert told in (ended.reason or "")
    assert "and this" in lab.requests()[-1]
    assert driven.text == ""
    assert bool(driven.all(RetryScheduled)) is (scene != "e400")
    assert bool(driven.all(RateLimited)) is (scene == "e429")
    assert driven.all(SessionEnded)[0].how == "closed"


@pytest.mark.parametrize("scene", ["e500once", "e429once", "droponce"])
async def test_a_failure_that_passes_is_told_as_a_retry(lab: Lab, scene: str) -> None:
    async with claude(lab) as driven:
        ended = await driven.say(f"scene:{scene} please", within=LONG)
        after = await driven.say("scene:text please", within=LONG)
    assert (ended.stop, after.stop) == ("end_turn", "end_turn")
    assert driven.all(RetryScheduled)


@pytest.mark.parametrize("scene", ["midfail", "noend"])
async def test_an_answer_that_breaks_off_is_told(lab: Lab, scene: str) -> None:
    async with claude(lab) as driven:
        await driven.say(f"scene:{scene} please", within=LONG)
    assert any("was interrupted" in one.title for one in driven.all(NoticePosted))


async def test_mode_and_model_change_while_it_runs(lab: Lab) -> None:
    async with claude(lab) as driven:
        await driven.session.set_mode("acceptEdits")
        await driven.seen(ModeChanged, lambda one: one.mode == "acceptEdits")
        await driven.session.set_model("claude-opus-4-5")
        await driven.seen(SessionChanged, lambda one: one.model == "claude-opus-4-5")
        with pytest.raises(UnsupportedError, match="nonsense"):
            await driven.session.set_mode("nonsense")
        await driven.say("scene:write please", within=LONG)
    assert (lab.project / "hello.txt").exists()
    assert "claude-opus-4-5" in lab.requests()[-1]


async def test_options_reach_it(lab: Lab, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    server = AgentMcpServer(
        name="secretive", command=("no-such-server",), environment={"KEY": "s3cret"}
    )
    async with claude(
        lab,
        roots=(str(other),),
        agent_mode="plan",
        title="A title",
        system_prompt="Speak like a sailor.",
        mcp_servers=(server,),
    ) as driven:
        ended = await driven.say("scene:text -- please \U0001f980", within=LONG)
        assert not any("s3cret" in command for command in running(lab))
    assert ended.stop == "end_turn"
    assert "Speak like a sailor." in lab.requests()[-1]
    assert str(other) in lab.requests()[-1]


async def test_what_it_refuses_is_said(lab: Lab) -> None:
    missing = "11111111-1111-4111-8111-111111111111"
    with pytest.raises(OpenFailedError, match=f"No conversation found.*{missing}"):
        async with claude(lab, resume=missing):
            pass
    with pytest.raises(OpenFailedError) as refused:
        async with claude(lab, arguments=("--no-such-flag",)):
            pass
    assert "--no-such-flag" in refused.value.stderr
    assert running(lab) == []


async def test_without_a_login_it_does_not_open(lab: Lab) -> None:
    with pytest.raises(LoginNeededError, match="not logged in"):
        async with claude(lab, environment={"ANTHROPIC_API_KEY": ""}):
            pass
    assert running(lab) == []


async def test_a_question_of_the_model_is_answered(own_lab: Lab) -> None:
    async with claude(own_lab) as driven:
        turn = asyncio.create_task(driven.say("scene:question please", within=LONG))
        asked = await driven.seen(QuestionAsked, within=LONG)
        by = Decider(kind="person", name="test")
        reply = QuestionReply(action="accept", by=by, content={"q1": "blue"})
        assert driven.session.reply(asked.request, reply)
        assert (await turn).stop == "end_turn"
    assert "blue" in driven.text and "Which colour?" in driven.text


async def test_what_a_sub_agent_does_belongs_to_its_call(own_lab: Lab) -> None:
    async with claude(own_lab) as driven:
        turn = asyncio.create_task(driven.say("scene:below please", within=LONG))
        asked = await driven.answer("allow_once")
        assert (await turn).stop == "end_turn"
    task, read = driven.all(ToolCallStarted)
    assert (task.name, read.name, asked.call) == ("Task", "Read", read.call)
    (placed,) = [one for one in driven.heard if one.event is read]
    assert placed.parent == task.call
    assert driven.all(UnknownEvent) == []


async def test_an_interrupted_command_leaves_nothing_running(own_lab: Lab) -> None:
    async with claude(own_lab) as driven:
        turn = asyncio.create_task(driven.say("scene:long please", within=LONG))
        await driven.answer("allow_once")
        while not any("sleep" in command for command in running(own_lab)):
            await asyncio.sleep(0.05)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
    assert running(own_lab) == []
