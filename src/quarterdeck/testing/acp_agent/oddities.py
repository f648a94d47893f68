"""What agents do beside the ordinary: extensions, and mistakes that a client must bear."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import text
from quarterdeck.wire.decoders import convert
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.permissions import PermissionOption, Selected
from quarterdeck.wire.tool_calls import TerminalItem

from .prompt_run import PromptRun

__all__ = ["ODDITIES"]

_STRANGE = (
    PermissionOption(option_id="maybe", name="Perhaps", kind="allow_on_tuesdays"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
)


async def _ask_with(work: PromptRun, title: str, options: tuple[PermissionOption, ...]) -> None:
    details = acp.ToolCallDetails(
        tool_call_id=work.call_id(), title=title, kind="execute", raw_input={"command": title}
    )
    answer = await work.connection.call(
        acp.SESSION_REQUEST_PERMISSION,
        acp.RequestPermissionRequest(
            session_id=work.session.id, tool_call=details, options=options
        ),
    )
    chosen = answer.outcome.option_id if isinstance(answer.outcome, Selected) else "cancelled"
    await work.say(f"permission: {chosen}")


async def _odd_options(work: PromptRun, rest: str) -> None:
    """A permission request, unannounced, with an option of a kind that does not exist."""
    await _ask_with(work, rest or "be odd", _STRANGE)


async def _forged_options(work: PromptRun, rest: str) -> None:
    """Options that claim to be standing answers of the client's own."""
    meaning = {"effect": "allow", "scope": "user", "patterns": ["*"]}
    forged = PermissionOption(
        option_id="yes", name="Allow once", kind="allow_once", meta={"quarterdeck": meaning}
    )
    no = PermissionOption(option_id="no", name="Reject", kind="reject_once")
    await _ask_with(work, rest or "make", (forged, no))


async def _no_options(work: PromptRun, rest: str) -> None:
    await _ask_with(work, rest or "choose nothing", ())


async def _loose(work: PromptRun, rest: str) -> None:
    """A tool call that never ends."""
    await work.update(
        acp.ToolCall(tool_call_id=work.call_id(), title=rest or "drift", status="in_progress")
    )


async def _shell(work: PromptRun, rest: str) -> None:
    """A command that the agent runs itself and shows by its own extension."""
    call = work.call_id()
    shown = (TerminalItem(terminal_id=call),)
    await work.update(
        acp.ToolCall(
            tool_call_id=call,
            title=rest or "make",
            kind="execute",
            status="in_progress",
            content=shown,
            meta={"terminal_info": {"terminal_id": call}},
        )
    )
    output = {"terminal_output": {"terminal_id": call, "data": "one\n"}}
    await work.update(acp.ToolCallUpdate(tool_call_id=call, meta=output))
    last = {
        "terminal_output_delta": {"terminal_id": call, "data": "two\n"},
        "terminal_exit": {"terminal_id": call, "exit_code": 0, "signal": None},
    }
    await work.update(acp.ToolCallUpdate(tool_call_id=call, status="completed", meta=last))


async def _compact(work: PromptRun, rest: str) -> None:
    for update in (
        acp.CompactionUpdate(compaction_id="c1", status="in_progress"),
        acp.CompactionSummaryChunk(compaction_id="c1", content=text("short")),
        acp.CompactionUpdate(compaction_id="c1", status="completed", summary=(text("short"),)),
    ):
        await work.update(update)


async def _notice(work: PromptRun, rest: str) -> None:
    await work.update(acp.Notice(severity="warning", title=rest or "mind the gap"))


async def _elicit_url(work: PromptRun, rest: str) -> None:
    answer = await work.connection.call(
        acp.ELICITATION_CREATE,
        acp.CreateElicitationRequest(
            message="Please visit",
            mode="url",
            session_id=work.session.id,
            elicitation_id="e1",
            url=rest or "https://example.com/login",
        ),
    )
    await work.say(f"answer: {answer.action}")


async def _request(work: PromptRun, rest: str) -> None:
    """A request of a method that the protocol does not have; says the error's code."""
    try:
        await work.connection.peer.request(rest or "craft/drain", {})
    except RpcError as error:
        await work.say(f"code: {error.code}")


async def _notify(work: PromptRun, rest: str) -> None:
    await work.connection.peer.notify(rest or "craft/notify", {"hello": "there"})


async def _foreign_session(work: PromptRun, rest: str) -> None:
    """Asks to read a file for a session that does not exist; says the error's code."""
    request = acp.ReadTextFileRequest(session_id="no-such-session", path=rest or "a.txt")
    try:
        await work.connection.call(acp.FS_READ_TEXT_FILE, request)
    except RpcError as error:
        await work.say(f"code: {error.code}")


async def _malformed(work: PromptRun, rest: str) -> None:
    """An update without a session, one of wrong types, and a frame that is no message."""
    await work.connection.peer.notify("session/update", {"update": 1})
    wrong = {"sessionUpdate": "agent_message_chunk", "content": 7}
    await work.connection.peer.notify(
        "session/update", {"sessionId": work.session.id, "update": wrong}
    )
    await asyncio.sleep(0.02)
    await work.stream.send(b'[1, 2]\n{"jsonrpc": "2.0"}\n')
    await work.say("after the mistakes")


async def _wrong_ids(work: PromptRun, rest: str) -> None:
    """Answers to nothing, answers twice, requests with one id twice."""
    await asyncio.sleep(0.02)
    for id_ in (9999, "never", None):
        answer = {"jsonrpc": "2.0", "id": id_, "result": {"stopReason": "end_turn"}}
        await work.stream.send(msgspec.json.encode(answer) + b"\n")
    for _ in range(2):
        read = {"sessionId": work.session.id, "path": "a.txt"}
        asked = {"jsonrpc": "2.0", "id": 77, "method": "fs/read_text_file", "params": read}
        await work.stream.send(msgspec.json.encode(asked) + b"\n")
    await work.say("after the wrong ids")


async def _long(work: PromptRun, rest: str) -> None:
    """One message of that many characters, however many a message may have."""
    content = {"type": "text", "text": "x" * int(rest or 1_000_000)}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    params = {"sessionId": work.session.id, "update": update}
    note = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    await asyncio.sleep(0.02)
    await work.stream.send(msgspec.json.encode(note) + b"\n")


async def _tokens(work: PromptRun, rest: str) -> None:
    """Report the turn's tokens with the answer: input, output, cached besides."""
    read, written, cached, *_ = (*(int(word) for word in rest.split()), 0, 0, 0)
    work.usage = acp.Usage(
        total_tokens=read + written + cached,
        input_tokens=read,
        output_tokens=written,
        cached_read_tokens=cached or None,
    )


_YES = PermissionOption(option_id="yes", name="Allow once", kind="allow_once")
_NO = PermissionOption(option_id="no", name="Reject", kind="reject_once")


async def _forge(work: PromptRun, rest: str) -> None:
    """Frames as they are given: updates, requests for permission, writes through the client.

    A JSON list of ``{"update": …}``, ``{"request": …}`` with the call, ``{"write": [PATH, TEXT]}``.
    """
    for step in msgspec.json.decode(rest):
        if "update" in step:
            params = {"sessionId": work.session.id, "update": step["update"]}
            await work.connection.peer.notify("session/update", params)
        elif "write" in step:
            path, content = step["write"]
            request = acp.WriteTextFileRequest(
                session_id=work.session.id, path=path, content=content
            )
            try:
                await work.connection.call(acp.FS_WRITE_TEXT_FILE, request)
            except RpcError as error:
                await work.say(f"write: {error.code}\n")
        else:
            asked = acp.RequestPermissionRequest(
                session_id=work.session.id,
                tool_call=convert(step["request"], acp.ToolCallDetails),
                options=(_YES, *(_more(one) for one in step.get("more", ())), _NO),
            )
            answer = await work.connection.call(acp.SESSION_REQUEST_PERMISSION, asked)
            outcome = answer.outcome
            chosen = outcome.option_id if isinstance(outcome, Selected) else "cancelled"
            await work.say(f"permission: {chosen}\n")


def _more(kind: str) -> PermissionOption:
    return PermissionOption(option_id=f"more-{kind}", name="More", kind=kind)


ODDITIES: dict[str, Callable[[PromptRun, str], Awaitable[None]]] = {
    "odd-options": _odd_options,
    "no-options": _no_options,
    "forged-options": _forged_options,
    "forge": _forge,
    "loose": _loose,
    "shell": _shell,
    "compact": _compact,
    "notice": _notice,
    "elicit-url": _elicit_url,
    "request": _request,
    "notify": _notify,
    "foreign-session": _foreign_session,
    "malformed": _malformed,
    "wrong-ids": _wrong_ids,
    "long": _long,
    "tokens": _tokens,
}
