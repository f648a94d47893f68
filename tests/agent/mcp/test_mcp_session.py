"""Servers in a session: when their tools join, what a call of them comes to, who may call."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.agent.native import NativeSessionOptions
from quarterdeck.policy.gate import QuestionReply
from quarterdeck.wire.content import ImageContent
from quarterdeck.wire.conversation import ImagePart
from quarterdeck.wire.events import (
    NoticePosted,
    QuestionAnswered,
    QuestionAsked,
    ToolCallEnded,
    ToolCallStarted,
    ToolCallUpdated,
)
from quarterdeck.wire.tool_calls import ContentItem
from tests.support.deadlines import SOON
from tests.support.mcp_servers import definition, hostile, http_hostile
from tests.support.native_agents import PERSON, Deck, call, deck, results, says, told, types

ALLOWED: dict[str, Any] = {"permissions": {"allow": ["mcp(bad)"]}}
PATIENT: dict[str, Any] = {"tools": {"mcp": {"wait": SOON}}}
IMPATIENT: dict[str, Any] = {"tools": {"mcp": {"wait": 0.05}}}


def use(tool: str, **arguments: Any):
    return says(call(f"mcp__bad__{tool}", **arguments))


def mcp_tools(opened: Deck, request: int = -1) -> list[str]:
    names = [spec.name for spec in opened.requests[request].tools]
    return [name.removeprefix("mcp__bad__") for name in names if name.startswith("mcp__")]


def heard(opened: Deck) -> str:
    """What the model was told of the last call."""
    (result,) = results(opened.requests[-1].messages[-1])
    return told(result)


async def notices(opened: Deck) -> list[str]:
    return [notice.title for notice in await opened.events(NoticePosted)]


async def test_tools_of_a_server_follow_ours_by_name_and_can_be_called(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("echo", text="hi"), "bye", **options) as opened:
        assert (await opened.prompt()).stop == "end_turn"
        names = [spec.name for spec in opened.requests[0].tools]
        ours = [name for name in names if not name.startswith("mcp__")]
        assert names[: len(ours)] == ours and "bash" in ours
        assert mcp_tools(opened) == sorted(mcp_tools(opened))
        assert opened.requests[0].tools == opened.requests[1].tools
        assert heard(opened) == "echo: hi"
        started = await opened.only(ToolCallStarted)
        assert (started.title, started.kind) == ("bad: echo (hi)", "other")
        assert await notices(opened) == []


async def test_an_error_is_an_error_and_the_turn_goes_on(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    script = (use("fail"), use("refuse"), use("nothing"), "bye")
    async with deck(tmp_path, *script, **options) as opened:
        assert (await opened.prompt()).stop == "end_turn"
        ends = await opened.events(ToolCallEnded)
        assert [end.status for end in ends] == ["failed"] * 3
        assert [end.reason for end in ends][:2] == [
            "it went wrong",
            "The MCP server 'bad' refused: these arguments are no good",
        ]
        assert "There is no tool 'mcp__bad__nothing'" in (ends[2].reason or "")


async def test_images_are_kept_and_what_cannot_be_shown_is_described(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("media"), "bye", **options) as opened:
        await opened.prompt()
        (result,) = results(opened.requests[-1].messages[-1])
        assert [part.mime_type for part in result.content if isinstance(part, ImagePart)] == [
            "image/png"
        ]
        for words in ("cannot be read", "Audio (audio/wav", "demo://x", "inside", "'hologram'"):
            assert words in told(result)
        shown = (await opened.only(ToolCallEnded)).content
        assert isinstance(shown, tuple) and isinstance(shown[0], ContentItem)
        assert isinstance(shown[0].content, ImageContent)


async def test_a_structure_without_text_is_told_and_kept(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("structured"), "bye", **options) as opened:
        await opened.prompt()
        assert heard(opened) == '{"answer":42}'
        assert (await opened.only(ToolCallEnded)).raw_output == {"answer": 42}


async def test_a_huge_result_is_cut_and_whole_in_a_file(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("huge", size=3_000_000), "bye", **options) as opened:
        await opened.prompt()
        text = heard(opened)
        assert len(text) < 60_000 and text.startswith("begin ")
        file = Path(text.rpartition("The full output is in ")[2].partition(",")[0])
        assert await asyncio.to_thread(file.read_text) == "begin " + "x" * 3_000_000 + " end"
    assert not await asyncio.to_thread(file.exists)


async def test_a_call_asks_for_leave_and_a_refusal_reaches_no_server(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": PATIENT}
    async with deck(tmp_path, use("echo", text="hi"), "bye", **options) as opened:
        turn = opened.start()
        (asked,) = await opened.asked()
        assert asked.raw_input == {"mcp_server": "bad", "mcp_tool": "echo", "text": "hi"}
        opened.answer(asked, "reject_once")
        await turn
        assert "echo: hi" not in heard(opened)


@pytest.mark.parametrize("trusted", [False, True])
async def test_that_a_tool_only_reads_is_believed_of_a_trusted_server_alone(
    tmp_path: Path, trusted: bool
):
    options = {"servers": (hostile(trusted=trusted),), "flags": PATIENT, "attended": False}
    script = (use("look"), use("echo"), "bye")
    async with deck(tmp_path, *script, **options) as opened:
        await opened.prompt()
        looked, echoed = await opened.events(ToolCallEnded)
        assert looked.status == ("completed" if trusted else "failed")
        assert echoed.status == "failed"
        started = (await opened.events(ToolCallStarted))[0]
        assert started.title == "bad: Look around"
        assert started.kind == ("read" if trusted else "other")


async def test_a_rule_can_deny_one_tool_of_a_server(tmp_path: Path):
    flags = {"permissions": {"allow": ["mcp(bad)"], "deny": ["mcp(bad:echo)"]}, **PATIENT}
    options = {"servers": (hostile(),), "flags": flags}
    async with deck(tmp_path, use("echo"), use("look"), "bye", **options) as opened:
        await opened.prompt()
        assert [end.status for end in await opened.events(ToolCallEnded)] == ["failed", "completed"]


async def test_a_server_can_ask_the_person_through_the_session(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("ask"), "bye", **options) as opened:
        turn = opened.start()
        (asked,) = await opened.seen(QuestionAsked)
        assert asked.text == "The MCP server 'bad' asks: Who are you?"
        reply = QuestionReply(action="accept", by=PERSON, content={"name": "Ada"})
        assert opened.session.gate.reply(asked.request, reply)
        await turn
        assert "Ada" in heard(opened)


async def test_a_question_is_taken_back_when_its_call_is_cancelled(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("ask"), **options) as opened:
        turn = opened.start()
        await opened.seen(QuestionAsked)
        began = time.monotonic()
        await opened.session.cancel()
        assert (await turn).stop == "cancelled" and time.monotonic() - began < 1.0
        kinds = types(await opened.events())
        assert kinds.index("QuestionAnswered") < kinds.index("ToolCallEnded")
        assert (await opened.only(QuestionAnswered)).action == "cancel"


async def test_progress_is_shown_while_a_call_runs_and_a_flood_makes_few_events(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("flood", count=3000), "bye", **options) as opened:
        await opened.prompt()
        updates = [e for e in await opened.events(ToolCallUpdated) if isinstance(e.content, tuple)]
        assert 1 <= len(updates) < 30
        assert heard(opened) == "after the flood"


async def test_a_slow_server_delays_nothing_and_joins_later_with_a_notice(tmp_path: Path):
    options = {"servers": (hostile("slow=1"), hostile(name="good")), "flags": IMPATIENT}
    async with deck(tmp_path, "one", "two", **options) as opened:
        began = time.monotonic()
        await opened.prompt()
        assert time.monotonic() - began < 0.9
        assert "echo" not in mcp_tools(opened)
        async with asyncio.timeout(SOON):
            while opened.session.setup.servers.servers[0].state != "ready":  # type: ignore[attr-defined]
                await asyncio.sleep(0.02)
        await opened.prompt()
        assert "echo" in mcp_tools(opened)
        assert any("'bad' is connected" in title for title in await notices(opened))


async def test_a_silent_server_costs_the_wait_once_and_the_other_is_used(tmp_path: Path):
    flags = {"tools": {"mcp": {"wait": 0.5}}, "permissions": {"allow": ["mcp"]}}
    good = hostile(name="good")
    options = {"servers": (hostile("silent", start_timeout=30.0), good), "flags": flags}
    script = (says(call("mcp__good__echo", text="x")), "bye", "again")
    async with deck(tmp_path, *script, **options) as opened:
        await opened.prompt()
        assert heard(opened) == "echo: x"
        began = time.monotonic()
        await opened.prompt()
        assert time.monotonic() - began < 0.4


async def test_a_server_that_cannot_start_fails_nothing_and_is_told(tmp_path: Path):
    missing = definition("missing", "no-such-program")
    options = {"servers": (missing, hostile()), "flags": PATIENT}
    async with deck(tmp_path, "fine", **options) as opened:
        assert (await opened.prompt()).stop == "end_turn"
        assert "echo" in mcp_tools(opened)
        (title,) = await notices(opened)
        assert title.startswith("MCP server 'missing' cannot be used: there is no program")


async def test_a_server_that_dies_is_started_again_and_the_call_says_what_happened(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("crash"), use("echo", text="x"), "bye", **options) as opened:
        await opened.prompt()
        first, second = await opened.events(ToolCallEnded)
        assert first.status == "failed" and "exit code 7" in (first.reason or "")
        assert second.status == "completed"
        assert any("is being restarted" in title for title in await notices(opened))


async def test_a_tool_that_appears_during_a_call_is_there_at_the_next_step(tmp_path: Path):
    options = {"servers": (hostile("storm=50"),), "flags": {**ALLOWED, **PATIENT}}
    script = (use("grow", name="extra"), use("extra"), "bye")
    async with deck(tmp_path, *script, **options) as opened:
        await opened.prompt()
        assert "extra" not in mcp_tools(opened, 0) and "extra" in mcp_tools(opened, 1)
        assert heard(opened) == "called extra"
        assert "MCP server 'bad' changed its tools: +extra" in await notices(opened)


async def test_what_a_server_calls_an_error_of_its_own_is_told(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("complain"), "bye", **options) as opened:
        await opened.prompt()
        assert "MCP server 'bad' says: the disk is full" in await notices(opened)


@pytest.mark.parametrize("tool", ["hang", "slow"])
async def test_a_cancelled_turn_ends_within_a_second(tmp_path: Path, tool: str):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use(tool, seconds=30), **options) as opened:
        turn = opened.start()
        await opened.seen(ToolCallUpdated)
        began = time.monotonic()
        await opened.session.cancel()
        assert time.monotonic() - began < 1.0
        assert (await turn).stop == "cancelled"


async def test_a_call_without_an_answer_ends_after_its_time(tmp_path: Path):
    options = {"servers": (hostile(timeout=0.3),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("hang"), "bye", **options) as opened:
        await opened.prompt()
        assert "did not answer within 0.3 s" in heard(opened)


async def test_a_session_may_be_given_only_some_tools(tmp_path: Path):
    async with deck(tmp_path, "one") as opened:
        options = NativeSessionOptions.of(
            model="scripted/test",
            make_model=lambda _: opened.model,
            servers=(hostile(),),
            flags=PATIENT,
            tools=("read", "mcp__bad__ec*"),
        )
        session = await opened.agent.new(options.at(str(opened.cwd)))
        await session.prompt(())
        assert [spec.name for spec in opened.requests[0].tools] == ["read", "mcp__bad__echo"]


async def test_two_sessions_have_servers_of_their_own_and_do_not_wait_for_each_other(
    tmp_path: Path,
):
    options = {"servers": (hostile("silent"),), "flags": {"tools": {"mcp": {"wait": 20}}}}
    async with deck(tmp_path, "one", "two", **options) as opened:
        other = tmp_path / "other"
        await asyncio.to_thread(other.mkdir)
        patient = NativeSessionOptions.of(
            model="scripted/test",
            make_model=lambda _: opened.model,
            servers=(hostile(),),
            flags=PATIENT,
        )
        second = await opened.agent.new(patient.at(str(other)))
        stuck = opened.start()
        async with asyncio.timeout(SOON):
            await second.prompt(())
        assert not stuck.done()
        await opened.session.cancel()
        await stuck


async def test_a_server_over_http_joins_like_any_other(tmp_path: Path):
    async with http_hostile("era=modern") as server:
        options = {"servers": (server,), "flags": {**ALLOWED, **PATIENT}}
        async with deck(tmp_path, use("echo", text="ü"), "bye", **options) as opened:
            await opened.prompt()
            assert heard(opened) == "echo: ü"


async def test_a_resumed_session_starts_its_servers_again(tmp_path: Path):
    options = {"servers": (hostile(),), "flags": {**ALLOWED, **PATIENT}}
    async with deck(tmp_path, use("echo", text="a"), "one", "two", **options) as opened:
        await opened.prompt()
        await opened.reload()
        await opened.prompt()
        assert opened.requests[-1].tools == opened.requests[0].tools
