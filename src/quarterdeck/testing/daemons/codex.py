"""A fake of ``codex app-server``: JSON-RPC, a message a line, without the member ``jsonrpc``."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any

from quarterdeck.testing.oneshot_cli.memory import Memory

from .commands import Failed, run_prompt

__all__ = ["serve_codex"]

_LIMIT = 64 * 1024 * 1024
_INPUT, _OUTPUT = 11, 7
"""Tokens of a turn, as every fake counts them."""


def _put(message: dict[str, Any]) -> None:
    data = json.dumps(message, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
    while data:
        data = data[os.write(1, data) :]


async def serve_codex() -> None:
    """Serve until standard input ends."""
    reader = asyncio.StreamReader(limit=_LIMIT)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    server = _Server()
    while line := await reader.readline():
        with suppress(ValueError):
            await server.take(json.loads(line))


class _Refused(Exception):
    """A request that codex refuses."""


class _Server:
    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self._asked = 0
        self.answers: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def take(self, message: dict[str, Any]) -> None:
        """Take one message."""
        if "method" not in message:
            waiting = self.answers.pop(message.get("id", -1), None)
            if waiting is not None and not waiting.done():
                waiting.set_result(message.get("result") or {})
            return
        if "id" not in message:
            return
        try:
            result = await self._answer(message["method"], message.get("params") or {})
        except _Refused as error:
            told = {"code": -32600, "message": str(error)}
            _put({"error": told, "id": message["id"]})
            return
        _put({"id": message["id"], "result": result})
        if message["method"] == "turn/start":
            self._threads[message["params"]["threadId"]].go()

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask the client something."""
        id_, self._asked = self._asked, self._asked + 1
        waiting = self.answers[id_] = asyncio.get_running_loop().create_future()
        _put({"method": method, "id": id_, "params": params})
        return await waiting

    async def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "initialize":
                client = params["clientInfo"]["name"]
                return {"userAgent": f"{client}/0.0.0-fake (fake)", "platformOs": "linux"}
            case "account/read":
                return {"account": None, "requiresOpenaiAuth": False}
            case "thread/start" | "thread/resume" | "thread/fork":
                return self._open(method, params)
            case "thread/list":
                return {"data": [{"id": id_} for id_ in self._threads], "nextCursor": None}
            case "thread/items/list":
                return self._thread(params).past()
            case "turn/start":
                return self._thread(params).begin(params)
            case "turn/interrupt":
                await self._thread(params).interrupt()
                return {}
            case "thread/name/set" | "thread/backgroundTerminals/clean":
                return {}
            case _:
                raise _Refused(f"Invalid request: unknown variant `{method}`")

    def _thread(self, params: dict[str, Any]) -> "_Thread":
        thread = self._threads.get(params.get("threadId", ""))
        if thread is None:
            raise _Refused(f"thread not found: {params.get('threadId')}")
        return thread

    def _open(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        memory = Memory("codex", params.get("threadId"), fork=method == "thread/fork")
        if not memory.is_known:
            raise _Refused(f"no rollout found for thread id {params['threadId']}")
        self._threads[memory.id] = _Thread(self, memory)
        told: dict[str, Any] = {"id": memory.id, "cwd": params.get("cwd"), "turns": []}
        return {"thread": told, "model": params.get("model") or "fake-1"}


class _Thread:
    """One thread, and the voice of its turns."""

    def __init__(self, server: _Server, memory: Memory) -> None:
        self._server = server
        self._memory = memory
        self._task: asyncio.Task[None] | None = None
        self._turn = ""
        self._count = 0
        self._growing: tuple[str, str, str] | None = None
        """The kind, the id and the text so far of the item that grows."""

    @property
    def prompts(self) -> list[str]:
        return self._memory.prompts

    def past(self) -> dict[str, Any]:
        items = [
            {"type": "userMessage", "id": f"user-{number}", "content": [_text(prompt)]}
            for number, prompt in enumerate(self.prompts)
        ]
        return {"data": [{"item": item} for item in items], "nextCursor": None}

    def begin(self, params: dict[str, Any]) -> dict[str, Any]:
        texts = [one["text"] for one in params["input"] if one["type"] == "text"]
        self._memory.keep("\n".join(texts))
        self._turn = f"turn-{self._memory.turns}"
        return {"turn": {"id": self._turn, "items": [], "status": "inProgress", "error": None}}

    def go(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(self.prompts[-1]))

    async def interrupt(self) -> None:
        if self._task is None or self._task.done():
            raise _Refused("no active turn to interrupt")
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self, prompt: str) -> None:
        self._tell("turn/started", turn={"id": self._turn, "status": "inProgress"})
        item = {"type": "userMessage", "id": self._id("user"), "content": [_text(prompt)]}
        self._tell("item/started", item=item)
        self._tell("item/completed", item=item)
        status, error = "completed", None
        try:
            await run_prompt(self, prompt)
        except Failed as failure:
            status, error = "failed", {"message": str(failure), "codexErrorInfo": "other"}
            self._tell("error", error=error, willRetry=False)
        except asyncio.CancelledError:
            status = "interrupted"
        self._end_item()
        if status == "completed":
            self._count_tokens()
        turn: dict[str, Any] = {"id": self._turn, "items": [], "status": status, "error": error}
        self._tell("turn/completed", turn=turn)

    def _count_tokens(self) -> None:
        turns = self._memory.turns
        usage = {"total": _tokens(turns), "last": _tokens(1), "modelContextWindow": 200_000}
        self._tell("thread/tokenUsage/updated", tokenUsage=usage)

    def _tell(self, method: str, **params: Any) -> None:
        where = {"threadId": self._memory.id, "turnId": self._turn}
        _put({"method": method, "params": {**where, **params}})

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
            self._tell("item/started", item=_item(kind, id_, ""))
        _, id_, before = self._growing
        self._growing = (kind, id_, before + delta)
        method = "agentMessage/delta" if kind == "agentMessage" else "reasoning/textDelta"
        self._tell(f"item/{method}", itemId=id_, delta=delta)

    def _end_item(self) -> None:
        if self._growing is not None:
            self._tell("item/completed", item=_item(*self._growing))
            self._growing = None

    async def say(self, text: str) -> None:
        await self._grow("agentMessage", text)

    async def think(self, text: str) -> None:
        await self._grow("reasoning", text)

    async def tool(self, title: str) -> None:
        self._end_item()
        item = self._command(title)
        self._tell("item/started", item=item)
        self._tell("item/commandExecution/outputDelta", itemId=item["id"], delta="done\n")
        self._tell("item/completed", item=_finished(item, "completed"))

    async def ask(self, title: str) -> bool:
        self._end_item()
        item = self._command(title)
        self._tell("item/started", item=item)
        asked = {"threadId": self._memory.id, "turnId": self._turn, "itemId": item["id"]}
        method = "item/commandExecution/requestApproval"
        answer = await self._server.ask(method, {**asked, "command": item["command"]})
        allowed = answer.get("decision") == "accept"
        self._tell("item/completed", item=_finished(item, "completed" if allowed else "declined"))
        return allowed

    def _command(self, script: str) -> dict[str, Any]:
        return {
            "type": "commandExecution",
            "id": self._id("call"),
            "command": f"/bin/bash -lc {_quoted(script)}",
            "status": "inProgress",
            "aggregatedOutput": None,
            "exitCode": None,
        }

    async def plan(self, steps: list[str]) -> None:
        self._tell("turn/plan/updated", plan=[{"step": s, "status": "pending"} for s in steps])

    async def unknown(self, text: str) -> None:
        self._tell("thread/mystery", text=text)

    async def garbage(self, count: int) -> None:
        for number in range(count):
            os.write(1, b"garbage %d \xff\xfe {]\n" % number)
        os.write(1, b"[1, 2]\n\n3\n")


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


def _quoted(script: str) -> str:
    import shlex

    return shlex.quote(script)


def _tokens(turns: int) -> dict[str, int]:
    return {
        "totalTokens": (_INPUT + _OUTPUT) * turns,
        "inputTokens": _INPUT * turns,
        "cachedInputTokens": 0,
        "outputTokens": _OUTPUT * turns,
        "reasoningOutputTokens": 0,
    }
