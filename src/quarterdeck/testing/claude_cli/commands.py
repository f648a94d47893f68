"""What a line of a prompt makes the fake do; ``docs/fake-agent.md`` lists the common ones."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from quarterdeck.testing.disk_actions import DiskAction, DiskActionKind, parse_action, parse_sneak

from .flags import FakeClaudeFlags
from .output import FakeClaudeOutput, TurnAbortedError

__all__ = ["COMMANDS", "CommandContext", "FakeClaudeFailedError", "run_line"]

_SLEEPER = "import time; print('up', flush=True); time.sleep(600)"
_DAEMON = (
    "import os, time\n"
    "if os.fork(): os._exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    "print('up', flush=True)\n"
    "time.sleep(600)"
)
_DOT = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJ"
    "RU5ErkJggg=="
)


_TOOLS: dict[DiskActionKind, tuple[str, str]] = {
    "read": ("Read", "file_path"),
    "edit": ("Write", "file_path"),
    "run": ("Bash", "command"),
}
_UNASKED: dict[str, frozenset[DiskActionKind]] = {
    "default": frozenset(("read",)),
    "plan": frozenset(("read",)),
    "acceptEdits": frozenset(("read", "edit")),
    "bypassPermissions": frozenset(("read", "edit", "run")),
}
"""What it does in each mode of its own without asking; hooks are called all the same."""


class FakeClaudeFailedError(Exception):
    """The turn ends by an error: its text, the result's subtype, the status of the API."""

    def __init__(self, tool_data: str, subtype: str = "success", status: int | None = 500) -> None:
        super().__init__(tool_data)
        self.subtype = subtype
        self.status = status


class CommandContext(Protocol):
    """What a command uses of the program whose turn it is in."""

    flags: FakeClaudeFlags
    memory: list[str]
    servers: list[str]
    stop: str
    exit_code: int | None
    output: FakeClaudeOutput

    def hook(self, tool: str, given: dict[str, Any], call: str) -> str:
        """Let the hooks decide about a call. Raises TurnAbortedError."""
        ...


def run_line(program: CommandContext, line: str) -> None:
    """Do what one line says; one that is no command is echoed.

    Raises TurnAbortedError, FakeClaudeFailedError.
    """
    output = program.output
    if output.interrupted.is_set():
        raise TurnAbortedError
    name, _, rest = line.partition(" ")
    command = COMMANDS.get(name)
    if command is not None:
        command(program, rest)
    elif line.strip():
        output.say(line)


def _stream(program: CommandContext, rest: str) -> None:
    count, _, size = rest.partition(" ")
    filler = "x" * int(size or 0)
    for number in range(int(count or 10)):
        if program.output.interrupted.is_set():
            raise TurnAbortedError
        program.output.say(f"chunk {number}{filler}\n")


def _wait(program: CommandContext, rest: str) -> None:
    program.output.say("waiting")
    program.output.wait(float(rest or 3600))


def _tool(program: CommandContext, rest: str) -> None:
    call = program.output.call("Read", {"file_path": f"/{rest or 'look'}"})
    program.output.result(call, f"did {rest or 'look'}")


def _permitted(
    output: FakeClaudeOutput, call: str, name: str, given: dict[str, Any]
) -> dict[str, Any] | None:
    """The input to use if it is allowed; else the refusal is sent."""
    if output.mode == "bypassPermissions":
        return given
    asked = {"tool_name": name, "input": given, "tool_use_id": call}
    try:
        answer = output.ask("can_use_tool", **asked, permission_suggestions=[])
    except TurnAbortedError:
        output.result(call, "The user doesn't want to proceed with this tool use.", failed=True)
        raise
    data: dict[str, Any] = answer.get("response") or {}
    if data.get("behavior") == "allow":
        return data["updatedInput"]
    output.result(call, data.get("message") or answer.get("error"), failed=True)
    if data.get("interrupt"):
        raise TurnAbortedError
    return None


def _ask(program: CommandContext, rest: str) -> None:
    output = program.output
    given = {"command": rest or "run a command"}
    call = output.call("Bash", given)
    allowed = _permitted(output, call, "Bash", given)
    if allowed is not None:
        data = {"stdout": "ran", "stderr": "", "interrupted": False}
        output.result(call, f"ran {allowed['command']}", tool_data=data)
    output.say("denied" if allowed is None else "allowed")


def _write(program: CommandContext, rest: str) -> None:
    output = program.output
    name, _, content = rest.partition(" ")
    path = Path(name).resolve()
    given = {"file_path": str(path), "content": content}
    call = output.call("Write", given)
    allowed = given if output.mode == "acceptEdits" else _permitted(output, call, "Write", given)
    if allowed is None:
        output.say("denied")
        return
    before = path.read_text() if path.exists() else None
    path.write_text(allowed["content"])
    data = {"type": "create", "filePath": str(path), "content": content, "originalFile": before}
    output.result(call, f"File created successfully at: {path}", tool_data=data)
    output.say("allowed")


def _announced(output: FakeClaudeOutput, action: DiskAction) -> tuple[str, str, dict[str, Any]]:
    """Report a call; returns its id, the tool's name and its input."""
    name, field = _TOOLS[action.kind]
    given = {field: action.target if action.kind == "run" else action.path}
    if action.kind == "edit":
        given["content"] = action.content
    return output.call(name, given), name, given


def _do(program: CommandContext, rest: str) -> None:
    """Do it, after the hook was called and, where its mode asks, with permission."""
    output, action = program.output, parse_action(rest)
    call, name, given = _announced(output, action)
    decision = program.hook(name, given, call)
    is_unasked = decision != "ask" and action.kind in _UNASKED.get(output.mode, _UNASKED["default"])
    if decision == "deny":
        output.result(call, "Blocked by a hook", failed=True)
        output.say("denied\n")
    elif is_unasked or _permitted(output, call, name, given) is not None:
        result = action.carry_out()
        output.result(call, result)
        output.say(f"{result}\n")
    else:
        output.say("denied\n")


def _sneak(name: str) -> Callable[[CommandContext, str], None]:
    """Do it and report it, without the hook and without asking."""

    def sneak(program: CommandContext, rest: str) -> None:
        action = parse_sneak(name, rest)
        call, _, _ = _announced(program.output, action)
        program.output.result(call, action.carry_out())

    return sneak


def _hide(program: CommandContext, rest: str) -> None:
    parse_sneak("hide", rest).carry_out()


def _question(program: CommandContext, rest: str) -> None:
    output = program.output
    options = [{"label": one, "description": f"the {one} one"} for one in ("red", "blue")]
    asked = {"question": rest or "Which colour?", "header": "Colour", "options": options}
    given = {"questions": [{**asked, "multiSelect": False}]}
    call = output.call("AskUserQuestion", given)
    allowed = _permitted(output, call, "AskUserQuestion", given)
    if allowed is not None:
        output.result(call, f"The person answered: {json.dumps(allowed['answers'])}")
    output.say("no answer" if allowed is None else f"answer: {json.dumps(allowed['answers'])}")


def _control(program: CommandContext, rest: str) -> None:
    """Send a request of some kind and say what came back."""
    answer = program.output.ask(rest or "hook_callback", message="Which?", input={})
    program.output.say(json.dumps(answer.get("response") or answer.get("error")))


def _plan(program: CommandContext, rest: str) -> None:
    entries = [{"content": one, "status": "pending"} for one in (rest or "look,mend").split(",")]
    call = program.output.call("TodoWrite", {"todos": entries})
    program.output.result(call, "Todos have been modified")


def _image(program: CommandContext, rest: str) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": _DOT}
    call = program.output.call("Read", {"file_path": "/dot.png"})
    program.output.result(call, [{"type": "image", "source": source}])


def _subagent(program: CommandContext, rest: str) -> None:
    """A sub-agent that says something and uses a tool."""
    output = program.output
    call = output.call("Task", {"description": rest or "look", "prompt": "look"})
    task = {"task_id": f"task-{call}", "tool_use_id": call, "is_backgrounded": False}
    output.line({"type": "system", "subtype": "task_started", **task})
    output.parent = call
    output.say(f"sub: {rest or 'look'}")
    _tool(program, "below")
    output.parent = None
    output.result(call, [{"type": "text", "text": "the sub-agent is done"}])


def _broken(program: CommandContext, rest: str) -> None:
    """An answer that breaks off in the middle; the model is asked again."""
    program.output.say("Before it ")
    program.output.end_message(None)
    retry = {"attempt": 1, "max_retries": 10, "retry_delay_ms": 500, "error": "unknown"}
    program.output.line({"type": "system", "subtype": "api_retry", "error_status": None, **retry})
    program.output.say("Whole now.")


def _retry(program: CommandContext, rest: str) -> None:
    status = int(rest or 529)
    retry = {"attempt": 1, "max_retries": 10, "retry_delay_ms": 1500, "error_status": status}
    error = "rate_limit" if status == 429 else "overloaded"
    program.output.line({"type": "system", "subtype": "api_retry", "error": error, **retry})


def _limit(program: CommandContext, rest: str) -> None:
    info = {"status": rest or "rejected", "resetsAt": 1800000000, "rateLimitType": "five_hour"}
    program.output.line({"type": "rate_limit_event", "rate_limit_info": info})


def _compact(program: CommandContext, rest: str) -> None:
    output = program.output
    output.line({"type": "system", "subtype": "status", "status": "compacting"})
    meta = {"trigger": "auto", "pre_tokens": 1000}
    output.line({"type": "system", "subtype": "compact_boundary", "compact_metadata": meta})


def _garbage(program: CommandContext, rest: str) -> None:
    for number in range(int(rest or 3)):
        program.output.raw(b"garbage %d \xff\xfe {]\n" % number)
    program.output.raw(b"[1, 2]\n\n3\n")
    program.output.say("after the garbage")


def _stderr(program: CommandContext, rest: str) -> None:
    left = int(rest or 1_000_000)
    while left > 0:
        left -= os.write(2, (b"e" * 79 + b"\n") * min(512, left // 80 + 1))
    program.output.say("said a lot on stderr")


def _children(program: CommandContext, rest: str) -> None:
    count, _, how = rest.partition(" ")
    for _ in range(int(count or 1)):
        code = _DAEMON if how == "detached" else _SLEEPER
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
    program.output.say("children are running")


def _crash(program: CommandContext, rest: str) -> None:
    program.output.say("crashing")
    os.write(2, b"about to crash\n")
    if rest.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[rest])
        time.sleep(60)
    os._exit(int(rest or 3))


def _hang_up(program: CommandContext, rest: str) -> None:
    """Close standard output and live on."""
    os.close(1)
    time.sleep(float(rest or 3600))


def _error(program: CommandContext, rest: str) -> None:
    raise FakeClaudeFailedError(rest or "it went wrong")


def _stop(program: CommandContext, rest: str) -> None:
    """End the turn with a subtype of the result, or a stop reason of the model."""
    if rest.startswith("error_"):
        raise FakeClaudeFailedError("", rest, None)
    program.stop = rest or "end_turn"


def _last(program: CommandContext, rest: str) -> None:
    """Leave as soon as the result is printed."""
    program.exit_code = int(rest or 0)


def _options(program: CommandContext, rest: str) -> None:
    flags = program.flags
    data = {**flags.values, **flags.lists, "switches": sorted(flags.switches)}
    data |= {"mcp_servers": program.servers}
    program.output.say(json.dumps(data))


COMMANDS: dict[str, Callable[[CommandContext, str], None]] = {
    "echo": lambda program, rest: program.output.say(rest),
    "think": lambda program, rest: program.output.think(rest or "hm"),
    "stream": _stream,
    "flood": lambda program, rest: _stream(program, rest or "20000"),
    "wait": _wait,
    "history": lambda program, _: program.output.say(
        " | ".join(program.memory[:-1]) or "(nothing)"
    ),
    "tool": _tool,
    "ask": _ask,
    "write": _write,
    "do": _do,
    "sneak": _sneak("sneak"),
    "sneak-run": _sneak("sneak-run"),
    "hide": _hide,
    "question": _question,
    "control": _control,
    "plan": _plan,
    "image": _image,
    "subagent": _subagent,
    "broken": _broken,
    "retry": _retry,
    "limit": _limit,
    "compact": _compact,
    "unknown": lambda program, rest: program.output.line({"type": rest or "novelty", "x": 1}),
    "garbage": _garbage,
    "stderr": _stderr,
    "children": _children,
    "crash": _crash,
    "hang-up": _hang_up,
    "error": _error,
    "stop": _stop,
    "last": _last,
    "options": _options,
}
