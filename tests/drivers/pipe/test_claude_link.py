"""The link to Claude Code, against a program that speaks its lines."""

import asyncio
import json
import stat
import sys
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.drivers.errors import (
    AgentMissingError,
    LoginNeededError,
    OpenFailedError,
    UnsupportedError,
)
from quarterdeck.policy.gate import QuestionReply
from quarterdeck.wire.content import ImageContent, ResourceLink, text
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.events import (
    CommandsChanged,
    MessageChunk,
    ModeChanged,
    NoticePosted,
    PlanChanged,
    Prompted,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    RetryScheduled,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    ToolCallEnded,
    ToolCallStarted,
    TurnEnded,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.session_options import AgentMcpServer
from quarterdeck.wire.tool_calls import Diff
from tests.drivers.rigs.claude import LAUNCH, link
from tests.support.driver_rig import Driven, Rig, drive

PERSON = Decider(kind="person", name="test")


def claude(cwd: Path, quirks: str = "", **options: Any) -> AbstractAsyncContextManager[Driven]:
    state = cwd / "state"
    state.mkdir(exist_ok=True)
    environment = {"FAKE_STATE": str(state), "FAKE_QUIRKS": quirks}
    changes = options.pop("launch", {})
    rig = Rig(name="claude", make=lambda: link(**changes), environment=environment)
    return drive(rig, cwd, **options)


def look_at(file: Path) -> tuple[int, dict[str, Any]]:
    return stat.S_IMODE(file.stat().st_mode), json.loads(file.read_text())["mcpServers"]


async def test_what_is_known_at_the_start(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        (opened,) = driven.all(SessionOpened)
        assert (opened.agent_version, opened.mode) == ("2.1.325", "default")
        assert opened.agent_session == driven.session.agent_session
        commands = await driven.seen(CommandsChanged)
    assert [one.name for one in commands.commands] == ["compact", "clear"]


async def test_every_option_reaches_the_program(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    server = AgentMcpServer(name="tools", command=("serve", "-x"), environment={"KEY": "s3cret"})
    async with claude(
        tmp_path,
        model="some model",
        roots=(str(other),),
        title="-a title",
        agent_mode="plan",
        system_prompt="--be brief\nand kind",
        mcp_servers=(server, AgentMcpServer(name="far", url="http://127.0.0.1:9/mcp")),
        arguments=("--effort", "high"),
    ) as driven:
        await driven.say("options")
        told = json.loads(driven.text)
        (file,) = told["mcp"]
        mode, written = await asyncio.to_thread(look_at, Path(file))
    assert mode == 0o600
    assert told["model"] == "some model"
    assert told["roots"] == [str(other)]
    assert told["name"] == "-a title"
    assert told["permission_mode"] == "plan"
    assert told["system_prompt"] == "--be brief\nand kind"
    assert told["effort"] == "high"
    assert told["mcp_servers"] == ["tools", "far"]
    assert "s3cret" not in driven.text
    assert written["tools"] == {
        "type": "stdio",
        "command": "serve",
        "args": ["-x"],
        "env": {"KEY": "s3cret"},
    }
    assert written["far"]["type"] == "http"
    assert not await asyncio.to_thread(Path(file).parent.exists)


async def test_unless_told_otherwise_it_asks(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        await driven.say("options")
    told = json.loads(driven.text)
    assert told["permission_mode"] == "default"
    assert told["prompt_tool"] == "stdio"
    assert "skip" not in told["switches"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"agent_mode": "yolo"}, "'yolo'"),
        ({"fork": True}, "'resume'"),
        ({"model": "a\0b"}, "'model'"),
        ({"launch": {"words": {}}, "model": "x"}, "'model'"),
        ({"launch": {"words": {}}, "system_prompt": "x"}, "'system_prompt'"),
        ({"launch": {"words": {}}, "roots": ("/tmp",)}, "'roots'"),
        ({"launch": {"words": {}}, "mcp_servers": (AgentMcpServer(name="x", url="y"),)}, "'mcp'"),
    ],
)
async def test_what_it_cannot_take_is_refused_by_name(
    tmp_path: Path, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnsupportedError, match=named):
        async with claude(tmp_path, **options):
            pass


async def test_a_wrong_word_is_refused_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(OpenFailedError, match="unknown option '--nonsense'") as failed:
        async with claude(tmp_path, arguments=("--nonsense",)):
            pass
    assert failed.value.exit_code == 1
    assert "--nonsense" in failed.value.stderr


async def test_a_session_that_is_not_there_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(
        OpenFailedError, match="refused: No conversation found with session ID: nope"
    ):
        async with claude(tmp_path, resume="nope"):
            pass


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AgentMissingError, match=r"no-such-claude.*npm install"):
        async with claude(tmp_path, launch={"command": ("no-such-claude",)}):
            pass


async def test_without_a_login_it_does_not_open(tmp_path: Path) -> None:
    with pytest.raises(LoginNeededError, match="claude auth login"):
        async with claude(tmp_path, "logged-out"):
            pass


async def test_a_silent_program_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(OpenFailedError, match="did not answer"):
        async with claude(tmp_path, "silent", start_limit=0.5):
            pass


async def test_a_fork_has_the_past_and_another_name(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        await driven.say("echo remember me")
        first = driven.session.agent_session
    async with claude(tmp_path, resume=first, fork=True) as driven:
        await driven.say("history")
        assert driven.session.agent_session not in (None, first)
    assert driven.text == "echo remember me"


async def test_going_back_keeps_mode_and_model_that_were_changed(tmp_path: Path) -> None:
    async with claude(tmp_path, agent_mode="bypassPermissions") as driven:
        await driven.say("echo one")
        await driven.session.set_mode("plan")
        await driven.session.set_model("another")
        before = driven.session.agent_session
        await driven.say("echo two")
        await driven.session.rewind(1)
        said = len(driven.text)
        await driven.say("options")
        told = json.loads(driven.text[said:])
    assert (told["permission_mode"], told["model"]) == ("plan", "another")
    assert told["resume"] == before and told["session_id"] == driven.session.agent_session
    assert "fork" in told["switches"]


async def test_a_process_that_refuses_to_go_back_leaves_everything_as_it_was(
    tmp_path: Path,
) -> None:
    async with claude(tmp_path, quirks="keeps-conversation") as driven:
        await driven.say("echo one")
        await driven.say("echo two")
        before = driven.session.agent_session
        with pytest.raises(UnsupportedError, match="No message found"):
            await driven.session.rewind(1)
        assert driven.session.agent_session == before
        await driven.say("history")
        assert driven.text.endswith("echo one | echo two")
        await driven.session.rewind(3)  # to the beginning it goes without its help
        await driven.say("history")
    assert driven.text.endswith("(nothing)")


async def test_turns_of_before_its_start_cannot_be_taken_back(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        await driven.say("echo one")
    past = driven.session.agent_session
    async with claude(tmp_path, resume=past) as driven:
        await driven.say("echo two")
        await driven.say("echo three")
        with pytest.raises(UnsupportedError, match="since its process was started"):
            await driven.session.rewind(2)
        await driven.session.rewind(1)
        await driven.say("history")
    assert driven.text.endswith("echo one | echo two")


async def test_an_interrupted_turn_is_taken_back(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        await driven.say("echo one")
        turn = asyncio.create_task(driven.say("wait"))
        await driven.seen(MessageChunk, lambda one: "waiting" in str(one.content))
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        await driven.session.rewind(1)
        await driven.say("history")
    assert driven.text.endswith("echo one")


async def test_only_a_file_with_the_words_for_it_lets_it_go_back(tmp_path: Path) -> None:
    words = {key: value for key, value in LAUNCH.words.items() if key != "rewind"}
    async with claude(tmp_path, launch={"words": words}) as driven:
        assert not driven.session.capabilities.rewinds
    async with claude(tmp_path, launch={"dialect": "claude"}) as driven:
        assert driven.session.capabilities.rewinds


async def test_closing_while_it_goes_back_leaves_no_process(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        await driven.say("echo one")
        back = asyncio.create_task(driven.session.rewind(1))
        await asyncio.sleep(0)
        ended = await driven.session.close()
        with suppress(QuarterdeckError):
            await back
    assert ended.how == "closed"


async def test_costs_are_of_the_turn(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        await driven.say("echo one")
        await driven.say("tool\necho two")
    first, second = driven.all(TurnEnded)
    assert first.usage is not None and first.cost is not None
    assert second.usage is not None and second.cost is not None
    assert (first.usage.input, second.usage.input) == (11, 22)
    assert first.cost.amount == pytest.approx(0.0001)
    assert second.cost.amount == pytest.approx(0.0002)
    total = driven.all(UsageReported)[-1].session_cost
    assert total is not None and total.amount == pytest.approx(0.0003)


async def test_mode_and_model_change_while_it_runs(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        await driven.session.set_mode("acceptEdits")
        await driven.seen(ModeChanged, lambda one: one.mode == "acceptEdits")
        await driven.session.set_model("other")
        await driven.seen(SessionChanged, lambda one: one.model == "other")
        with pytest.raises(
            UnsupportedError, match=r"the mode 'nonsense'\. Invalid permission mode"
        ):
            await driven.session.set_mode("nonsense")
        with pytest.raises(UnsupportedError):
            await driven.session.set_option("speed", "high")
        assert (await driven.say("write made.txt hello")).stop == "end_turn"
    assert (tmp_path / "made.txt").read_text() == "hello"


async def test_a_written_file_shows_what_changed(tmp_path: Path) -> None:
    file = tmp_path / "made.txt"
    file.write_text("before")
    async with claude(tmp_path) as driven:
        turn = asyncio.create_task(driven.say("write made.txt after"))
        asked = await driven.answer("allow_once")
        await turn
    assert asked.content == (Diff(path=str(file), new_text="after"),)
    (ended,) = driven.all(ToolCallEnded)
    assert ended.content == (Diff(path=str(file), old_text="before", new_text="after"),)


async def test_a_refusal_is_told_to_the_model(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask rm things"))
        await driven.answer("reject_once", feedback="not today")
        assert (await turn).stop == "end_turn"
    assert "not today" in (driven.all(ToolCallEnded)[0].reason or "")


async def test_many_permissions_may_wait_while_it_speaks(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        turn = asyncio.create_task(driven.say("ask one\nask two\necho done"))
        await driven.answer("allow_once")
        await driven.answer("reject_once")
        await turn
    assert driven.text == "alloweddenieddone"


async def test_a_question_of_the_model_is_answered(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        turn = asyncio.create_task(driven.say("question Which one?"))
        asked = await driven.seen(QuestionAsked)
        assert asked.text == "Which one?"
        assert asked.form is not None
        choices = asked.form["properties"]["q1"]["oneOf"]
        assert [one["const"] for one in choices] == ["red", "blue"]
        assert asked.form["properties"]["q1_other"]["type"] == "string"
        assert asked.form["required"] == []
        reply = QuestionReply(action="accept", by=PERSON, content={"q1": "blue"})
        assert driven.session.reply(asked.request, reply)
        await turn
        assert driven.text == 'answer: {"Which one?": "blue"}'
        turn = asyncio.create_task(driven.say("question"))
        again = await driven.seen(QuestionAsked, lambda one: one.request != asked.request)
        assert driven.session.reply(again.request, QuestionReply(action="decline", by=PERSON))
        await turn
        assert driven.text.endswith("no answer")
        turn = asyncio.create_task(driven.say("question Which one?"))
        known = (asked.request, again.request)
        third = await driven.seen(QuestionAsked, lambda one: one.request not in known)
        reply = QuestionReply(action="accept", by=PERSON, content={"q1_other": "a green one"})
        assert driven.session.reply(third.request, reply)
        await turn
    assert driven.text.endswith('answer: {"Which one?": "a green one"}')


async def test_a_tool_server_may_ask_the_person(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        turn = asyncio.create_task(driven.say("control elicitation"))
        asked = await driven.seen(QuestionAsked)
        reply = QuestionReply(action="accept", by=PERSON, content={"a": 1})
        assert driven.session.reply(asked.request, reply)
        await turn
    assert json.loads(driven.text) == {"action": "accept", "content": {"a": 1}}
    assert len(driven.all(QuestionAnswered)) == 1


async def test_a_request_that_we_do_not_know_is_refused(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        await driven.say("control mirror")
    assert "Unsupported control request subtype: mirror" in driven.text


async def test_a_request_that_is_withdrawn_is_closed(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        turn = asyncio.create_task(driven.say("question"))
        await driven.seen(QuestionAsked)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert (await driven.say("echo next")).stop == "end_turn"
    assert driven.all(QuestionAnswered)[0].action == "cancel"


async def test_an_interrupt_at_any_moment_stops_this_turn_and_no_other(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        for steps in range(12):
            turn = asyncio.create_task(driven.say("wait 600"))
            for _ in range(steps):
                await asyncio.sleep(0)
            while not turn.done():
                await driven.session.interrupt()
                await asyncio.sleep(0)
            assert (await turn).stop == "cancelled"
            assert (await driven.say(f"echo {steps}")).stop == "end_turn"
    assert "11" in driven.text


async def test_a_program_that_does_not_obey_is_ended(tmp_path: Path) -> None:
    async with claude(tmp_path, "ignore-interrupt,deaf", cancel_limit=0.3) as driven:
        turn = asyncio.create_task(driven.say("wait 600"))
        await driven.seen(MessageChunk)
        await driven.session.interrupt()
        assert (await turn).stop in ("cancelled", "failed")
        ended = await driven.session.wait()
    assert ended.how == "broken"


async def test_what_it_says_of_its_troubles(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        ended = await driven.say("retry 429\nlimit\nbroken\nplan a,b\nsubagent look\nunknown news")
    assert ended.stop == "end_turn"
    assert [one.attempt for one in driven.all(RetryScheduled)] == [2, 2]
    limited = driven.all(RateLimited)
    assert (limited[0].retry_after, limited[1].resets_at) == (1.5, 1800000000_000_000)
    assert any("was interrupted" in one.title for one in driven.all(NoticePosted))
    assert [one.content for one in driven.all(PlanChanged)[0].entries] == ["a", "b"]
    assert [one.raw["type"] for one in driven.all(UnknownEvent)] == ["news"]
    task = next(one for one in driven.all(ToolCallStarted) if one.name == "Task")
    inside = [one for one in driven.heard if one.parent == task.call]
    assert any(isinstance(one.event, MessageChunk) for one in inside)
    assert any(isinstance(one.event, ToolCallEnded) for one in inside)


@pytest.mark.parametrize(
    ("command", "stop"),
    [
        ("stop max_tokens", "max_tokens"),
        ("stop error_max_turns", "max_turn_requests"),
        ("error out of order", "failed"),
    ],
)
async def test_how_a_turn_ends(tmp_path: Path, command: str, stop: str) -> None:
    async with claude(tmp_path) as driven:
        assert (await driven.say(command)).stop == stop
        assert (await driven.say("echo next")).stop == "end_turn"
    assert driven.text == "next"


async def test_pictures_and_links_are_sent(tmp_path: Path) -> None:
    picture = ImageContent(data="AAAA", mime_type="image/png")
    note = ResourceLink(uri=(tmp_path / "a b.txt").as_uri(), name="a b.txt")
    async with claude(tmp_path) as driven:
        await driven.session.prompt((text("echo look"), picture, note))
    assert driven.text == f"look[image]@{tmp_path}/a b.txt"


@pytest.mark.parametrize("words", ["a\0b", "\u2028line\u2029", "\x1b[31m"])
async def test_odd_characters_arrive(tmp_path: Path, words: str) -> None:
    async with claude(tmp_path) as driven:
        await driven.say(f"echo {words}")
    assert driven.text == words


async def test_half_a_character_does_not_hold_the_turn_up(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        assert (await driven.say("echo half \ud83d")).stop == "end_turn"
    assert driven.text == "half ?"


async def test_it_hangs_up_and_lives_on(tmp_path: Path) -> None:
    async with claude(tmp_path, "deaf") as driven:
        assert (await driven.say("hang-up")).stop == "failed"
        ended = await driven.session.wait()
    assert ended.how == "broken"


async def test_it_leaves_with_a_code_after_the_turn(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        assert (await driven.say("last 3")).stop == "end_turn"
        ended = await driven.session.wait()
    assert (ended.how, ended.exit_code) == ("broken", 3)


async def test_it_waits_for_a_slow_listener_and_loses_nothing(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        turn = asyncio.create_task(driven.say("stream 3000 50"))
        await driven.seen(MessageChunk)
        driven.hold = hold = asyncio.Event()
        before = len(driven.heard)
        await asyncio.sleep(0.3)
        assert len(driven.heard) == before and not turn.done()
        driven.hold = None
        hold.set()
        assert (await turn).stop == "end_turn"
    assert driven.text.count("chunk ") == 3000


async def test_it_leaves_in_good_order(tmp_path: Path) -> None:
    async with claude(tmp_path) as driven:
        assert (await driven.say("last 0")).stop == "end_turn"
        assert (await driven.session.wait()).how == "ended"
    assert len(driven.all(SessionEnded)) == 1


async def leave_right_after_the_last_line(cwd: Path, times: int) -> None:
    for number in range(times):
        async with claude(cwd) as driven:
            ended = await driven.say(f"echo {number}\nlast")
            assert (ended.stop, driven.text) == ("end_turn", str(number))
            assert ended.usage is not None and ended.usage.total == 18


@pytest.mark.timeout(120)
async def test_the_last_line_before_the_end_is_never_lost(tmp_path: Path) -> None:
    await leave_right_after_the_last_line(tmp_path, 50)


@pytest.mark.stress
@pytest.mark.timeout(1800)
async def test_the_last_line_is_never_lost_in_a_thousand_times(tmp_path: Path) -> None:
    await leave_right_after_the_last_line(tmp_path, 1000)


async def test_the_language_is_spoken_by_others_with_other_words(tmp_path: Path) -> None:
    """Qwen's variant; its words are refused by the fake, which is enough to see them."""
    with pytest.raises(OpenFailedError) as failed:
        async with claude(tmp_path, launch={"dialect": "qwen"}):
            pass
    assert "--approval-mode" in failed.value.stderr


async def test_the_fake_is_a_program_of_ours(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "quarterdeck", "testing", "claude-cli")
    async with claude(tmp_path, launch={"command": command}) as driven:
        await driven.say("echo hello")
    assert driven.text == "hello"


async def test_a_message_that_came_after_the_last_model_call_is_part_of_the_turn(
    tmp_path: Path,
) -> None:
    async with claude(tmp_path, quirks="late-steering") as driven:
        turn = asyncio.create_task(driven.say("wait 0.3\necho first"))
        await driven.seen(MessageChunk)
        assert await driven.session.steer((text("echo second"),))
        ended = await turn
        await driven.say("echo third")
    assert ended.usage is not None and ended.usage.input == 22, "both parts are counted"
    assert driven.text.endswith("firstsecondthird") or "second" in driven.text.split("first")[1]
    assert [one.steers for one in driven.all(Prompted)] == [False, True, False]
    assert len(driven.all(TurnEnded)) == 2 and not driven.all(UnknownEvent)


async def test_interrupting_drops_a_message_that_was_not_read(tmp_path: Path) -> None:
    async with claude(tmp_path, quirks="late-steering") as driven:
        turn = asyncio.create_task(driven.say("wait 600"))
        await driven.seen(MessageChunk)
        assert await driven.session.steer((text("echo second"),))
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert (await driven.say("echo third")).stop == "end_turn"
    assert "second" not in driven.text and not driven.all(UnknownEvent)


async def test_only_claude_itself_is_known_to_take_messages(tmp_path: Path) -> None:
    assert link().capabilities.steers
    assert not link(dialect="qwen").capabilities.steers
