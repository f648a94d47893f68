"""The scripted model keeps the promises of the port."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.models.errors import (
    CallError,
    ContextOverflowError,
    ModelError,
    OverloadedError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    StreamBrokenError,
    UnauthorizedError,
)
from quarterdeck.models.model import (
    Delta,
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    ToolUseDelta,
    ToolUseStarted,
)
from quarterdeck.models.script import (
    Script,
    ScriptCallPart,
    ScriptFailure,
    ScriptFault,
    ScriptReply,
    ScriptScene,
    ScriptTextPart,
    ScriptToolPart,
    load_script,
    parse_script,
)
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.wire import conversation as said
from quarterdeck.wire.usage import TokenUsage
from tests.support.deadlines import SOON

DEFAULT = load_script("default")


def spec(name: str, *properties: str) -> ToolSpec:
    declared = {p: {"type": "string"} for p in properties}
    return ToolSpec(
        name=name, description="", parameters={"type": "object", "properties": declared}
    )


TOOLS = (
    spec("bash", "command"),
    spec("read", "path"),
    spec("write", "path", "content"),
    spec("mcp__lab__echo", "text"),
)


def user(*parts: said.Part | str) -> said.Message:
    texts = tuple(said.TextPart(text=p) if isinstance(p, str) else p for p in parts)
    return said.Message(role="user", parts=texts)


def ask(*messages: said.Message | str, **more: Any) -> ModelRequest:
    told = tuple(user(m) if isinstance(m, str) else m for m in messages)
    return ModelRequest(system="You help.", messages=told, **{"tools": TOOLS, **more})


def result(call: said.ToolUsePart, text: str) -> said.ToolResultPart:
    return said.ToolResultPart(id=call.id, content=(said.TextPart(text=text),))


def calls(reply: said.Message) -> list[said.ToolUsePart]:
    return [p for p in reply.parts if isinstance(p, said.ToolUsePart)]


def text(reply: said.Message | None) -> str:
    assert reply is not None
    return "".join(p.text for p in reply.parts if isinstance(p, said.TextPart))


async def finish(deltas: AsyncIterator[Delta]) -> ReplyFinished:
    *_, last = [delta async for delta in deltas]
    assert isinstance(last, ReplyFinished)
    return last


async def say(model: ScriptedModel, *messages: said.Message | str, **more: Any) -> ReplyFinished:
    return await finish(model.stream(ask(*messages, **more)))


async def no_sleep(seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel(DEFAULT, sleep=no_sleep)


def told_by(deltas: list[Delta]) -> list[tuple[str, str]]:
    """What a reader of the deltas has heard, part by part."""
    parts: list[tuple[str, str]] = []
    for delta in deltas:
        kind = type(delta).__name__
        match delta:
            case TextDelta(piece) | ThinkingDelta(piece):
                if not parts or parts[-1][0] != kind:
                    parts.append((kind, ""))
            case ToolUseStarted(id, name):
                parts.append((f"{id} {name}", piece := ""))
            case ToolUseDelta(_, piece):
                pass
            case ReplyFinished():
                raise AssertionError("not the last")
        parts[-1] = (parts[-1][0], parts[-1][1] + piece)
    return parts


def told_in(part: said.Part) -> tuple[str, str]:
    match part:
        case said.TextPart():
            return "TextDelta", part.text
        case said.ThinkingPart():
            return "ThinkingDelta", part.text
        case said.ToolUsePart():
            return f"{part.id} {part.name}", part.arguments
        case _:
            raise AssertionError(part)


@pytest.mark.parametrize("scene", ["text", "think", "write", "twotools", "empty", "badargs"])
async def test_deltas_add_up_to_the_reply(model: ScriptedModel, scene: str) -> None:
    *deltas, last = [d async for d in model.stream(ask(f"scene:{scene}"))]
    assert isinstance(last, ReplyFinished)
    assert told_by(deltas) == [told_in(part) for part in last.reply.parts]


async def test_a_turn_goes_on_from_the_conversation_alone() -> None:
    """Each step is asked of a new model, as a process that resumes does."""
    messages = [user("scene:edit")]
    tools = (*TOOLS, spec("edit", "path", "old_string", "new_string"))
    names: list[str] = []
    while True:
        model = ScriptedModel(DEFAULT)
        done = await say(model, *messages, tools=tools)
        if done.stop == "end_turn":
            break
        (call,) = calls(done.reply)
        names.append(call.name)
        messages += [done.reply, user(result(call, "ok"))]
    assert names == ["write", "read", "edit"]
    assert text(done.reply) == "Edited it."
    done = await say(ScriptedModel(DEFAULT), *messages, done.reply, "scene:write again")
    assert [c.name for c in calls(done.reply)] == ["write"]


async def test_fifty_steps_are_numbered_and_ids_never_repeat(model: ScriptedModel) -> None:
    messages = [user("scene:many")]
    texts: list[str] = []
    ids: list[str] = []
    while (done := await say(model, *messages)).stop == "tool_use":
        (call,) = calls(done.reply)
        texts.append(text(done.reply))
        ids.append(call.id)
        messages += [done.reply, user(result(call, "a readme"))]
    assert texts == [f"Step {n}. " for n in range(1, 51)]
    assert len(set(ids)) == 50
    assert text(done.reply) == "All steps done."


async def test_several_calls_of_one_reply_are_one_round(model: ScriptedModel) -> None:
    done = await say(model, "scene:twotools")
    first, second = calls(done.reply)
    assert (first.name, second.name) == ("read", "bash")
    answered = user(result(first, "a"), result(second, "b"))
    assert text((await say(model, "scene:twotools", done.reply, answered)).reply) == "Both done."
    apart = (user(result(first, "a")), user(result(second, "b")))
    assert text((await say(model, "scene:twotools", done.reply, *apart)).reply) == "Both done."


async def test_foreign_call_ids_are_counted_by_round(model: ScriptedModel) -> None:
    use = said.ToolUsePart(id="x1", name="write", arguments="{}")
    called = said.Message(role="assistant", parts=(use,))
    done = await say(model, "scene:write", called, user(result(use, "ok")))
    assert text(done.reply) == "Wrote it. Done."


async def test_context_around_a_prompt_is_not_the_prompt(model: ScriptedModel) -> None:
    done = await say(model, user("<system-reminder>scene:e400</system-reminder>", "scene:text"))
    assert text(done.reply).startswith("Hello")
    first = await say(model, "scene:read")
    (call,) = calls(first.reply)
    answered = user(result(call, "the text"), "<system-reminder>be kind</system-reminder>")
    done = await say(model, "scene:read", first.reply, answered)
    assert text(done.reply) == "It says: the text"


async def test_templates_are_filled(model: ScriptedModel) -> None:
    assert text((await say(model, "hello you")).reply) == "You said: hello you"
    image = said.ImagePart(data="", mime_type="image/png")
    assert "image/png" in text((await say(model, user("scene:image", image))).reply)
    script = parse_script(
        '[[scenes.a.replies]]\nparts = [{call = "f", arguments = {x = ["{{args}}", 1]}}, '
        '"{{turn}} {{call}} {{scene}} {{model}}"]'
    )
    done = await say(ScriptedModel(script, name="m"), "scene:a b c")
    assert calls(done.reply)[0].arguments == '{"x": ["b c", 1]}'
    assert text(done.reply) == "1 1 a m"


async def test_unknown_scene_says_which_there_are(model: ScriptedModel) -> None:
    assert "twotools" in text((await say(model, "scene:nonsense")).reply)


async def test_scenes_are_chosen_by_condition_before_name() -> None:
    script = parse_script(
        """
        [scenes.first]
        when = { turn = 1, contains = "deploy" }
        replies = ["first"]
        [scenes.second]
        when = { matches = "(?i)^deploy .*!$" }
        replies = ["second"]
        [scenes]
        named = ["named"]
        """
    )
    model = ScriptedModel(script)
    answer = said.Message(role="assistant", parts=(said.TextPart(text="ok"),))
    assert text((await say(model, "please deploy, scene:named")).reply) == "first"
    assert text((await say(model, "hi", answer, "Deploy it!")).reply) == "second"
    assert text((await say(model, "hi", answer, "deploy scene:named")).reply) == "named"


async def test_sequence_takes_the_next_reply_whatever_is_asked() -> None:
    call = ScriptReply.of(ScriptCallPart(call="bash", arguments={"command": "ls"}))
    model = ScriptedModel(Script.sequence("one", call, "two"))
    assert text((await say(model, "a")).reply) == "one"
    assert calls((await say(model, "scene:text")).reply)[0].name == "bash"
    assert text((await say(model, "c")).reply) == "two"
    with pytest.raises(RequestRejectedError, match="over"):
        await say(model, "d")
    assert [r.messages[0] for r in model.requests] == [
        user(t) for t in ("a", "scene:text", "c", "d")
    ]


async def test_limited_trouble_in_a_sequence_comes_before_its_reply() -> None:
    troubled = ScriptReply(
        parts=(ScriptTextPart(text="fine"),),
        error=ScriptFailure(status=503, times=2),
        fault=ScriptFault(kind="drop", times=1),
    )
    model = ScriptedModel(Script.sequence(troubled, "next"))
    for kind in (OverloadedError, OverloadedError, StreamBrokenError):
        with pytest.raises(kind):
            await say(model, "a")
    assert text((await say(model, "a")).reply) == "fine"
    assert text((await say(model, "a")).reply) == "next"


@pytest.mark.parametrize(
    ("scene", "kind", "status"),
    [
        ("e400", RequestRejectedError, 400),
        ("e401", UnauthorizedError, 401),
        ("e429", RateLimitedError, 429),
        ("e500", OverloadedError, 500),
        ("e529", OverloadedError, 529),
        ("overflow", ContextOverflowError, 400),
        ("quota", QuotaExceededError, 429),
        ("hangup", StreamBrokenError, None),
    ],
)
async def test_refusals_are_errors_of_the_tree(
    model: ScriptedModel, scene: str, kind: type[CallError], status: int | None
) -> None:
    with pytest.raises(kind) as caught:
        await say(model, f"scene:{scene}")
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert caught.value.partial is None
    assert caught.value.retry_after == (1.0 if scene == "e429" else None)


async def test_limited_errors_count_for_each_prompt(model: ScriptedModel) -> None:
    for prompt in ("scene:e500once a", "scene:e500once b"):
        with pytest.raises(OverloadedError):
            await say(model, prompt)
        assert text((await say(model, prompt)).reply) == "Recovered after one 500."


@pytest.mark.parametrize("scene", ["garbage", "badjson", "drop", "noend", "stall"])
async def test_broken_streams_carry_what_had_been_said(model: ScriptedModel, scene: str) -> None:
    with pytest.raises(StreamBrokenError) as caught:
        await say(model, f"scene:{scene}")
    assert text(caught.value.partial) == f"Before {scene}. "


async def test_a_failure_in_the_middle_is_the_vendors(model: ScriptedModel) -> None:
    with pytest.raises(OverloadedError) as caught:
        await say(model, "scene:midfail")
    assert text(caught.value.partial) == "Before midfail. "


async def test_unknown_events_are_passed_over(model: ScriptedModel) -> None:
    assert text((await say(model, "scene:unknown")).reply).endswith("After it.")


async def test_usage_is_bytes_by_four_or_what_the_script_says(model: ScriptedModel) -> None:
    done = await say(model, "scene:think", tools=())
    # 24 bytes of thought, 21 of text.
    assert (done.usage.thought, done.usage.output) == (6, 12)
    longer = await say(model, "scene:think" + "é" * 200, tools=())
    assert longer.usage.input == done.usage.input + 100
    said_so = TokenUsage(input=1000, output=7, cached=900)
    fixed = ScriptedModel(Script.sequence(ScriptReply(usage=said_so)))
    assert (await say(fixed, "a")).usage == said_so


async def test_stops_are_told(model: ScriptedModel) -> None:
    assert (await say(model, "scene:cut")).stop == "max_tokens"
    assert (await say(model, "scene:refuse")).stop == "refusal"
    assert (await say(model, "scene:shell")).stop == "tool_use"


async def test_missing_tool_is_said_and_no_call_is_made(model: ScriptedModel) -> None:
    done = await say(model, "scene:write", tools=(TOOLS[0],))
    assert "no tool for 'write'" in text(done.reply)
    assert "bash" in text(done.reply)
    assert done.stop == "end_turn"


async def test_side_requests_do_not_disturb_the_script() -> None:
    model = ScriptedModel(Script.sequence("one"))
    title = ModelRequest(system="You are a title generator.", messages=(user("scene:flood"),))
    assert text((await finish(model.stream(title))).reply) == "A scripted title"
    assert text((await say(model, "a")).reply) == "one"


async def test_delays_go_through_the_given_sleep() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    part = ScriptTextPart(text=("a", "b"), pause=0.5)
    script = Script.sequence(
        ScriptReply(parts=(part, ScriptTextPart(text="c")), delay=3, pause=0.25)
    )
    await say(ScriptedModel(script, sleep=sleep), "x")
    assert slept == [3, 0.5, 0.5, 0.25]


async def test_cancelling_a_stalled_call_ends_it_at_once() -> None:
    model = ScriptedModel(DEFAULT)
    got: list[Delta] = []
    stalled = asyncio.Event()

    async def read() -> None:
        async for delta in model.stream(ask("scene:stall")):
            got.append(delta)
            if len(got) == 2:
                stalled.set()

    task = asyncio.create_task(read())
    await stalled.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)
    assert len(got) == 2


async def test_a_flood_lets_others_run_and_can_be_left() -> None:
    model = ScriptedModel(DEFAULT)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    count = 0
    async with aclosing(model.stream(ask("scene:flood"))) as stream:
        async for _ in stream:
            count += 1
            if count == 3200:
                break
    task.cancel()
    assert turns >= 100


async def test_closing_ends_calls_under_way_and_later_ones() -> None:
    model = ScriptedModel(DEFAULT)
    stream = model.stream(ask("scene:stall"))
    await anext(stream)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    await model.close()
    with pytest.raises(ModelError, match="closed"):
        await asyncio.wait_for(waiting, SOON)
    with pytest.raises(ModelError, match="closed"):
        await say(model, "scene:text")


async def test_a_file_is_a_model(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"

    def prepare() -> ScriptedModel:
        path.write_text('[scenes]\nhi = ["Hello"]')
        return ScriptedModel.load(str(path))

    model = await asyncio.to_thread(prepare)
    assert model.info.name == f"scripted/{path}"
    assert text((await say(model, "scene:hi")).reply) == "Hello"


@settings(deadline=None, max_examples=60)
@given(
    st.text(max_size=60).filter(lambda t: "{{" not in t),
    st.integers(1, 70),
    st.integers(0, 70) | st.none(),
)
def test_any_chunking_says_the_same(words: str, chunks: int, after: int | None) -> None:
    part = ScriptTextPart(text=words, chunks=chunks)
    whole = Script(scenes={"a": ScriptScene(replies=(ScriptReply(parts=(part,)),))})
    broken = ScriptReply(parts=(part,), fault=ScriptFault(kind="drop", after=after))

    async def run() -> None:
        done = await say(ScriptedModel(whole), "scene:a")
        assert text(done.reply) == words
        model = ScriptedModel(Script.sequence(broken))
        got: list[Delta] = []
        with pytest.raises(StreamBrokenError) as caught:
            async for delta in model.stream(ask("x")):
                got += [delta]
        assert len(got) <= (chunks if after is None else min(after, chunks))
        heard = "".join(d.text for d in got if isinstance(d, TextDelta))
        assert words.startswith(heard)
        assert heard == (text(caught.value.partial) if caught.value.partial else "")

    asyncio.run(run())


async def test_raw_arguments_are_sent_as_they_are() -> None:
    parts = (
        ScriptCallPart(call="f", raw="{not json"),
        ScriptToolPart(tool="shell", arguments={"command": "ls"}, raw="[]", chunks=2),
    )
    done = await say(ScriptedModel(Script.sequence(ScriptReply(parts=parts))), "x")
    assert [(c.name, c.arguments) for c in calls(done.reply)] == [
        ("f", "{not json"),
        ("bash", "[]"),
    ]
