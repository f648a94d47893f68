"""What an agent says in a turn, as events."""

import asyncio
from pathlib import Path

import pytest

from quarterdeck.drivers.errors import UnsupportedError
from quarterdeck.policy.gate import QuestionReply
from quarterdeck.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    TextContent,
    text,
)
from quarterdeck.wire.events import (
    CommandsChanged,
    CompactionChanged,
    CompactionChunk,
    MessageChunk,
    ModeChanged,
    NoticePosted,
    OptionsChanged,
    PermissionViolated,
    PlanChanged,
    QuestionAnswered,
    QuestionAsked,
    RateLimited,
    SessionChanged,
    TerminalExited,
    TerminalOutput,
    ThoughtChunk,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
    UnknownEvent,
    UsageReported,
)
from quarterdeck.wire.permissions import Decider
from quarterdeck.wire.usage import ContextUsage, Cost, TokenUsage
from tests.drivers.rigs.acp import acp_rig
from tests.support.driver_rig import drive


async def test_each_kind_of_update_has_its_event(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        ended = await driven.say(
            "think hm\necho hi\nimage\nplan a,b\nusage 500\nmode plan\ntitle T\ncommands\n"
            "notice careful\ncompact"
        )
        assert ended.stop == "end_turn"
        assert driven.all(ThoughtChunk)[0].content == text("hm")
        said = [event.content for event in driven.all(MessageChunk)]
        assert said[0] == text("hi") and isinstance(said[1], ImageContent)
        assert [entry.content for entry in driven.all(PlanChanged)[0].entries] == ["a", "b"]
        usage = driven.all(UsageReported)[0]
        assert usage.context == ContextUsage(used=500, size=200_000)
        assert usage.session_cost == Cost(amount=0.5, currency="USD")
        assert driven.all(ModeChanged)[-1].mode == "plan"
        assert driven.all(SessionChanged)[0].title == "T"
        assert driven.all(CommandsChanged)[0].commands[0].name == "compact"
        assert (driven.all(NoticePosted)[0].title, driven.all(NoticePosted)[0].severity) == (
            "careful",
            "warning",
        )
        assert [event.status for event in driven.all(CompactionChanged)] == [
            "in_progress",
            "completed",
        ]
        assert driven.all(CompactionChunk)[0].content == text("short")
        assert driven.all(UnknownEvent) == []


async def test_a_tool_call_starts_goes_on_and_ends(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("tool look")
        kinds = [type(event) for event in driven.events if "ToolCall" in type(event).__name__]
        assert kinds == [ToolCallStarted, ToolCallUpdated, ToolCallEnded]
        assert driven.all(ToolCallEnded)[0].status == "completed"


async def test_a_call_that_never_ends_ends_with_its_turn(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("loose")
        assert driven.all(ToolCallEnded)[0].status == "failed"


async def test_a_terminal_of_its_own_is_shown(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("shell make")
        assert "".join(event.data for event in driven.all(TerminalOutput)) == "one\ntwo\n"
        order = [type(event) for event in driven.events][-7:-1]
        assert order == [
            ToolCallStarted,
            TerminalOutput,
            TerminalOutput,
            TerminalExited,
            ToolCallEnded,
            PermissionViolated,  # it ran it itself and asked nobody
        ]


async def test_strange_things_are_kept_whole(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("unknown moon\nstranger\nnotify craft/notify\nnotify _mine\nmalformed")
        kind, stranger, craft, mine, *wrong = driven.all(UnknownEvent)
        assert kind.raw == {"sessionUpdate": "teleport", "to": "moon"}
        assert stranger.raw["sessionId"] == "no-such-session"
        assert stranger.reason == "an update of another session"
        assert craft.raw == {"method": "craft/notify", "params": {"hello": "there"}}
        assert mine.raw["method"] == "_mine"
        assert wrong[0].raw == {"method": "session/update", "params": {"update": 1}}
        assert wrong[1].raw["content"] == 7
        assert all(event.origin == "fake" for event in driven.all(UnknownEvent))
        assert driven.text == "after the mistakes"


async def test_a_request_that_the_protocol_does_not_have_is_refused(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("request craft/drain\nrequest _own\nforeign-session")
        assert driven.text == "code: -32601code: -32601code: -32602"


@pytest.mark.parametrize(
    ("prompt", "stop", "reason"),
    [
        ("stop refusal", "refusal", None),
        ("stop max_tokens", "max_tokens", None),
        ("stop max_turn_requests", "max_turn_requests", None),
        ("stop out_of_tea", "end_turn", "out_of_tea"),
        ("stop error", "failed", "error"),
        ("error -32603 the model is down", "failed", "the model is down"),
        ("error it broke", "failed", "it broke"),
        ('error 400 {"error": {"message": "bad words"}}', "failed", "bad words"),
        ("error -32800 gone", "cancelled", None),
    ],
)
async def test_a_turn_ends_as_the_agent_says(
    prompt: str, stop: str, reason: str | None, tmp_path: Path
):
    async with drive(acp_rig(), tmp_path) as driven:
        ended = await driven.say(prompt)
        assert (ended.stop, ended.reason) == (stop, reason)
        assert (await driven.say("echo still here")).stop == "end_turn"


async def test_too_many_requests_are_a_rate_limit(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        await driven.say("error 429 slow down")
        assert driven.all(RateLimited)[0].reason == "slow down"


async def test_tokens_and_cost_are_the_turns(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        first = await driven.say("usage 500\ntokens 10 5 100")
        second = await driven.say("usage 700\ntokens 10 5")
        third = await driven.say("echo free")
        assert first.usage == TokenUsage(input=110, output=5, cached=100)
        assert first.cost == Cost(amount=0.5, currency="USD")
        assert second.usage == TokenUsage(input=10, output=5)
        assert second.cost == Cost(amount=0.2, currency="USD")
        assert third.cost is None


async def test_settings_are_changed_and_told(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        session = driven.session
        await session.set_mode("plan")
        await session.set_model("fake-2")
        await session.set_option("model", "fake-1")
        await driven.say("told")
        assert driven.text == "fake-1 | plan"
        assert driven.all(ModeChanged)[-1].mode == "plan"
        assert [event.model for event in driven.all(SessionChanged)] == ["fake-2", "fake-1"]
        assert driven.all(OptionsChanged)[-1].options[0].current_value == "fake-1"
        for wrong in (session.set_mode("x"), session.set_model("x"), session.set_option("x", "y")):
            with pytest.raises(UnsupportedError):
                await wrong


async def test_prompts_arrive_as_they_were(tmp_path: Path):
    words = ["--help", "-x", "naïve 🐢 عربى", "nul \0 in it", "y" * 1_000_000]
    async with drive(acp_rig(), tmp_path) as driven:
        for word in words:
            driven.heard.clear()
            await driven.say(word)
            assert driven.text == word


async def test_resources_and_images_go_along(tmp_path: Path):
    resource = EmbeddedResource(resource=ResourceContents(uri="file:///a", text="inside"))
    picture = ImageContent(data="aGk=", mime_type="image/png")
    async with drive(acp_rig(), tmp_path) as driven:
        ended = await driven.session.prompt((text("echo seen"), picture, resource))
        assert ended.stop == "end_turn"
        sound = AudioContent(data="aGk=", mime_type="audio/wav")
        ended = await driven.session.prompt((text("echo heard"), sound))
        assert ended.stop == "failed" and "audio" in (ended.reason or "")


# Questions


async def test_a_question_is_answered_by_a_person(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("elicit Which colour?"))
        asked = await driven.seen(QuestionAsked)
        assert asked.text == "Which colour?"
        assert asked.form is not None
        assert asked.form["properties"]["colour"]["enum"] == ["red", "blue"]
        by = Decider(kind="person", name="test")
        reply = QuestionReply(action="accept", by=by, content={"colour": "red"})
        assert driven.session.reply(asked.request, reply)
        await turn
        assert driven.text == "answer: accept {'colour': 'red'}"


@pytest.mark.parametrize(
    ("reply", "said"), [({"colour": {"deep": 1}}, "cancel"), (None, "decline")]
)
async def test_a_wrong_or_no_answer_is_none(
    reply: dict[str, object] | None, said: str, tmp_path: Path
):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("elicit"))
        asked = await driven.seen(QuestionAsked)
        by = Decider(kind="person", name="test")
        action = "accept" if reply is not None else "decline"
        driven.session.reply(asked.request, QuestionReply(action=action, by=by, content=reply))
        await turn
        assert driven.text == f"answer: {said} None"


async def test_a_page_to_visit_is_a_question_too(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("elicit-url https://example.com/x"))
        asked = await driven.seen(QuestionAsked)
        assert (asked.url, asked.form) == ("https://example.com/x", None)
        by = Decider(kind="person", name="test")
        driven.session.reply(asked.request, QuestionReply(action="accept", by=by))
        await turn
        assert driven.text == "answer: accept"


async def test_interrupting_cancels_a_question(tmp_path: Path):
    async with drive(acp_rig(), tmp_path) as driven:
        turn = asyncio.create_task(driven.say("elicit"))
        await driven.seen(QuestionAsked)
        await driven.session.interrupt()
        assert (await turn).stop == "cancelled"
        assert driven.all(QuestionAnswered)[0].action == "cancel"


async def test_the_text_of_a_resource_reaches_an_agent_that_takes_none():
    from quarterdeck.drivers.acp.link import blocks_for
    from quarterdeck.wire.acp.schema import PromptCapabilities

    resource = EmbeddedResource(resource=ResourceContents(uri="file:///a", text="inside"))
    blob = EmbeddedResource(resource=ResourceContents(uri="file:///b.bin", blob="aGk="))
    shown, link = blocks_for("x", (resource, blob), PromptCapabilities())
    assert isinstance(shown, TextContent) and "inside" in shown.text
    assert link.__struct_config__.tag == "resource_link"


async def test_the_echo_of_a_prompt_is_left_out_and_the_past_is_not():
    from quarterdeck.drivers.acp.settings import AcpSettings
    from quarterdeck.drivers.acp.updates import AcpTranslator
    from quarterdeck.wire.acp.schema import UserMessageChunk
    from quarterdeck.wire.events import Event

    events: list[Event] = []

    async def emit(event: Event, *, parent: object = None) -> None:
        events.append(event)

    translator = AcpTranslator("vibe", AcpSettings("vibe"), emit, print, drops_echoes=True)
    past = translator.take(UserMessageChunk(content=text("long ago")))
    assert past is not None
    await past
    translator.begin_turn()
    assert translator.take(UserMessageChunk(content=text("just now"))) is None
    assert [event.content for event in events if isinstance(event, MessageChunk)] == [
        text("long ago")
    ]
