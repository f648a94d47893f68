"""The fake as a program: its start, the control protocol, turns one after another."""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from .commands import FakeClaudeFailedError, run_line
from .flags import FakeClaudeFlags, parse, refuse
from .output import FakeClaudeOutput, TurnAbortedError

__all__ = ["FakeClaude", "main"]

_VERSION = "2.1.325"
_PRICE = 0.0001
"""Dollars of one model call."""
_MODES = ("acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan")


class FakeClaude:
    """One session; standard input is read in the main thread, turns run in another."""

    def __init__(self, flags: FakeClaudeFlags, environment: Mapping[str, str]) -> None:
        self.flags = flags
        self.quirks = frozenset(environment.get("FAKE_QUIRKS", "").split(","))
        state = environment.get("FAKE_STATE")
        self._state = Path(state) if state else None
        self.memory: list[str] = []
        """The prompts of the session."""
        self._entries: list[list[str]] = []
        """The ids of what each of its turns added to the conversation."""
        self.servers = _servers(flags)
        self.stop = "end_turn"
        self.exit_code: int | None = None
        self._hooks: list[str] = []
        """Callbacks that are called before every call is done."""
        self._total = 0.0
        self._results = 0
        self._prompts: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._withdrawn: set[str] = set()
        self._read: list[str] = []
        """Ids of messages that were read during this turn."""
        self._waiting: list[str] = []
        self._lock = threading.Lock()
        session = self._recall(flags)
        self.output = FakeClaudeOutput(flags, session, flags.values.get("model", "fake-model"))

    # Sessions

    def _recall(self, flags: FakeClaudeFlags) -> str:
        resumed = flags.values.get("resume")
        fresh = flags.values.get("session_id") or str(uuid4())
        if resumed is None:
            return fresh
        file = self._file(resumed)
        if file is None or not file.exists():
            _refuse_resume(resumed, f"No conversation found with session ID: {resumed}")
        else:
            kept = json.loads(file.read_text())
            self.memory, self._entries = kept["prompts"], kept["entries"]
        if (entry := flags.values.get("resume_at")) is not None:
            self._go_back(resumed, entry)
        return fresh if "fork" in flags.switches else resumed

    def _go_back(self, session: str, entry: str) -> None:
        """Forget what came after an entry."""
        found = [number for number, ids in enumerate(self._entries, 1) if entry in ids]
        if not found or "keeps-conversation" in self.quirks:
            _refuse_resume(session, f"No message found with message.uuid of: {entry}")
        del self.memory[found[0] :], self._entries[found[0] :]

    def _file(self, session: str) -> Path | None:
        return self._state / f"claude-{session}.json" if self._state is not None else None

    def _remember(self) -> None:
        """Keep the conversation so far."""
        file = self._file(self.output.session)
        if file is not None:
            entries = [*self._entries, self.output.entries]
            file.write_text(json.dumps({"prompts": self.memory, "entries": entries}))

    # Listening

    def run(self) -> int:
        """Serve until standard input ends; returns the exit code."""
        if "silent" in self.quirks:
            time.sleep(3600)
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        for data in sys.stdin.buffer:
            try:
                line = json.loads(data)
            except ValueError:
                sys.stderr.write("Error parsing streaming input line: SyntaxError\n")
                return 1
            self._hear(line)
        self._prompts.put(None)
        if "deaf" in self.quirks:
            time.sleep(3600)
        worker.join()
        return 0

    def _hear(self, line: dict[str, Any]) -> None:
        match line.get("type"):
            case "user":
                self._lifecycle(line, "queued")
                with self._lock:
                    self._waiting.append(line.get("uuid", ""))
                self._prompts.put(line)
            case "control_response":
                self.output.hear(line["response"])
            case "control_request":
                self._control(line["request_id"], line["request"])
            case _:
                pass

    def _control(self, id_: str, request: dict[str, Any]) -> None:
        subtype = request.get("subtype")
        mode = request.get("mode")
        if subtype == "initialize":
            hooks: dict[str, list[dict[str, Any]]] = request.get("hooks") or {}
            before = hooks.get("PreToolUse", [])
            self._hooks = [name for one in before for name in one["hookCallbackIds"]]
            self._answer(id_, self._greeting())
        elif subtype == "interrupt":
            self._interrupt(id_)
        elif subtype == "set_permission_mode" and mode in _MODES:
            self.output.mode = str(mode)
            self._answer(id_, {"mode": mode})
            status = {"type": "system", "subtype": "status", "status": None}
            self.output.line({**status, "permissionMode": mode})
        elif subtype == "set_permission_mode":
            self._refuse(id_, f"Invalid permission mode: {mode}")
        elif subtype == "set_model":
            self.output.model = str(request.get("model"))
            self._answer(id_, {"model": self.output.model})
        else:
            self._refuse(id_, f"Unsupported control request subtype: {subtype}")

    def hook(self, tool: str, given: dict[str, Any], call: str) -> str:
        """Call the hooks for a call: ``deny``, ``ask``, or nothing. Raises TurnAbortedError."""
        data = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given}
        for name in self._hooks:
            answer = self.output.ask(
                "hook_callback", callback_id=name, input={**data, "tool_use_id": call}
            )
            response: dict[str, dict[str, str]] = answer.get("response") or {}
            value = response.get("hookSpecificOutput", {}).get("permissionDecision")
            if value:
                return value
        return ""

    def _interrupt(self, id_: str) -> None:
        with self._lock:
            withdrawn, self._waiting = self._waiting, []
            self._withdrawn.update(withdrawn)
            if "ignore-interrupt" not in self.quirks:
                self.output.interrupt()
        self._answer(id_, {"still_queued": [], "cancelled": withdrawn})

    def _answer(self, id_: str, response: dict[str, Any]) -> None:
        answer = {"subtype": "success", "request_id": id_, "response": response}
        self.output.line({"type": "control_response", "response": answer})

    def _refuse(self, id_: str, error: str) -> None:
        answer = {"subtype": "error", "request_id": id_, "error": error}
        self.output.line({"type": "control_response", "response": answer})

    def _greeting(self) -> dict[str, Any]:
        key = {} if "logged-out" in self.quirks else {"apiKeySource": "ANTHROPIC_API_KEY"}
        compact = {"name": "compact", "description": "Make room", "argumentHint": "[what]"}
        return {
            "commands": [compact, {"name": "clear", "description": "Forget", "argumentHint": ""}],
            "models": [{"value": "default", "displayName": "Default"}],
            "account": {"tokenSource": "none", **key, "apiProvider": "firstParty"},
            "claude_code_version": _VERSION,
            "current_permission_mode": self.output.mode,
            "pid": os.getpid(),
        }

    # Turns

    def _work(self) -> None:
        while (line := self._prompts.get()) is not None:
            if not self._begin(line.get("uuid", "")):
                self._lifecycle(line, "cancelled")
                continue
            self._lifecycle(line, "started")
            self._turn(line)
            self._lifecycle(line, "completed")

    def _begin(self, uuid: str) -> bool:
        """Whether the prompt is still wanted; an interrupt is for this turn from here on."""
        with self._lock:
            if not self._is_wanted(uuid):
                return False
            self.output.interrupted.clear()
            return True

    def _is_wanted(self, uuid: str) -> bool:
        if uuid in self._withdrawn:
            return False
        if uuid in self._waiting:
            self._waiting.remove(uuid)
        return True

    def _lifecycle(self, line: dict[str, Any], state: str) -> None:
        if "uuid" in line:
            data = {"type": "command_lifecycle", "command_uuid": line["uuid"]}
            self.output.line({**data, "state": state})

    def _turn(self, line: dict[str, Any]) -> None:
        output = self.output
        self.stop = "end_turn"
        prompt = _text(line["message"]["content"])
        self.memory.append(prompt)
        output.entries = []
        self._remember()
        init: dict[str, Any] = {"type": "system", "subtype": "init", "model": output.model}
        servers = [{"name": name, "status": "failed"} for name in self.servers]
        output.line(
            {**init, "permissionMode": output.mode, "mcp_servers": servers, "cwd": str(Path.cwd())}
        )
        output.line({"type": "system", "subtype": "status", "status": "requesting"})
        if "replay" in self.flags.switches:
            output.line({**line, "isReplay": True})
        before = output.calls
        try:
            lines = prompt.split("\n")
            while lines:
                run_line(self, lines.pop(0))
                lines += self._take_steering()
            output.end_message(self.stop)
            self._result(line, calls=1 + output.calls - before, stop_reason=self.stop)
        except TurnAbortedError:
            self._aborted(line)
        except FakeClaudeFailedError as failure:
            self._failed(line, failure)

    def _take_steering(self) -> list[str]:
        """The lines of messages that came during the turn; ``late-steering``: it reads none."""
        lines: list[str] = []
        if "late-steering" in self.quirks:
            return lines
        with suppress(queue.Empty):
            while (line := self._prompts.get_nowait()) is not None:
                uuid = line.get("uuid", "")
                with self._lock:
                    is_wanted = self._is_wanted(uuid)
                if not is_wanted:
                    self._lifecycle(line, "cancelled")
                    continue
                self._read.append(uuid)
                self.output.end_message("end_turn")
                if "replay" in self.flags.switches:
                    self.output.line({**line, "isReplay": True})
                lines += _text(line["message"]["content"]).split("\n")
            self._prompts.put(None)
        return lines

    def _aborted(self, line: dict[str, Any]) -> None:
        output = self.output
        output.parent = None
        output.end_message("end_turn")
        content = [{"type": "text", "text": "[Request interrupted by user]"}]
        output.line({"type": "user", "message": {"role": "user", "content": content}})
        self._result(
            line,
            calls=0,
            subtype="error_during_execution",
            is_error=True,
            terminal_reason="aborted_streaming",
        )

    def _failed(self, line: dict[str, Any], failure: FakeClaudeFailedError) -> None:
        output, reason = self.output, str(failure)
        output.end_message("end_turn")
        if reason:
            content = [{"type": "text", "text": f"API Error: {reason}"}]
            body = {"id": str(uuid4()), "model": "<synthetic>", "content": content}
            error = {"is_api_error_message": True, "api_error_status": failure.status}
            output.line({"type": "assistant", "message": body, **error})
        data = {"result": f"API Error: {reason}"} if reason else {}
        self._result(line, calls=0, subtype=failure.subtype, is_error=True, **data)

    def _result(self, line: dict[str, Any], *, calls: int, **fields: Any) -> None:
        cost = calls * _PRICE
        self._total += cost
        usage = {"inputTokens": 11 * calls, "outputTokens": 7 * calls, "costUSD": cost}
        result = {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": "".join(self.output.texts),
            "usage": {"input_tokens": 11 * calls, "output_tokens": 7 * calls},
            "total_cost_usd": self._total,
            "modelUsage": {self.output.model: {**usage, "contextWindow": 200_000}},
            "model_usage_since_last_result": {self.output.model: usage} if calls else {},
            "permission_denials": [],
            "user_message_uuids": [line["uuid"], *self._read] if "uuid" in line else [],
            "result_index": self._results,
        }
        self._results += 1
        self._read.clear()
        self._remember()
        self._entries.append(self.output.entries)
        self.output.line({**result, **fields})
        if self.exit_code is not None:
            os._exit(self.exit_code)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", f"[{block['type']}]") for block in content)


def _servers(flags: FakeClaudeFlags) -> list[str]:
    """The names of the tool servers that were handed over, as a file or as text."""
    found: list[str] = []
    for given in flags.lists.get("mcp", ()):
        try:
            read = given if given.startswith("{") else Path(given).read_text()
            found.extend(json.loads(read)["mcpServers"])
        except (OSError, ValueError, KeyError):
            refuse(f"Error: Invalid MCP configuration: {given}")
    return found


def _refuse_resume(session: str, text: str) -> None:
    result = {"type": "result", "subtype": "error_during_execution", "is_error": True}
    print(json.dumps({**result, "errors": [text], "session_id": session}), flush=True)  # noqa: T201
    refuse(text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as a program."""
    flags = parse(sys.argv[1:] if arguments is None else arguments)
    # What still runs in another thread must not hold the end up.
    code = FakeClaude(flags, os.environ).run()
    sys.stdout.flush()
    os._exit(code)
