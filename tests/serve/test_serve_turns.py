"""Turns over the protocol: text, tools, leave, cancelling, failing."""

import asyncio
import time
from pathlib import Path

import pytest

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.acp.extensions import PROMPT_IF_IDLE, SESSION_STEERING, SteeringRequest
from quarterdeck.wire.content import (
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    text,
)
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.rpc import RpcLimits
from quarterdeck.wire.tool_calls import Diff
from tests.support.deadlines import SOON


async def test_a_text_turn_streams_before_its_answer(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        answer = await editor.prompt(session, "scene:text")
        assert answer.stop_reason == "end_turn"
        assert editor.said() == "Hello from the scripted model."
        assert len({chunk.message_id for chunk in editor.of(acp.AgentMessageChunk)}) == 1
        assert answer.usage is None and answer.meta is not None
        assert answer.meta["quarterdeck"]["usage"]["totalTokens"] > 0
        assert editor.of(acp.UsageUpdate)[-1].size == 200_000
        assert editor.of(acp.SessionInfoUpdate)[-1].title == "scene:text"
        assert editor.of(acp.UserMessageChunk) == []


async def test_thoughts_come_apart_from_the_message(connected, project: Path):
    async with connected() as editor:
        await editor.prompt(await editor.new(project), "scene:think")
        thought = "".join(chunk.content.text for chunk in editor.of(acp.AgentThoughtChunk))
        assert (thought, editor.said()) == ("Let me think about this.", "Thought and answered.")


async def test_an_allowed_call_does_its_work(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        answer = await editor.prompt(session, "scene:write")
        assert answer.stop_reason == "end_turn"
        assert (project / "hello.txt").read_text() == "hello from script\n"
        (call,) = editor.of(acp.ToolCall)
        assert (call.kind, call.name, call.status) == ("edit", "write", "pending")
        assert [each.path for each in call.locations] == [str(project / "hello.txt")]
        (diff,) = call.content
        assert isinstance(diff, Diff)
        assert (diff.old_text, diff.new_text) == (None, "hello from script\n")
        (asked,) = editor.asked
        assert asked.tool_call.tool_call_id == call.tool_call_id
        assert asked.tool_call.content == call.content
        assert editor.call_states() == ["in_progress", "completed"]


@pytest.mark.parametrize("leave", ["reject_once", "no-such-option", "cancelled"])
async def test_a_call_without_leave_does_nothing(connected, project: Path, leave: str):
    async with connected() as editor:
        editor.leave = leave
        answer = await editor.prompt(await editor.new(project), "scene:write")
        assert answer.stop_reason == "end_turn"
        assert not (project / "hello.txt").exists()
        assert editor.call_states() == ["failed"]
        last = editor.of(acp.ToolCallUpdate)[-1]
        assert last.content is not None
        assert isinstance(last.content[0], Diff)


async def test_leave_for_good_is_asked_once(connected, project: Path):
    async with connected() as editor:
        editor.leave = "allow_always"
        session = await editor.new(project)
        await editor.prompt(session, "scene:shell")
        await editor.prompt(session, "scene:shell")
        assert len(editor.asked) == 1
        assert editor.call_states()[-1] == "completed"


async def test_local_output_is_shown_as_text(connected, project: Path):
    async with connected() as editor:
        await editor.prompt(await editor.new(project), "scene:shell")
        content = editor.of(acp.ToolCallUpdate)[-1].content
        assert content is not None
        assert content[0].content.text == "```console\nscripted-output\n```"
        assert (project / "made-by-shell.txt").exists()


async def test_cancel_in_the_stream(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:slow"))
        await editor.until(lambda: "tick 2" in editor.said())
        assert await cancelled(editor, session, turn)
        assert (await editor.prompt(session, "scene:text")).stop_reason == "end_turn"


async def test_cancel_right_behind_the_prompt(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:slow"))
        await asyncio.sleep(0)
        assert await cancelled(editor, session, turn)


async def test_cancel_in_a_tool(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:longcmd"))
        await editor.until(
            lambda: any("long-start" in str(each.content) for each in editor.of(acp.ToolCallUpdate))
        )
        assert await cancelled(editor, session, turn)
        assert editor.call_states() == ["in_progress", "failed"]
        assert (await editor.prompt(session, "scene:text")).stop_reason == "end_turn"


async def test_cancel_while_leave_is_asked(connected, project: Path):
    async with connected() as editor:
        editor.leave = None
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:write"))
        await editor.until(lambda: bool(editor.asked))
        assert await cancelled(editor, session, turn)
        assert editor.call_states() == ["failed"]
        assert not (project / "hello.txt").exists()
        editor.leave = "allow_once"
        assert (await editor.prompt(session, "scene:write")).stop_reason == "end_turn"
        assert (project / "hello.txt").exists()


async def test_an_answer_that_comes_too_late_is_ignored(connected, project: Path):
    async with connected() as editor:
        editor.leave = "late"
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:write"))
        await editor.until(lambda: bool(editor.asked))
        assert await cancelled(editor, session, turn)
        editor.answer_late()
        assert (await editor.prompt(session, "scene:text")).stop_reason == "end_turn"
        assert not (project / "hello.txt").exists()


async def test_a_prompt_that_is_cancelled_as_a_request_ends_its_turn(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:slow"))
        await editor.until(lambda: bool(editor.said()))
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
        answer = await editor.prompt(session, "scene:text")  # after the turn that is being ended
        assert answer.stop_reason == "end_turn"
        codes = [m["error"]["code"] for way, m in editor.judge.frames if "error" in m]
        assert -32800 in codes


async def test_cancel_without_a_turn_does_nothing(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        await editor.cancel(session)
        await editor.cancel("ses_unknown")
        assert (await editor.prompt(session, "scene:text")).stop_reason == "end_turn"


async def test_a_prompt_during_a_turn_waits_and_has_its_own_answer(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        editor.leave = "late"
        first = asyncio.create_task(editor.prompt(session, "scene:write"))
        await editor.until(lambda: bool(editor.asked))
        second = asyncio.create_task(editor.prompt(session, "scene:refuse"))
        third = asyncio.create_task(editor.prompt(session, "scene:e401"))
        fourth = asyncio.create_task(editor.prompt(session, "scene:text"))
        await editor.connection.call(acp.SESSION_LIST, acp.ListSessionsRequest())
        assert not any(task.done() for task in (first, second, third, fourth))
        editor.answer_late()
        assert (await first).stop_reason == "end_turn"
        assert (await second).stop_reason == "refusal"
        with pytest.raises(RpcError, match="401"):
            await third
        assert (await fourth).stop_reason == "end_turn"
    answers = [m["id"] for way, m in editor.judge.frames if way == "out" and "method" not in m]
    asked = [
        m["id"]
        for way, m in editor.judge.frames
        if way == "in" and m.get("method") == "session/prompt"
    ]
    assert [id_ for id_ in answers if id_ in asked] == asked


async def test_cancel_answers_prompts_that_wait_in_their_order(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        first = asyncio.create_task(editor.prompt(session, "scene:slow"))
        await editor.until(lambda: bool(editor.said()))
        order: list[int] = []
        waiting = [asyncio.create_task(editor.prompt(session, "scene:write")) for _ in range(3)]
        for number, task in enumerate((first, *waiting)):
            task.add_done_callback(lambda _, number=number: order.append(number))
        await editor.connection.call(acp.SESSION_LIST, acp.ListSessionsRequest())
        await editor.cancel(session)
        after = asyncio.create_task(editor.prompt(session, "scene:text"))
        answers = await asyncio.gather(first, *waiting)
        assert {answer.stop_reason for answer in answers} == {"cancelled"}
        assert order == [0, 1, 2, 3]
        assert (await after).stop_reason == "end_turn"
        assert editor.asked == []  # the model never heard of those that waited


async def test_closing_answers_prompts_that_wait(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        first = asyncio.create_task(editor.prompt(session, "scene:slow"))
        await editor.until(lambda: bool(editor.said()))
        second = asyncio.create_task(editor.prompt(session, "scene:text"))
        await editor.connection.call(acp.SESSION_LIST, acp.ListSessionsRequest())
        request = acp.CloseSessionRequest(session_id=session)
        await editor.connection.call(acp.SESSION_CLOSE, request)
        assert [(await task).stop_reason for task in (first, second)] == ["cancelled"] * 2


async def test_a_waiting_prompt_that_is_taken_back_leaves_the_others(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        first = asyncio.create_task(editor.prompt(session, "scene:slow"))
        await editor.until(lambda: bool(editor.said()))
        second = asyncio.create_task(editor.prompt(session, "scene:text"))
        third = asyncio.create_task(editor.prompt(session, "scene:text"))
        await editor.connection.call(acp.SESSION_LIST, acp.ListSessionsRequest())
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (await third).stop_reason == "end_turn"


async def test_a_turn_that_fails_is_an_error_with_words(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        with pytest.raises(RpcError) as caught:
            await editor.prompt(session, "scene:e401")
        assert caught.value.data["kind"] == "turn_failed"
        assert "401" in caught.value.message
        assert (await editor.prompt(session, "scene:text")).stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("scene", "reason"), [("cut", "max_tokens"), ("refuse", "refusal"), ("empty", "end_turn")]
)
async def test_stop_reasons(connected, project: Path, scene: str, reason: str):
    async with connected() as editor:
        answer = await editor.prompt(await editor.new(project), f"scene:{scene}")
        assert answer.stop_reason == reason


async def test_images_and_resources_reach_the_model(connected, project: Path):
    image = ImageContent(data="aGVsbG8=", mime_type="image/png")
    async with connected() as editor:
        session = await editor.new(project)
        await editor.prompt(session, "scene:image", image)
        assert editor.said() == "You showed me: image/png."
        editor.forget()
        link = ResourceLink(uri="file:///a/b.py", name="b.py")
        held = EmbeddedResource(resource=ResourceContents(uri="file:///c.txt", text="inside c"))
        await editor.prompt(session, "look", link, held)
        assert "b.py" in editor.said()
        assert "inside c" in editor.said()


async def test_an_empty_prompt_is_refused(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        with pytest.raises(RpcError) as caught:
            await editor.prompt(session)
        assert caught.value.code == -32602


async def test_a_flood_arrives_whole_and_in_order(
    connected, environment: dict[str, str], project: Path, tmp_path: Path
):
    script = tmp_path / "flood.toml"
    script.write_text(
        'default = "flood"\n[[scenes.flood.replies]]\n'
        'parts = [{ text = "line {{n}}\\n", repeat = 3000 }]\n'
    )
    environment["QUARTERDECK_MODEL"] = f"scripted/{script}"
    async with connected() as editor:
        await editor.prompt(await editor.new(project), "go")
        assert editor.said().splitlines() == [f"line {number}" for number in range(1, 3001)]
        del editor.judge.frames[50:-50]  # to judge them all would take long


async def test_an_update_too_large_for_a_message_keeps_its_state(
    connected, environment: dict[str, str], project: Path, tmp_path: Path
):
    script = tmp_path / "large.toml"
    script.write_text(
        'default = "large"\n'
        "[[scenes.large.replies]]\n"
        'parts = [{ call = "write", arguments = { path = "a.txt", content = "{{prompt}}" } }]\n'
        "[[scenes.large.replies]]\n"
        'parts = [{ text = "Done." }]\n'
    )
    environment["QUARTERDECK_MODEL"] = f"scripted/{script}"
    async with connected(limits=RpcLimits(max_frame_bytes=100_000)) as editor:
        session = await editor.new(project)
        await editor.prompt(session, "x" * 60_000)
        assert editor.said() == "Done."
        assert [call.title for call in editor.of(acp.ToolCall)] == ["Create a.txt"]
        assert editor.call_states()[-1] in ("completed", "failed")


async def test_the_client_that_is_gone_ends_the_turn(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        turn = asyncio.create_task(editor.prompt(session, "scene:longcmd"))
        await editor.until(
            lambda: any("long-start" in str(each.content) for each in editor.of(acp.ToolCallUpdate))
        )
        began = time.monotonic()
        await editor.connection.close()
        assert isinstance((await asyncio.gather(turn, return_exceptions=True))[0], Exception)
    assert time.monotonic() - began < 5


async def cancelled(editor, session: str, turn: "asyncio.Task[acp.PromptResponse]") -> bool:
    """Cancel a turn; whether it was answered so, with nothing behind it."""
    began = time.monotonic()
    await editor.cancel(session)
    answer = await turn
    told = len(editor.updates)
    await asyncio.sleep(0.05)
    assert time.monotonic() - began < SOON
    assert len(editor.updates) == told
    return answer.stop_reason == "cancelled"


# Steering


async def test_a_running_turn_is_steered(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        editor.leave = "late"
        turn = asyncio.create_task(editor.prompt(session, "scene:write"))
        await editor.until(lambda: bool(editor.asked))
        steering = SteeringRequest(session_id=session, prompt=(text("rather blue"),))
        told = await editor.connection.call(SESSION_STEERING, steering)
        assert told.outcome == "injected"
        editor.answer_late()
        assert (await turn).stop_reason == "end_turn"
        editor.forget()
        await editor.load(session, project)
        shown = [one.content.text for one in editor.of(acp.UserMessageChunk)]
    assert shown == ["scene:write", "rather blue"]


async def test_without_a_turn_the_client_says_what_becomes_of_the_message(connected, project: Path):
    async with connected() as editor:
        session = await editor.new(project)
        steering = SteeringRequest(session_id=session, prompt=(text("scene:text"),))
        kept = SteeringRequest(
            session_id=session, prompt=(text("scene:text"),), meta=PROMPT_IF_IDLE
        )
        told = await editor.connection.call(SESSION_STEERING, kept)
        assert (told.outcome, told.reason) == ("promptRequired", "noRunningTurn")
        told = await editor.connection.call(SESSION_STEERING, steering)
        assert told.outcome == "startedNewTurn"
        await editor.until(lambda: editor.said() == "Hello from the scripted model.")
        with pytest.raises(RpcError, match="the prompt is empty"):
            await editor.connection.call(
                SESSION_STEERING, SteeringRequest(session_id=session, prompt=())
            )
