"""One thread of the fake ``codex app-server``: its turns, its items, the output of its model."""

import asyncio
import json
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from quarterdeck.testing.disk_actions import DiskAction
from quarterdeck.testing.session_memory import SessionMemory
from quarterdeck.wire.tasks import start_task

from .commands import FakeServerFailedError, run_prompt

__all__ = ["CodexThread", "CodexThreadServer", "FakeCodexClient"]

_INPUT, _OUTPUT = 11, 7
"""Tokens of a turn, as every fake counts them."""


class FakeCodexClient:
    """One client of the server."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send

    def put(self, message: dict[str, Any]) -> None:
        """Send a message."""
        self.put_raw(json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass"))

    def put_raw(self, data: bytes) -> None:
        """Send what may be no message."""
        self._send(data)


class CodexThreadServer(Protocol):
    """The server of a thread, as far as the thread uses it."""

    @property
    def open(self) -> "Mapping[int, tuple[CodexThread, dict[str, Any], asyncio.Future[Any]]]":
        """What was asked and is not answered."""
        ...

    async def ask(
        self, thread: "CodexThread", method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask all clients of a thread something; the first answer counts."""
        ...


class CodexThread:
    """A thread, and the output of its turns. Only what is complete is kept."""

    def __init__(self, server: CodexThreadServer, memory: SessionMemory) -> None:
        self._server = server
        self._memory = memory
        self._task: asyncio.Task[None] | None = None
        self._turn = ""
        self._client: str | None = None
        self._steering: list[tuple[str | None, str]] = []
        self._count = 0
        self._usage: dict[str, Any] | None = None
        self._growing: tuple[str, str, str] | None = None
        """The kind, the id and the text so far of the item that grows."""
        self.id = memory.id
        self.approval = "on-request"
        """When it asks: in ``untrusted`` about all but reading, else about nothing here."""
        self.clients: set[FakeCodexClient] = set()
        """The clients that receive its notifications."""
        self.turns: list[dict[str, Any]] = []
        """Oldest first, each with its complete items."""

    @property
    def prompts(self) -> list[str]:
        """Those of the thread, this turn's last."""
        return self._memory.prompts

    def moved(self, server: CodexThreadServer) -> "CodexThread":
        """The same thread on another server, at rest."""
        thread = CodexThread(server, self._memory)
        thread.turns, thread._usage = self.turns, self._usage
        return thread

    def become_copy(self, parent: "CodexThread | None", last: str) -> None:
        """Hold what another thread had up to one of its turns."""
        turns = parent.turns if parent is not None else []
        count = next((n + 1 for n, turn in enumerate(turns) if turn["id"] == last), len(turns))
        self.turns = list(turns[:count])
        if parent is not None:
            kept = len(parent.prompts) - len(turns) + count
            self._memory.prompts = list(parent.prompts[:kept])

    @property
    def is_active(self) -> bool:
        """Whether a turn runs."""
        return self._task is not None and not self._task.done()

    def status(self) -> dict[str, Any]:
        """What the server says of it."""
        if not self.is_active:
            return {"type": "idle"}
        waits = any(thread is self for thread, _, _ in self._server.open.values())
        return {"type": "active", "activeFlags": ["waitingOnApproval"] if waits else []}

    def items(self, params: dict[str, Any]) -> dict[str, Any]:
        """What is complete, of a turn or of all; prompts of other processes by themselves."""
        wanted = params.get("turnId")
        found = [
            {"turnId": turn["id"], "item": item}
            for turn in self.turns
            for item in turn["items"]
            if wanted in (None, turn["id"])
        ]
        if not self.turns:
            found = [
                {"item": _prompt(f"user-{number}", prompt, None)}
                for number, prompt in enumerate(self.prompts)
            ]
        return {"data": found, "nextCursor": None}

    def begin(self, params: dict[str, Any]) -> dict[str, Any]:
        """Take a prompt; ``go`` runs it."""
        texts = [one["text"] for one in params["input"] if one["type"] == "text"]
        self._memory.keep("\n".join(texts))
        self._client = params.get("clientUserMessageId")
        self.approval = params.get("approvalPolicy") or self.approval
        self._turn = f"turn-{self._memory.turns}"
        turn: dict[str, Any] = {
            "id": self._turn,
            "items": [],
            "status": "inProgress",
            "error": None,
        }
        self.turns.append(turn)
        return {"turn": {**turn, "items": []}}

    def go(self) -> None:
        """Run the prompt that was taken."""
        self._task = start_task(self._run(self.prompts[-1]), name=self._turn)

    def steer(self, params: dict[str, Any]) -> bool:
        """Take a message for the turn that runs; False if it is another, or none."""
        if not self.is_active or params["expectedTurnId"] != self._turn:
            return False
        texts = [one["text"] for one in params["input"] if one["type"] == "text"]
        self._steering.append((params.get("clientUserMessageId"), "\n".join(texts)))
        return True

    def take_steering(self) -> list[str]:
        """The lines of messages that came during the turn, each once."""
        taken, self._steering = self._steering, []
        for client, words in taken:
            self._end_item()
            item = _prompt(self._id("user"), words, client)
            self.tell("item/started", item=item)
            self._complete(item)
        return [line for _, words in taken for line in words.split("\n")]

    async def interrupt(self) -> bool:
        """End the turn that runs; False if none does."""
        if self._task is None or self._task.done():
            return False
        self._task.cancel()
        await asyncio.wait([self._task])
        return True

    async def stop(self) -> None:
        """The server dies: the turn ends without a word."""
        await self.interrupt()
        if self.turns and self.turns[-1]["status"] == "interrupted":
            self.turns[-1]["status"] = "inProgress"

    async def _run(self, prompt: str) -> None:
        self.tell("turn/started", turn={"id": self._turn, "status": "inProgress"})
        item = _prompt(self._id("user"), prompt, self._client)
        self.tell("item/started", item=item)
        self._complete(item)
        status, error = "completed", None
        try:
            await run_prompt(self, prompt)
        except FakeServerFailedError as failure:
            status, error = "failed", {"message": str(failure), "codexErrorInfo": "other"}
            self.tell("error", error=error, willRetry=False)
        except asyncio.CancelledError:
            status = "interrupted"
        self._end_item()
        if status == "completed":
            self._count_tokens()
        self.turns[-1] |= {"status": status, "error": error}
        self.tell("turn/completed", turn={**self.turns[-1], "items": []})

    def _complete(self, item: dict[str, Any]) -> None:
        self.turns[-1]["items"].append(item)
        self.tell("item/completed", item=item)

    def _count_tokens(self) -> None:
        turns = self._memory.turns
        self._usage = {"total": _tokens(turns), "last": _tokens(1), "modelContextWindow": 200_000}
        self.tell("thread/tokenUsage/updated", tokenUsage=self._usage)

    def tell_usage(self, client: FakeCodexClient) -> None:
        """Send a new client how many tokens were used, if any were."""
        if self._usage is not None:
            where = {"threadId": self.id, "turnId": self._turn, "tokenUsage": self._usage}
            client.put({"method": "thread/tokenUsage/updated", "params": where})

    def tell(self, method: str, **params: Any) -> None:
        """Send every client a notification."""
        where = {"threadId": self.id, "turnId": self._turn}
        self.put({"method": method, "params": {**where, **params}})

    def put(self, message: dict[str, Any]) -> None:
        """Send every client a message."""
        for client in list(self.clients):
            client.put(message)

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._memory.turns}-{self._count}"

    # Saying things

    async def _grow(self, kind: str, delta: str) -> None:
        await asyncio.sleep(0)  # so that an interruption comes through
        if self._growing is None or self._growing[0] != kind:
            self._end_item()
            id_ = self._id(kind)
            self._growing = (kind, id_, "")
            self.tell("item/started", item=_item(kind, id_, ""))
        _, id_, before = self._growing
        self._growing = (kind, id_, before + delta)
        method = "agentMessage/delta" if kind == "agentMessage" else "reasoning/textDelta"
        self.tell(f"item/{method}", itemId=id_, delta=delta)

    def _end_item(self) -> None:
        if self._growing is not None:
            self._complete(_item(*self._growing))
            self._growing = None

    async def say(self, text: str) -> None:
        """Say a piece of a message."""
        await self._grow("agentMessage", text)

    async def think(self, text: str) -> None:
        """Think a piece of a thought."""
        await self._grow("reasoning", text)

    async def tool(self, title: str) -> None:
        """Run a tool to its good end."""
        self._end_item()
        item = self._command(title)
        self.tell("item/started", item=item)
        self.tell("item/commandExecution/outputDelta", itemId=item["id"], delta="done\n")
        self._complete(_finished(item, "completed"))

    async def ask(self, title: str) -> bool:
        """Run a shell command that needs permission."""
        self._end_item()
        item = self._command(title)
        self.tell("item/started", item=item)
        asked = {"threadId": self.id, "turnId": self._turn, "itemId": item["id"]}
        method = "item/commandExecution/requestApproval"
        answer = await self._server.ask(self, method, {**asked, "command": item["command"]})
        allowed = answer.get("decision") == "accept"
        self._complete(_finished(item, "completed" if allowed else "declined"))
        return allowed

    async def act(self, action: DiskAction, *, asks: bool = True) -> str | None:
        """Do something, with permission where its policy asks for it; None: it was refused.

        It reads by commands that it knows to be harmless.
        """
        self._end_item()
        if action.kind == "edit":
            item, what = self._change(action), "fileChange"
        else:
            script = action.target if action.kind == "run" else f"cat {action.target}"
            item, what = self._command(script), "commandExecution"
        self.tell("item/started", item=item)
        if asks and action.kind != "read" and self.approval == "untrusted":
            asked = {"threadId": self.id, "turnId": self._turn, "itemId": item["id"]}
            data = {"command": item["command"]} if what == "commandExecution" else {}
            answer = await self._server.ask(self, f"item/{what}/requestApproval", {**asked, **data})
            if answer.get("decision") != "accept":
                self._complete({**item, "status": "declined"})
                return None
        output = await asyncio.to_thread(action.carry_out)
        data = {} if what == "fileChange" else {"aggregatedOutput": output, "exitCode": 0}
        self._complete({**item, **data, "status": "completed"})
        return output

    def _change(self, action: DiskAction) -> dict[str, Any]:
        diff = f"@@ -1 +1 @@\n+{action.content}\n"
        return {
            "type": "fileChange",
            "id": self._id("call"),
            "changes": [{"path": action.path, "kind": {"type": "update"}, "diff": diff}],
            "status": "inProgress",
        }

    def _command(self, script: str) -> dict[str, Any]:
        return {
            "type": "commandExecution",
            "id": self._id("call"),
            "command": f"/bin/bash -lc {shlex.quote(script)}",
            "status": "inProgress",
            "aggregatedOutput": None,
            "exitCode": None,
        }

    async def plan(self, steps: list[str]) -> None:
        """Send a plan."""
        self.tell("turn/plan/updated", plan=[{"step": s, "status": "pending"} for s in steps])

    async def unknown(self, text: str) -> None:
        """Send a notification of an unknown kind."""
        self.tell("thread/mystery", text=text)

    async def garbage(self, count: int) -> None:
        """Send what is no message."""
        for client in list(self.clients):
            for number in range(count):
                client.put_raw(b"garbage %d \xff\xfe {]" % number)
            for line in (b"[1, 2]", b"", b"3"):
                client.put_raw(line)


def _prompt(id_: str, text: str, client: str | None) -> dict[str, Any]:
    return {"type": "userMessage", "id": id_, "clientId": client, "content": [_text(text)]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _item(kind: str, id_: str, text: str) -> dict[str, Any]:
    if kind == "agentMessage":
        return {"type": kind, "id": id_, "text": text}
    return {"type": kind, "id": id_, "summary": [], "content": [text] if text else []}


def _finished(item: dict[str, Any], status: str) -> dict[str, Any]:
    if status == "declined":
        return {**item, "status": status}
    return {**item, "status": status, "aggregatedOutput": "done\n", "exitCode": 0}


def _tokens(turns: int) -> dict[str, int]:
    return {
        "totalTokens": (_INPUT + _OUTPUT) * turns,
        "inputTokens": _INPUT * turns,
        "cachedInputTokens": 0,
        "outputTokens": _OUTPUT * turns,
        "reasoningOutputTokens": 0,
    }
