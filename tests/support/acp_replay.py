"""Playing a recorded agent to a client: its side of a capture, over a stream in memory."""

import asyncio
import json
from pathlib import Path
from typing import Any

from quarterdeck.drivers.acp.link import AcpLink
from quarterdeck.drivers.agent_process import Launch
from quarterdeck.policy.gate import PermissionAnswer
from quarterdeck.wire.events import PermissionAsked, TurnEnded
from quarterdeck.wire.permissions import Decider, Selected
from quarterdeck.wire.rpc.stream import memory_pair
from tests.support.deadlines import SOON
from tests.support.driver_rig import Driven, Rig, drive

__all__ = ["CAPTURES", "Recorded", "replay"]

CAPTURES = Path(__file__).parents[1] / "drivers" / "captures"


class Recorded:
    """The agent of a capture. It says what it said, when the client has said what it waited for."""

    def __init__(self, path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        self._steps = [(line["dir"], line["msg"]) for line in lines]
        self._ours, self._theirs = memory_pair()
        self._requests: dict[str, list[Any]] = {}
        """The client's messages that no step has used yet, by method."""
        self.answers: dict[Any, Any] = {}
        """What the client answered, by the agent's id of the request."""
        self._arrived = asyncio.Event()
        self.cancels = asyncio.Event()
        """The recorded client cancels here."""
        asked = [msg["params"] for way, msg in self._steps if msg.get("method") == "session/prompt"]
        self.prompts = ["".join(block["text"] for block in one["prompt"]) for one in asked]
        ids = {
            msg["id"]
            for way, msg in self._steps
            if way == "a2c" and msg.get("method") == "session/request_permission"
        }
        self.choices = [
            msg["result"]["outcome"].get("optionId")
            for way, msg in self._steps
            if way == "c2a" and "result" in msg and msg["id"] in ids
        ]

    def link(self) -> AcpLink:
        return AcpLink(Launch(agent="recorded", command=()), stream=self._theirs)

    async def play(self) -> None:
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(self._read())
            await self._play()
            reader.cancel()

    async def _play(self) -> None:
        names: dict[Any, Any] = {}
        for way, msg in self._steps:
            method = msg.get("method")
            if way == "a2c":
                said = dict(msg)
                if method is None:
                    said["id"] = names[msg["id"]]
                await self._ours.send(json.dumps(said).encode() + b"\n")
            elif method is None:
                while msg["id"] not in self.answers:
                    await self._more()
            else:
                if method == "session/cancel":
                    self.cancels.set()
                while not self._requests.get(method):
                    await self._more()
                names[msg.get("id")] = self._requests[method].pop(0).get("id")

    async def _more(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    async def _read(self) -> None:
        rest = b""
        while data := await self._ours.receive():
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                msg = json.loads(line)
                if "method" in msg:
                    self._requests.setdefault(msg["method"], []).append(msg)
                else:
                    self.answers[msg["id"]] = msg
            self._arrived.set()


async def replay(path: Path, cwd: Path) -> tuple[Driven, list[TurnEnded], Recorded]:
    """Drive a session with a recorded agent, doing what the recorded client did."""
    recorded = Recorded(path)
    async with asyncio.timeout(SOON):
        playing = asyncio.create_task(recorded.play())
        ends: list[TurnEnded] = []
        try:
            async with drive(Rig(name="recorded", make=recorded.link), cwd) as driven:
                answering = asyncio.create_task(_answer(driven, recorded))
                cancelling = asyncio.create_task(_cancel(driven, recorded))
                try:
                    ends = [await driven.say(prompt) for prompt in recorded.prompts]
                    await playing
                finally:
                    answering.cancel()
                    cancelling.cancel()
                    await asyncio.wait([answering, cancelling])
        finally:
            playing.cancel()
            await asyncio.wait([playing])
    return driven, ends, recorded


async def _answer(driven: Driven, recorded: Recorded) -> None:
    done: set[str] = set()
    for choice in recorded.choices:
        asked = await driven.seen(PermissionAsked, lambda one: one.request not in done)
        done.add(asked.request)
        if choice is not None:
            by = Decider(kind="person", name="test")
            answer = PermissionAnswer(outcome=Selected(option_id=choice), by=by)
            driven.session.answer(asked.request, answer)


async def _cancel(driven: Driven, recorded: Recorded) -> None:
    await recorded.cancels.wait()
    if None in recorded.choices:
        await driven.seen(PermissionAsked)
    await driven.session.interrupt()
