"""One session of the fake ``opencode serve``: its messages, its parts, the output of its turns."""

import asyncio
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from quarterdeck.testing.disk_actions import DiskAction, DiskActionKind
from quarterdeck.testing.session_memory import SessionMemory

from .commands import FakeServerFailedError, run_prompt

if TYPE_CHECKING:
    from .opencode import FakeOpencode

__all__ = ["OpencodeSession"]

_INPUT, _OUTPUT = 11, 7
"""Tokens of a turn, as every fake counts them."""
_ANSWER = "~"
"""Sorts after every letter: an answer's id must be greater than the prompt's."""
_TOOLS: dict[DiskActionKind, tuple[str, str, str]] = {
    "read": ("read", "read", "filePath"),
    "edit": ("write", "edit", "filePath"),
    "run": ("bash", "bash", "command"),
}
"""For each deed the tool's name, the permission that it needs, the field of its input."""


class OpencodeSession:
    """A session. What grows is told in pieces and kept whole only when it is complete."""

    def __init__(self, server: "FakeOpencode", memory: SessionMemory) -> None:
        self._server = server
        self._memory = memory
        self.id = memory.id
        self.title = ""
        self.rules: list[dict[str, str]] = []
        """What is allowed, asked about or denied; the last that fits counts, else it is allowed."""
        self.messages: list[dict[str, Any]] = []
        self.is_busy = False
        self._task: asyncio.Task[None] | None = None
        self._answer: dict[str, Any] = {}
        self._growing: dict[str, Any] | None = None
        self._count = 0

    @property
    def prompts(self) -> list[str]:
        """Those of the session, this turn's last."""
        return self._memory.prompts

    def moved(self, server: "FakeOpencode") -> "OpencodeSession":
        """The same session on another server, at rest."""
        session = OpencodeSession(server, self._memory)
        session.title, session.messages, session.rules = self.title, self.messages, self.rules
        return session

    def info(self) -> dict[str, Any]:
        """What the server says of a session."""
        return {"id": self.id, "title": self.title, "version": "0.0.0-fake"}

    def begin(self, body: dict[str, Any]) -> None:
        """Take a prompt; the turn runs by itself."""
        self._task = asyncio.get_running_loop().create_task(self._run(body))

    async def abort(self) -> None:
        """End the turn that runs, if one does."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, body: dict[str, Any]) -> None:
        prompt = "\n".join(one["text"] for one in body["parts"] if one["type"] == "text")
        self._memory.keep(prompt)
        user = body["messageID"]
        self._message({"id": user, "role": "user"})
        self._part({"id": self._id("prt"), "messageID": user, "type": "text", "text": prompt})
        self.is_busy = True
        self._tell("session.status", status={"type": "busy"})
        self._answer = {"id": f"{user}{_ANSWER}1", "role": "assistant", "parentID": user}
        self._message(self._answer)
        self._part({**self._new("step-start")})
        try:
            await run_prompt(self, prompt)
            self._end_part()
            self._finish()
        except FakeServerFailedError as failure:
            self._end_part()
            self._fail({"name": "APIError", "data": {"message": str(failure)}})
        except asyncio.CancelledError:
            self._end_part()
            self._fail({"name": "MessageAbortedError", "data": {"message": "Aborted"}})
        self.is_busy = False
        self._server.forget(self.id)
        self._tell("session.status", status={"type": "idle"})
        self._tell("session.idle")

    def _finish(self) -> None:
        cache = {"read": 0, "write": 0}
        tokens = {"input": _INPUT, "output": _OUTPUT, "reasoning": 0, "cache": cache}
        self._part({**self._new("step-finish"), "reason": "stop", "tokens": tokens, "cost": 0})
        self._answer = {**self._answer, "finish": "stop", "tokens": tokens}
        self._message(self._answer)

    def _fail(self, error: dict[str, Any]) -> None:
        self._answer = {**self._answer, "error": error}
        self._message(self._answer)
        self._tell("session.error", error=error)

    # Telling and keeping

    def _tell(self, kind: str, **told: Any) -> None:
        self._server.publish(kind, {"sessionID": self.id, **told})

    def _message(self, info: dict[str, Any]) -> None:
        info = {**info, "sessionID": self.id}
        for kept in self.messages:
            if kept["info"]["id"] == info["id"]:
                kept["info"] = info
                break
        else:
            self.messages.append({"info": info, "parts": []})
        self._tell("message.updated", info=info)

    def _part(self, part: dict[str, Any]) -> None:
        part = {**part, "sessionID": self.id}
        message = next(m for m in self.messages if m["info"]["id"] == part["messageID"])
        parts = message["parts"]
        for index, kept in enumerate(parts):
            if kept["id"] == part["id"]:
                parts[index] = part
                break
        else:
            parts.append(part)
        self._tell("message.part.updated", part=part)

    def _new(self, kind: str) -> dict[str, Any]:
        return {"id": self._id("prt"), "messageID": self._answer["id"], "type": kind}

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self.id}_{self._memory.turns}_{self._count}"

    # Saying things

    async def _grow(self, kind: str, delta: str) -> None:
        await asyncio.sleep(0)  # so that an interruption comes through
        if self._growing is None or self._growing["type"] != kind:
            self._end_part()
            self._growing = {**self._new(kind), "text": "", "time": {"start": 1}}
            self._part(self._growing)
        part = self._growing
        part["text"] += delta
        where = {"messageID": part["messageID"], "partID": part["id"], "field": "text"}
        self._tell("message.part.delta", **where, delta=delta)

    def _end_part(self) -> None:
        if self._growing is not None:
            self._part({**self._growing, "time": {"start": 1, "end": 2}})
            self._growing = None

    async def say(self, text: str) -> None:
        """Say a piece of a message."""
        await self._grow("text", text)

    async def think(self, text: str) -> None:
        """Think a piece of a thought."""
        await self._grow("reasoning", text)

    async def tool(self, title: str) -> None:
        """Run a tool to its good end."""
        part = self._call(title)
        self._part({**part, "state": _state("completed", title, output="done\n", title=title)})

    async def ask(self, title: str) -> bool:
        """Run a shell command that needs leave."""
        part = self._call(title)
        if await self._leave(part, "bash", title, {"command": title}):
            self._part({**part, "state": _state("completed", title, output="done\n")})
            return True
        self._part({**part, "state": _state("error", title, error="The user rejected it.")})
        return False

    async def _leave(
        self, part: dict[str, Any], permission: str, pattern: str, told: dict[str, Any]
    ) -> bool:
        asked = {
            "sessionID": self.id,
            "permission": permission,
            "patterns": [pattern],
            "metadata": told,
            "always": ["*"],
            "tool": {"messageID": part["messageID"], "callID": part["callID"]},
        }
        answer = await self._server.ask(asked)
        return answer.get("reply") in ("once", "always")

    async def act(self, action: DiskAction, *, asks: bool = True) -> str | None:
        """Do something, with permission where its rules ask for it; None: it was refused."""
        tool, permission, field = _TOOLS[action.kind]
        target = action.target if action.kind == "run" else action.path
        given = {field: target} | ({"content": action.content} if action.kind == "edit" else {})
        self._end_part()
        part = {**self._new("tool"), "tool": tool, "callID": self._id("call")}
        state = {"input": given, "time": {"start": 1}}
        self._part({**part, "state": {**state, "status": "running"}})
        effect = self._effect(permission, target) if asks else "allow"
        told = {"filepath": target} if action.kind != "run" else {"command": target}
        if effect == "deny" or (
            effect == "ask" and not await self._leave(part, permission, target, told)
        ):
            self._part({**part, "state": {**state, "status": "error", "error": "rejected"}})
            return None
        output = await asyncio.to_thread(action.carry_out)
        self._part({**part, "state": {**state, "status": "completed", "output": output}})
        return output

    def _effect(self, permission: str, target: str) -> str:
        found = "allow"
        for rule in self.rules:
            if fnmatchcase(permission, rule["permission"]) and fnmatchcase(target, rule["pattern"]):
                found = rule["action"]
        return found

    def _call(self, title: str) -> dict[str, Any]:
        self._end_part()
        part = {**self._new("tool"), "tool": "bash", "callID": self._id("call")}
        self._part({**part, "state": {"status": "pending", "input": {}, "raw": ""}})
        self._part({**part, "state": _state("running", title)})
        return part

    async def plan(self, steps: list[str]) -> None:
        """Tell a plan."""
        todos = [{"content": one, "status": "pending", "priority": "high"} for one in steps]
        self._tell("todo.updated", todos=todos)

    async def unknown(self, text: str) -> None:
        """Tell something that nobody knows."""
        self._tell("session.mystery", text=text)

    async def garbage(self, count: int) -> None:
        """Send what is no event."""
        for number in range(count):
            self._server.publish_raw(b"data: garbage %d \xff\xfe {]\n\n" % number)
        self._server.publish_raw(b": a comment\n\ndata: [1, 2]\n\nnonsense\n\ndata:\n\n")


def _state(status: str, command: str, **more: Any) -> dict[str, Any]:
    return {"status": status, "input": {"command": command}, "time": {"start": 1}, **more}
