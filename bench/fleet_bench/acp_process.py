"""An agent at the other end of two pipes: requests, updates as they come, permission requests."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["AcpProcess", "SeenUpdate", "SubjectFailedError", "measure_pss", "started_agent"]

_PATIENCE = 120.0
_CLIENT: dict[str, Any] = {
    "protocolVersion": 1,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}},
}


class SubjectFailedError(Exception):
    """An agent did not do what was measured; says what it did."""


@dataclass(frozen=True, slots=True)
class SeenUpdate:
    """A notification or request of the agent, and when it came (``time.perf_counter``)."""

    at: float
    method: str
    params: Mapping[str, Any]

    @property
    def text(self) -> str:
        """What the agent says in it; empty if it says nothing."""
        update = self.params.get("update", {})
        if update.get("sessionUpdate") != "agent_message_chunk":
            return ""
        return str(update.get("content", {}).get("text", ""))


class AcpProcess:
    """One agent process. Permission requests are answered with the first option that allows."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: Path) -> None:
        self.process = process
        self.begun = time.perf_counter()
        self.capabilities: Mapping[str, Any] = {}
        self.updates: list[SeenUpdate] = []
        """Notifications and requests of the agent, in order."""
        self.bad_lines = 0
        self._stderr = stderr
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reading = threading.Event()
        self._reading.set()
        self._number = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def call(self, method: str, params: Mapping[str, Any], seconds: float = _PATIENCE) -> Any:
        """Ask for something; the result. Raises SubjectFailedError."""
        self._number += 1
        number = self._number
        self.write({"id": number, "method": method, "params": params})
        deadline = time.perf_counter() + seconds
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.perf_counter()))
            except queue.Empty:
                raise self._failure(f"{method} was not answered in {seconds:g} s") from None
            if answer is None:
                raise self._failure(f"{method} was not answered; the agent ended")
            if answer.get("id") != number:
                continue  # the answer to something that it was not asked properly
            if "result" not in answer:
                raise self._failure(f"{method} was answered with {str(answer)[:300]}")
            return answer["result"]

    def open_session(self, cwd: Path) -> str:
        """``initialize`` and ``session/new``; the session's id."""
        self.initialize()
        return str(self.call("session/new", {"cwd": str(cwd), "mcpServers": []})["sessionId"])

    def initialize(self) -> None:
        """The first request of all."""
        self.capabilities = self.call("initialize", _CLIENT).get("agentCapabilities", {})

    def prompt(self, session: str, words: str, seconds: float = _PATIENCE) -> None:
        """A whole turn."""
        content = [{"type": "text", "text": words}]
        self.call("session/prompt", {"sessionId": session, "prompt": content}, seconds)

    def write(self, message: Mapping[str, Any]) -> None:
        """Send a message as it is."""
        self.write_bytes(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write_bytes(self, data: bytes) -> None:
        """Send anything."""
        assert self.process.stdin is not None
        try:
            with self._lock:
                self.process.stdin.write(data)
                self.process.stdin.flush()
        except OSError as error:
            raise self._failure(f"the agent takes nothing any more ({error})") from error

    def pause_reading(self, seconds: float) -> None:
        """Leave what it says in the pipe for some time, in the background."""
        self._reading.clear()
        threading.Timer(seconds, self._reading.set).start()

    def kill(self) -> None:
        """End its whole group with SIGKILL."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reading.set()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._reading.wait()
            now = time.perf_counter()
            try:
                message = json.loads(line)
            except ValueError:
                self.bad_lines += 1
                continue
            if not isinstance(message, dict):
                self.bad_lines += 1
            elif "method" in message:
                self.updates.append(
                    SeenUpdate(now, str(message["method"]), message.get("params") or {})
                )
                if "id" in message:
                    self._answer(message)
            else:
                self._answers.put(message)
        self._answers.put(None)

    def _answer(self, message: Mapping[str, Any]) -> None:
        if message["method"] == "session/request_permission":
            options = message["params"].get("options", [])
            allowed = [one for one in options if str(one.get("kind")).startswith("allow")]
            chosen = (allowed or options)[0]["optionId"]
            result = {"outcome": {"outcome": "selected", "optionId": chosen}}
            reply: dict[str, Any] = {"id": message["id"], "result": result}
        else:
            error = {"code": -32601, "message": "this client does not have it"}
            reply = {"id": message["id"], "error": error}
        with contextlib.suppress(SubjectFailedError):
            self.write(reply)

    def _failure(self, what: str) -> SubjectFailedError:
        errors = self._stderr.read_text(errors="replace")[-300:]
        return SubjectFailedError(f"{what}; it wrote {errors!r}" if errors else what)


@contextlib.contextmanager
def started_agent(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], stderr: Path
) -> Generator[AcpProcess]:
    """Run an agent; it and its group are killed at the end."""
    with stderr.open("wb") as errors:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    agent = AcpProcess(process, stderr)
    try:
        yield agent
    finally:
        agent.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


def measure_pss(pid: int) -> int:
    """Bytes of a process and all below it; what they share counts once. Linux only."""
    total, found = 0, [pid]
    while found:
        one = found.pop()
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            total += int(next(line for line in lines if line.startswith("Pss:")).split()[1]) * 1024
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return total
