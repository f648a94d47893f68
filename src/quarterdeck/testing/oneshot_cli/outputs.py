"""How each agent says things: the same acts in the words of each command line."""

import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from quarterdeck.testing.disk_actions import DiskAction, DiskActionKind

if TYPE_CHECKING:
    from ..session_memory import SessionMemory
    from .flags import OneshotFlags

__all__ = ["OUTPUTS", "OneshotOutput"]

_INPUT, _OUTPUT = 11, 7
"""Tokens of a turn, as every fake counts them."""


def put(line: dict[str, Any]) -> None:
    """Print one line of JSON."""
    sys.stdout.buffer.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    sys.stdout.buffer.flush()


class OneshotOutput:
    """One agent: where its command line has what, and how it reports what it does."""

    streams: bool = True
    tools: ClassVar[Mapping[DiskActionKind, tuple[str, str]]]
    """For each action the tool's name, and the field of its input with the path or command."""
    memory: "SessionMemory"

    def __init__(self, call: "OneshotFlags") -> None:
        self.call = call
        self._count = 0

    def resumed(self) -> tuple[str | None, bool]:
        """The session to go on with, and whether in a copy."""
        raise NotImplementedError

    @property
    def may_run(self) -> bool:
        """Whether the flags allow commands."""
        return False

    @property
    def may_edit(self) -> bool:
        """Whether the flags allow files to be written."""
        return self.may_run

    def may(self, kind: DiskActionKind) -> bool:
        """Whether the flags allow an action; reading they mostly do."""
        return {"read": True, "edit": self.may_edit, "run": self.may_run}[kind]

    @property
    def takes_commands(self) -> bool:
        """Whether the flags make it take commands instead of a prompt."""
        return False

    def take_commands(self) -> int:
        """Take commands until there are no more; gives the exit code."""
        raise NotImplementedError

    def prompt(self) -> str:
        """The prompt: from standard input, unless the agent takes it as words."""
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")

    def begin(self, prompt: str) -> None:
        """The turn begins."""

    def say(self, text: str) -> None:
        """Say something, or a piece of it."""
        raise NotImplementedError

    def think(self, text: str) -> None:
        """Think something; some agents do not report it."""

    def tool(self, title: str, output: str = "done") -> None:
        """Run a tool to its good end."""
        name, field = self.tools["run"]
        self.called(name, {field: title}, output)

    def action(self, action: DiskAction, output: str) -> None:
        """Report an action that is done."""
        name, field = self.tools[action.kind]
        given = {field: action.target if action.kind == "run" else action.path}
        if action.kind == "edit":
            given["content"] = action.content
        self.called(name, given, output)

    def called(self, name: str, given: dict[str, Any], output: str) -> None:
        """Report a tool call that ended well."""
        raise NotImplementedError

    def plan(self, steps: list[str]) -> None:
        """Report a plan, where the agent can."""

    def unknown(self, what: str) -> None:
        """A line of a kind that does not exist."""
        put({"type": "teleport", "to": what})

    def fail(self, text: str) -> int:
        """The model fails and with it the turn; gives the exit code."""
        raise NotImplementedError

    def finish(self) -> None:
        """The turn ends well."""
        raise NotImplementedError

    def next(self) -> int:
        """Numbers for ids."""
        self._count += 1
        return self._count - 1


class OneshotCodex(OneshotOutput):
    """``codex exec --json``."""

    streams = False

    def resumed(self) -> tuple[str | None, bool]:
        words = self.call.words
        if words[:1] != ["exec"]:
            sys.exit("this fake only knows `exec`")
        if words[1:2] in (["resume"], ["fork"]):
            return words[2], words[1] == "fork"
        return None, False

    @property
    def may_run(self) -> bool:
        sandbox = self.call.given.get("--sandbox", "read-only")
        return sandbox != "read-only" or self.call.has("--dangerously-bypass-approvals-and-sandbox")

    def prompt(self) -> str:
        last = self.call.words[-1]
        return super().prompt() if last == "-" else last

    def begin(self, prompt: str) -> None:
        put({"type": "thread.started", "thread_id": self.memory.id})
        put({"type": "turn.started"})

    def _item(self, stage: str, number: int, kind: str, **fields: Any) -> None:
        put({"type": f"item.{stage}", "item": {"id": f"item_{number}", "type": kind, **fields}})

    def say(self, text: str) -> None:
        self._item("completed", self.next(), "agent_message", text=text)

    def think(self, text: str) -> None:
        self._item("completed", self.next(), "reasoning", text=text)

    def tool(self, title: str, output: str = "done") -> None:
        number = self.next()
        about: dict[str, Any] = {"command": title, "aggregated_output": "", "exit_code": None}
        self._item("started", number, "command_execution", **about, status="in_progress")
        about |= {"aggregated_output": output, "exit_code": 0}
        self._item("completed", number, "command_execution", **about, status="completed")

    def action(self, action: DiskAction, output: str) -> None:
        if action.kind == "edit":
            number, changes = self.next(), [{"path": action.path, "kind": "update"}]
            self._item("started", number, "file_change", changes=changes, status="in_progress")
            self._item("completed", number, "file_change", changes=changes, status="completed")
        else:  # it reads by commands
            self.tool(action.target if action.kind == "run" else f"cat {action.target}", output)

    def plan(self, steps: list[str]) -> None:
        items = [{"text": step, "completed": False} for step in steps]
        self._item("started", self.next(), "todo_list", items=items)

    def fail(self, text: str) -> int:
        put({"type": "error", "message": f"Reconnecting... 1/1 ({text})"})
        put({"type": "error", "message": text})
        put({"type": "turn.failed", "error": {"message": text}})
        return 1

    def finish(self) -> None:
        turns = self.memory.turns
        usage = {"input_tokens": _INPUT * turns, "output_tokens": _OUTPUT * turns}
        zero = dict.fromkeys(("cached_input_tokens", "reasoning_output_tokens"), 0)
        put({"type": "turn.completed", "usage": usage | zero})


class OneshotGemini(OneshotOutput):
    """``gemini -o stream-json``."""

    tools: ClassVar[Mapping[DiskActionKind, tuple[str, str]]] = {
        "read": ("read_file", "file_path"),
        "edit": ("write_file", "file_path"),
        "run": ("run_shell_command", "command"),
    }

    def resumed(self) -> tuple[str | None, bool]:
        return self.call.given.get("--resume"), False

    @property
    def may_run(self) -> bool:
        return self.call.has("--yolo") or self.call.given.get("--approval-mode") == "yolo"

    @property
    def may_edit(self) -> bool:
        return self.may_run or self.call.given.get("--approval-mode") == "auto_edit"

    def prompt(self) -> str:
        parts = [super().prompt(), self.call.given.get("--prompt", ""), *self.call.words]
        return "\n\n".join(filter(None, parts))

    def begin(self, prompt: str) -> None:
        put({"type": "init", "session_id": self.memory.id, "model": "fake-1"})
        put({"type": "message", "role": "user", "content": prompt})

    def say(self, text: str) -> None:
        put({"type": "message", "role": "assistant", "content": text, "delta": True})

    def called(self, name: str, given: dict[str, Any], output: str) -> None:
        id_ = f"{name}__{self.next()}"
        put({"type": "tool_use", "tool_name": name, "tool_id": id_, "parameters": given})
        put({"type": "tool_result", "tool_id": id_, "status": "success", "output": output})

    def _result(self, status: str, **fields: Any) -> None:
        stats = {"input_tokens": _INPUT, "output_tokens": _OUTPUT, "cached": 0}
        stats["total_tokens"] = _INPUT + _OUTPUT
        put({"type": "result", "status": status, **fields, "stats": stats})

    def fail(self, text: str) -> int:
        self._result("error", error={"type": "unknown", "message": f"[API Error: {text}]"})
        return 1

    def finish(self) -> None:
        self._result("success")


class OneshotOpencode(OneshotOutput):
    """``opencode run --format json``."""

    streams = False
    tools: ClassVar[Mapping[DiskActionKind, tuple[str, str]]] = {
        "read": ("read", "filePath"),
        "edit": ("write", "filePath"),
        "run": ("bash", "command"),
    }

    def resumed(self) -> tuple[str | None, bool]:
        if self.call.words[:1] != ["run"]:
            sys.exit("this fake only knows `run`")
        return self.call.given.get("--session"), self.call.has("--fork")

    @property
    def may_run(self) -> bool:
        return self.may("run")

    def may(self, kind: DiskActionKind) -> bool:
        rules: dict[str, Any] = json.loads(os.environ.get("OPENCODE_PERMISSION") or "{}")
        name = "bash" if kind == "run" else kind
        return self.call.has("--auto") or rules.get(name, rules.get("*", "allow")) == "allow"

    def prompt(self) -> str:
        return " ".join(self.call.words[1:]) + super().prompt()

    def begin(self, prompt: str) -> None:
        self._part("step_start", type="step-start")

    def _part(self, kind: str, **part: Any) -> None:
        ids = {"id": f"prt_{self.next()}", "messageID": f"msg_{self.memory.turns}"}
        put({"type": kind, "sessionID": self.memory.id, "part": ids | part})

    def say(self, text: str) -> None:
        self._part("text", type="text", text=text)

    def think(self, text: str) -> None:
        if self.call.has("--thinking"):
            self._part("reasoning", type="reasoning", text=text)

    def called(self, name: str, given: dict[str, Any], output: str) -> None:
        title = next(iter(given.values()))
        state = {"status": "completed", "input": given, "output": output, "title": title}
        self._part("tool_use", type="tool", tool=name, callID=f"call_{self.next()}", state=state)

    def fail(self, text: str) -> int:
        error = {"name": "APIError", "data": {"message": text, "isRetryable": True}}
        put({"type": "error", "sessionID": self.memory.id, "error": error})
        return 1

    def finish(self) -> None:
        tokens = {"input": _INPUT, "output": _OUTPUT, "reasoning": 0}
        tokens_and_cache = {**tokens, "cache": {"read": 0, "write": 0}}
        self._part(
            "step_finish", type="step-finish", reason="stop", tokens=tokens_and_cache, cost=0
        )


class OneshotCursor(OneshotOutput):
    """``cursor-agent --print --output-format stream-json --stream-partial-output``."""

    tools: ClassVar[Mapping[DiskActionKind, tuple[str, str]]] = {
        "read": ("readToolCall", "path"),
        "edit": ("writeToolCall", "path"),
        "run": ("shellToolCall", "command"),
    }

    def __init__(self, call: "OneshotFlags") -> None:
        super().__init__(call)
        self._text = ""

    def resumed(self) -> tuple[str | None, bool]:
        return self.call.given.get("--resume"), False

    @property
    def may_run(self) -> bool:
        return self.call.has("--force")

    def begin(self, prompt: str) -> None:
        put({"type": "system", "subtype": "init", "session_id": self.memory.id, "model": "fake-1"})
        self._message("user", prompt)

    def _message(self, role: str, text: str, **fields: Any) -> None:
        block = {"type": "text", "text": text}
        put({"type": role, "message": {"role": role, "content": [block]}, **fields})

    def say(self, text: str) -> None:
        self._text += text
        self._message("assistant", text, timestamp_ms=1)

    def think(self, text: str) -> None:
        put({"type": "thinking", "subtype": "delta", "text": text})

    def _whole(self) -> None:
        if self._text:
            self._message("assistant", self._text)
        self._text = ""

    def called(self, name: str, given: dict[str, Any], output: str) -> None:
        self._whole()
        about: dict[str, Any] = {"args": given}
        line = {"type": "tool_call", "call_id": f"call_{self.next()}"}
        put(line | {"subtype": "started", "tool_call": {name: about}})
        ended = about | {"result": {"success": {"stdout": output, "exitCode": 0}}}
        put(line | {"subtype": "completed", "tool_call": {name: ended}})

    def _result(self, text: str, *, is_error: bool) -> None:
        subtype = "error" if is_error else "success"
        put({"type": "result", "subtype": subtype, "is_error": is_error, "result": text})

    def fail(self, text: str) -> int:
        self._result(text, is_error=True)
        return 1

    def finish(self) -> None:
        self._whole()
        self._result("", is_error=False)


class OneshotPi(OneshotOutput):
    """``pi --mode json --print``."""

    tools: ClassVar[Mapping[DiskActionKind, tuple[str, str]]] = {
        "read": ("read", "path"),
        "edit": ("write", "path"),
        "run": ("bash", "command"),
    }

    def resumed(self) -> tuple[str | None, bool]:
        fork = self.call.given.get("--fork")
        return fork or self.call.given.get("--session"), fork is not None

    @property
    def may_run(self) -> bool:
        return self.may("run")

    def may(self, kind: DiskActionKind) -> bool:
        tools = self.call.given.get("--tools", "read,write,bash").split(",")
        return self.tools[kind][0] in tools and not self.call.has("--no-tools")

    @property
    def takes_commands(self) -> bool:
        return self.call.given.get("--mode") == "rpc"

    def take_commands(self) -> int:
        for line in sys.stdin.buffer:
            asked = json.loads(line)
            answer = {"id": asked.get("id"), "type": "response", "command": asked["type"]}
            try:
                data = self._command(asked)
            except ValueError as error:
                put({**answer, "success": False, "error": str(error)})
            else:
                put({**answer, "success": True, "data": data})
        return 0

    def _command(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ValueError."""
        match asked["type"]:
            case "get_fork_messages":
                prompts = enumerate(self.memory.prompts)
                return {"messages": [{"entryId": str(n), "text": text} for n, text in prompts]}
            case "fork":
                if "no-fork" in os.environ.get("FAKE_QUIRKS", ""):
                    return {"cancelled": True}
                self.memory.fork(int(asked["entryId"]))
                return {"text": "", "cancelled": False}
            case "get_state":
                return {"sessionId": self.memory.id}
            case other:
                raise ValueError(f"Unknown command: {other}")

    def begin(self, prompt: str) -> None:
        put({"type": "session", "version": 3, "id": self.memory.id, "cwd": "."})
        put({"type": "agent_start"})
        put({"type": "message_start", "message": {"role": "assistant", "content": []}})

    def _update(self, kind: str, text: str) -> None:
        change = {"type": kind, "contentIndex": 0, "delta": text}
        put({"type": "message_update", "assistantMessageEvent": change})

    def say(self, text: str) -> None:
        self._update("text_delta", text)

    def think(self, text: str) -> None:
        self._update("thinking_delta", text)

    def called(self, name: str, given: dict[str, Any], output: str) -> None:
        about = {"toolCallId": f"call_{self.next()}", "toolName": name}
        put({"type": "tool_execution_start", **about, "args": given})
        result = {"content": [{"type": "text", "text": output}]}
        put({"type": "tool_execution_end", **about, "result": result, "isError": False})

    def _end(self, stop: str, **fields: Any) -> None:
        usage = {"input": _INPUT, "output": _OUTPUT, "cacheRead": 0, "cacheWrite": 0}
        message = {"role": "assistant", "usage": usage, "stopReason": stop, **fields}
        put({"type": "message_end", "message": message})

    def fail(self, text: str) -> int:
        self._end("error", errorMessage=text)
        put({"type": "agent_settled"})
        return 0

    def finish(self) -> None:
        self._end("stop")
        put({"type": "agent_end", "messages": []})
        put({"type": "agent_settled"})


class OneshotGeneric(OneshotOutput):
    """An agent known only by its file; it takes its prompt as a word."""

    tools: ClassVar[Mapping[DiskActionKind, tuple[str, str]]] = {
        "read": ("read", "path"),
        "edit": ("write", "path"),
        "run": ("shell", "command"),
    }

    def resumed(self) -> tuple[str | None, bool]:
        return self.call.given.get("--again"), False

    @property
    def may_run(self) -> bool:
        return self.call.given.get("--trust-level") == "high"

    def prompt(self) -> str:
        parts = self.call.given.get("--say", "-")
        return super().prompt() if parts == "-" else parts

    def begin(self, prompt: str) -> None:
        put({"event": "hello", "chat": {"id": self.memory.id}})

    def say(self, text: str) -> None:
        put({"event": "speech", "data": {"words": text}})

    def think(self, text: str) -> None:
        put({"event": "musing", "data": {"words": text}})

    def called(self, name: str, given: dict[str, Any], output: str) -> None:
        id_ = f"act-{self.next()}"
        put({"event": "act", "act": {"id": id_, "tool": name, "input": given}})
        put({"event": "acted", "act": {"id": id_, "output": output, "trouble": None}})

    def plan(self, steps: list[str]) -> None:
        put({"event": "plan", "steps": [{"what": step, "state": "pending"} for step in steps]})

    def fail(self, text: str) -> int:
        put({"event": "bye", "trouble": text})
        return 1

    def finish(self) -> None:
        put({"event": "bye", "tokens": {"in": _INPUT, "out": _OUTPUT}})


OUTPUTS: dict[str, type[OneshotOutput]] = {
    "codex": OneshotCodex,
    "gemini": OneshotGemini,
    "opencode": OneshotOpencode,
    "cursor": OneshotCursor,
    "pi": OneshotPi,
    "generic": OneshotGeneric,
}
