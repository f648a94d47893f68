"""What a line of a prompt makes the fake agent do; ``docs/fake-agent.md`` is the list.

A line that begins with no known command is echoed, so that any prompt gets an answer.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from quarterdeck.testing.disk_actions import DiskAction, parse_action, parse_sneak
from quarterdeck.wire.acp import schema as acp
from quarterdeck.wire.content import ImageContent, text
from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.errors import RpcError
from quarterdeck.wire.permissions import PermissionOption, Selected
from quarterdeck.wire.settings import Command, PlanEntry
from quarterdeck.wire.tool_calls import (
    ContentItem,
    Diff,
    TerminalItem,
    ToolCallContent,
    ToolCallLocation,
    ToolKind,
)
from quarterdeck.wire.usage import Cost

from .oddities import ODDITIES
from .prompt_run import PromptRun, StopTurnError

__all__ = ["ACTIONS", "COMMANDS", "request_permission", "run_line"]

_OPTIONS = (
    PermissionOption(option_id="yes", name="Allow once", kind="allow_once"),
    PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    PermissionOption(option_id="never", name="Always reject", kind="reject_always"),
)
_KINDS: dict[str, ToolKind] = {"read": "read", "edit": "edit", "run": "execute"}


async def request_permission(work: PromptRun, call: acp.ToolCall) -> str:
    """Announce a call and ask for permission; returns the chosen option or ``cancelled``."""
    await work.update(call)
    details = acp.ToolCallDetails(
        tool_call_id=call.tool_call_id,
        title=call.title,
        kind=call.kind,
        content=call.content or None,
        locations=call.locations or None,
        raw_input=call.raw_input,
    )
    answer = await work.connection.call(
        acp.SESSION_REQUEST_PERMISSION,
        acp.RequestPermissionRequest(
            session_id=work.session.id, tool_call=details, options=_OPTIONS
        ),
    )
    return answer.outcome.option_id if isinstance(answer.outcome, Selected) else "cancelled"


def _call(work: PromptRun, action: DiskAction) -> acp.ToolCall:
    """The call that reports an action."""
    content: tuple[ToolCallContent, ...] = ()
    locations: tuple[ToolCallLocation, ...] = ()
    if action.kind == "edit":
        content = (Diff(path=action.path, new_text=action.content),)
    if action.kind != "run":
        locations = (ToolCallLocation(path=action.path),)
    return acp.ToolCall(
        tool_call_id=work.call_id(),
        title=action.title,
        kind=_KINDS[action.kind],
        content=content,
        locations=locations,
        raw_input={"command": action.target} if action.kind == "run" else {"path": action.path},
    )


async def _do(work: PromptRun, rest: str) -> None:
    """Does it with permission; reads without."""
    action = parse_action(rest)
    call = _call(work, action)
    if action.kind != "read":
        if await request_permission(work, call) not in ("yes", "always"):
            refused = acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="failed")
            await work.update(refused)
            await work.say("denied\n")
            return
    else:
        await work.update(call)
    output = await asyncio.to_thread(action.carry_out)
    await work.update(acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="completed"))
    await work.say(f"{output}\n")


async def _look_at(work: PromptRun, rest: str) -> None:
    """Reads a file and reports it; says nothing."""
    action = DiskAction(kind="read", target=rest)
    call = _call(work, action)
    await work.update(call)
    shown = (ContentItem(content=text(await asyncio.to_thread(action.carry_out))),)
    await work.update(
        acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="completed", content=shown)
    )


class _Change(Struct, frozen=True, forbid_unknown_fields=True):
    """A file that is changed: a part of it, or all of it."""

    path: str
    new: str
    old: str | None = None
    """What is replaced; None: everything."""


async def _change(work: PromptRun, rest: str) -> None:
    """Changes a file with permission, as JSON says; a denial ends the turn."""
    change = decode_json(rest, _Change)
    path = Path.cwd() / change.path
    before = await asyncio.to_thread(path.read_text)
    if change.old is not None and change.old not in before:
        raise RpcError(-32603, f"{change.path} does not contain {change.old!r}")
    after = change.new if change.old is None else before.replace(change.old, change.new, 1)
    call = acp.ToolCall(
        tool_call_id=work.call_id(),
        title=f"Edit {change.path}",
        kind="edit",
        content=(Diff(path=str(path), old_text=before, new_text=after),),
        locations=(ToolCallLocation(path=str(path)),),
        raw_input={"path": str(path)},
    )
    await _need(work, call)
    await asyncio.to_thread(path.write_text, after)
    await work.update(acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="completed"))


async def _run(work: PromptRun, rest: str) -> None:
    """Runs a command with permission and reports its output; a denial ends the turn."""
    action = DiskAction(kind="run", target=rest)
    call = _call(work, action)
    await _need(work, call)
    output, code = await asyncio.to_thread(action.run)
    shown_output = f"{output.rstrip()}\n[exit code {code}]" if code else output.rstrip()
    shown = (ContentItem(content=text(shown_output)),) if shown_output else ()
    status = "failed" if code else "completed"
    await work.update(
        acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status=status, content=shown)
    )


async def _need(work: PromptRun, call: acp.ToolCall) -> None:
    """Ask for permission; without it the turn ends."""
    if await request_permission(work, call) not in ("yes", "always"):
        await work.update(acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="failed"))
        await work.say("That was denied, so I stop here.")
        raise StopTurnError("end_turn")


async def _unasked(work: PromptRun, action: DiskAction) -> None:
    call = _call(work, action)
    await work.update(call)
    await asyncio.to_thread(action.carry_out)
    await work.update(acp.ToolCallUpdate(tool_call_id=call.tool_call_id, status="completed"))


async def _hide(work: PromptRun, rest: str) -> None:
    await asyncio.to_thread(parse_sneak("hide", rest).carry_out)


ACTIONS: dict[str, Callable[[PromptRun, str], Awaitable[None]]] = {
    "do": _do,
    "look-at": _look_at,
    "change-file": _change,
    "run-command": _run,
    "sneak": lambda work, rest: _unasked(work, parse_sneak("sneak", rest)),
    "sneak-run": lambda work, rest: _unasked(work, parse_sneak("sneak-run", rest)),
    "hide": _hide,
}


_SLEEPER = "import time; time.sleep(600)"
_DAEMON = (
    "import os, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "time.sleep(600)"
)
_DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)
"""A picture of one pixel."""


async def run_line(work: PromptRun, line: str) -> None:
    """Do what one line of a prompt says."""
    name, _, rest = line.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        await work.say(line)
    else:
        await command(work, rest)


async def _echo(work: PromptRun, rest: str) -> None:
    await work.say(rest)


async def _say(work: PromptRun, rest: str) -> None:
    """Says the text word by word, at the pace of the program."""
    for number, word in enumerate(rest.split(" ")):
        await work.say(f" {word}" if number else word)
        await asyncio.sleep(work.pace)
    await work.say("\n\n")


async def _pause(work: PromptRun, rest: str) -> None:
    """Waits so many seconds, unless the pace is 0."""
    await asyncio.sleep(float(rest or 1) if work.pace else 0.0)


async def _think(work: PromptRun, rest: str) -> None:
    await work.update(acp.AgentThoughtChunk(content=text(rest or "hm")))


async def _stream(work: PromptRun, rest: str) -> None:
    count, _, size = rest.partition(" ")
    filler = "x" * int(size or 0)
    for number in range(int(count or 10)):
        await work.say(f"chunk {number}{filler}\n", message_id="stream")


async def _wait(work: PromptRun, rest: str) -> None:
    await work.say("waiting")
    await asyncio.sleep(float(rest or 3600))


async def _history(work: PromptRun, rest: str) -> None:
    earlier = [exchange.prompt for exchange in work.session.exchanges[:-1]]
    await work.say(" | ".join(earlier) or "(nothing)")


async def _report_prompts(work: PromptRun, rest: str) -> None:
    await work.say(" | ".join([work.session.model, work.session.mode, *work.session.prompts]))


async def _tool(work: PromptRun, rest: str) -> None:
    """A tool call without permission: started, in progress, completed."""
    call = work.call_id()
    await work.update(acp.ToolCall(tool_call_id=call, title=rest or "look", kind="read"))
    await work.update(acp.ToolCallUpdate(tool_call_id=call, status="in_progress"))
    done = (ContentItem(content=text("done")),)
    await work.update(acp.ToolCallUpdate(tool_call_id=call, status="completed", content=done))


async def _ask(work: PromptRun, rest: str) -> None:
    """A tool call that needs permission; says what was chosen."""
    call = work.call_id()
    title = rest or "run a command"
    raw = {"command": title}
    chosen = await request_permission(
        work, acp.ToolCall(tool_call_id=call, title=title, kind="execute", raw_input=raw)
    )
    is_allowed = chosen in ("yes", "always")
    status = "completed" if is_allowed else "failed"
    await work.update(acp.ToolCallUpdate(tool_call_id=call, status=status))
    await work.say(f"permission: {chosen}, {'allowed' if is_allowed else 'denied'}")


async def _asks(work: PromptRun, rest: str) -> None:
    """Several permission requests at once."""
    async with asyncio.TaskGroup() as group:
        for number in range(int(rest or 2)):
            group.create_task(_ask(work, f"command {number}"))


async def _read(work: PromptRun, rest: str) -> None:
    path, _, window = rest.partition(" ")
    line, _, limit = window.partition(" ")
    request = acp.ReadTextFileRequest(
        session_id=work.session.id,
        path=path,
        line=int(line) if line else None,
        limit=int(limit) if limit else None,
    )
    answer = await work.connection.call(acp.FS_READ_TEXT_FILE, request)
    await work.say(answer.content)


async def _write(work: PromptRun, rest: str) -> None:
    path, _, content = rest.partition(" ")
    call = work.call_id()
    change = (Diff(path=path, new_text=content),)
    where = (ToolCallLocation(path=path, line=1),)
    await work.update(
        acp.ToolCall(
            tool_call_id=call, title=f"Write {path}", kind="edit", content=change, locations=where
        )
    )
    request = acp.WriteTextFileRequest(session_id=work.session.id, path=path, content=content)
    await work.connection.call(acp.FS_WRITE_TEXT_FILE, request)
    await work.update(acp.ToolCallUpdate(tool_call_id=call, status="completed"))


async def _terminal(work: PromptRun, rest: str) -> None:
    """Run a shell command in the client's terminal and say its output and exit."""
    session, connection = work.session.id, work.connection
    created = await connection.call(
        acp.TERMINAL_CREATE,
        acp.CreateTerminalRequest(
            session_id=session,
            command="/bin/sh",
            args=("-c", rest),
            env=(acp.EnvVariable(name="LC_FAKE", value="1"),),
            output_byte_limit=100_000,
        ),
    )
    terminal = created.terminal_id
    call = work.call_id()
    shown = (TerminalItem(terminal_id=terminal),)
    await work.update(acp.ToolCall(tool_call_id=call, title=rest, kind="execute", content=shown))
    ended = await connection.call(
        acp.TERMINAL_WAIT_FOR_EXIT,
        acp.WaitForTerminalExitRequest(session_id=session, terminal_id=terminal),
    )
    printed = await connection.call(
        acp.TERMINAL_OUTPUT, acp.TerminalOutputRequest(session_id=session, terminal_id=terminal)
    )
    await connection.call(
        acp.TERMINAL_RELEASE, acp.ReleaseTerminalRequest(session_id=session, terminal_id=terminal)
    )
    status = "completed" if ended.exit_code == 0 else "failed"
    await work.update(acp.ToolCallUpdate(tool_call_id=call, status=status))
    await work.say(f"{printed.output}[exit {ended.exit_code} {ended.signal}]")


async def _elicit(work: PromptRun, rest: str) -> None:
    colour = acp.ElicitationProperty(type="string", title="Colour", enum=("red", "blue"))
    answer = await work.connection.call(
        acp.ELICITATION_CREATE,
        acp.CreateElicitationRequest(
            message=rest or "Which colour?",
            mode="form",
            session_id=work.session.id,
            requested_schema=acp.ElicitationSchema(properties={"colour": colour}),
        ),
    )
    await work.say(f"answer: {answer.action} {answer.content}")


async def _plan(work: PromptRun, rest: str) -> None:
    entries = tuple(
        PlanEntry(content=step, priority="medium", status="pending")
        for step in (rest or "look,mend").split(",")
    )
    await work.update(acp.Plan(entries=entries))


async def _usage(work: PromptRun, rest: str) -> None:
    used = int(rest or 1000)
    await work.update(
        acp.UsageUpdate(used=used, size=200_000, cost=Cost(amount=used / 1000, currency="USD"))
    )


async def _mode(work: PromptRun, rest: str) -> None:
    work.session.mode = rest or "plan"
    await work.update(acp.CurrentModeUpdate(current_mode_id=work.session.mode))


async def _title(work: PromptRun, rest: str) -> None:
    work.session.title = rest or None
    await work.update(acp.SessionInfoUpdate(title=work.session.title))


async def _commands(work: PromptRun, rest: str) -> None:
    offered = (Command(name="compact", description="Shorten the conversation"),)
    await work.update(acp.AvailableCommandsUpdate(available_commands=offered))


async def _image(work: PromptRun, rest: str) -> None:
    await work.update(acp.AgentMessageChunk(content=ImageContent(data=_DOT, mime_type="image/png")))


async def _unknown(work: PromptRun, rest: str) -> None:
    """An update of a kind that no version of the protocol has."""
    raw = {"sessionId": work.session.id, "update": {"sessionUpdate": "teleport", "to": rest}}
    await work.connection.peer.notify("session/update", raw)


async def _stranger(work: PromptRun, rest: str) -> None:
    """An update for a session that does not exist."""
    update = acp.AgentMessageChunk(content=text("who am I?"))
    note = acp.SessionNotification(session_id="no-such-session", update=update)
    await work.connection.send(acp.SESSION_UPDATE, note)


async def _garbage(work: PromptRun, rest: str) -> None:
    """Lines on stdout that are no messages, some of them no UTF-8."""
    await asyncio.sleep(0.02)
    for number in range(int(rest or 3)):
        await work.stream.send(b"garbage %d \xff\xfe {]\n" % number)
    await work.say("after the garbage")


async def _stderr(work: PromptRun, rest: str) -> None:
    """Write that many bytes to stderr."""
    left = int(rest or 1_000_000)
    line = b"e" * 79 + b"\n"
    while left > 0:
        left -= await asyncio.to_thread(os.write, 2, line * min(512, left // 80 + 1))
    await work.say("said a lot on stderr")


async def _children(work: PromptRun, rest: str) -> None:
    """Start processes that would outlive us; ``detached`` ones leave group and session."""
    count, _, how = rest.partition(" ")
    code = _DAEMON if how == "detached" else _SLEEPER
    for _ in range(int(count or 1)):
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
        if how == "detached":
            await child.wait()
    await work.say("children are running")


async def _crash(work: PromptRun, rest: str) -> None:
    """Exit at once with a code, or by a signal when it is named."""
    sys.stderr.write("about to crash\n")
    await work.say("crashing")
    await asyncio.sleep(0.02)
    if rest.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[rest])
    os._exit(int(rest or 3))


async def _hang_up(work: PromptRun, rest: str) -> None:
    """Close stdout and live on."""
    clock = asyncio.get_running_loop().time
    until = clock() + float(rest or 3600)
    await work.stream.close()
    while clock() < until:
        with contextlib.suppress(asyncio.CancelledError):  # nothing but a signal ends this
            await asyncio.sleep(until - clock())


async def _stop(work: PromptRun, rest: str) -> None:
    raise StopTurnError(rest or "end_turn")


async def _error(work: PromptRun, rest: str) -> None:
    code, _, message = rest.partition(" ")
    if not code.removeprefix("-").isdecimal():
        code, message = "-32603", rest
    raise StopTurnError("error", RpcError(int(code), message or "it went wrong"))


async def _error_data(work: PromptRun, rest: str) -> None:
    raise StopTurnError("error", RpcError(-32603, "Internal error", msgspec.json.decode(rest)))


COMMANDS: dict[str, Callable[[PromptRun, str], Awaitable[None]]] = {
    "echo": _echo,
    "say-slowly": _say,
    "pause-for": _pause,
    "think": _think,
    "stream": _stream,
    "flood": lambda work, rest: _stream(work, rest or "20000"),
    "wait": _wait,
    "history": _history,
    "told": _report_prompts,
    "tool": _tool,
    "ask": _ask,
    "asks": _asks,
    "read": _read,
    "write": _write,
    "terminal": _terminal,
    "elicit": _elicit,
    "plan": _plan,
    "usage": _usage,
    "mode": _mode,
    "title": _title,
    "commands": _commands,
    "image": _image,
    "unknown": _unknown,
    "stranger": _stranger,
    "garbage": _garbage,
    "stderr": _stderr,
    "children": _children,
    "crash": _crash,
    "hang-up": _hang_up,
    "stop": _stop,
    "error": _error,
    "error-data": _error_data,
    **ACTIONS,
    **ODDITIES,
}
