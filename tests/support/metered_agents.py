"""Agents behind the meter that are made of a script, and the server that they call."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quarterdeck.drivers.driver import DriverSession, EventSink
from quarterdeck.drivers.link import TurnOutcome
from quarterdeck.fleet.agent_entry import is_own_agent
from quarterdeck.fleet.agent_runner import AgentStart
from quarterdeck.fleet.native_driver import open_native
from quarterdeck.wire.content import ContentBlock, TextContent
from tests.support.http_server import Exchange
from tests.support.scripted_fleet import Casting, PlayedLink, places_in

if TYPE_CHECKING:
    from quarterdeck.journal import Journal

VARIABLE = "ANTHROPIC_BASE_URL"
MODEL = "claude-sonnet-4-5"

__all__ = [
    "MODEL",
    "VARIABLE",
    "CallingLink",
    "MixedCasting",
    "Vendor",
    "ask_meter",
    "make_body",
    "write_settings",
]


def write_settings(home: Path, text: str = "") -> None:
    """Turn the meter on for every agent."""
    path = places_in(home).config / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'[meter]\nagents = ["*"]\n{text}')


def make_body(size: int, max_tokens: int, act: str) -> bytes:
    """A request of about so many bytes; ``act``: what the server is to do."""
    body = {"model": MODEL, "max_tokens": max_tokens, "act": act, "pad": ""}
    body["pad"] = "x" * max(size - len(json.dumps(body)), 0)
    return json.dumps(body).encode()


async def ask_meter(address: str, body: bytes) -> bytes:
    """A model call as an agent makes it; all that comes until the connection ends."""
    host, _, path = address.removeprefix("http://").partition("/")
    reader, writer = await asyncio.open_connection(*host.split(":"))
    head = f"POST /{path}/v1/messages HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    got = bytearray()
    try:
        while piece := await reader.read(65_536):
            got += piece
    except ConnectionError:
        pass
    finally:
        writer.close()
    return bytes(got)


@dataclass
class Vendor:
    """Answers calls, and knows what it charged: an input token for four bytes, and the output.

    ``act``: ``ok``, ``stream``, ``cut`` (half of a stream), ``busy`` (529), ``plain`` (no counts).
    """

    output: Callable[[int], int] = lambda most: most
    """The tokens of an answer, by the most that is asked for."""
    charge: Callable[[int], None] = lambda _: None
    charged: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    held: asyncio.Event | None = None
    """When set: no answer before this event is."""

    @property
    def total(self) -> int:
        return sum(map(sum, self.charged))

    async def __call__(self, exchange: Exchange) -> None:
        asked: dict[str, Any] = json.loads(exchange.request.body)
        act = asked["act"]
        if act == "busy":
            await exchange.reply(529, b'{"type": "error", "error": {"type": "overloaded_error"}}')
            return
        used = len(exchange.request.body) // 4, self.output(asked["max_tokens"])
        if act == "cut":
            used = used[0], used[1] // 2
        self.charge(sum(used))
        self.charged.append(used)
        if self.held is not None:
            await self.held.wait()
        if act == "ok":
            usage = {"input_tokens": used[0], "output_tokens": used[1]}
            body: dict[str, Any] = {"type": "message", "content": [], "usage": usage}
            await exchange.reply(200, json.dumps(body).encode(), content_type="application/json")
        elif act == "plain":
            whole = json.dumps({"content": "x" * 4 * used[1]}).encode()
            await exchange.reply(200, whole, content_type="application/json")
        else:
            start = {"type": "message_start", "message": {"usage": {"input_tokens": used[0]}}}
            pieces = [b"data: %s\n\n" % json.dumps(start).encode()]
            delta = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
            pieces += [b"data: %s\n\n" % json.dumps(delta).encode()] * used[1]
            if act == "stream":
                end = {"type": "message_delta", "usage": {"output_tokens": used[1]}}
                pieces += [b"data: %s\n\n" % json.dumps(end).encode()]
                await exchange.stream(*pieces, b'data: {"type": "message_stop"}\n\n')
                return
            await exchange.stream(*pieces, is_ended=False)
            exchange.writer.close()


class MixedCasting(Casting):
    """Opens agents of ours as they are, and played ones behind the meter for others."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.make = CallingLink
        self.places = places_in(home)
        self.journal: Journal

    async def __call__(self, start: AgentStart, sink: EventSink) -> DriverSession:
        if not is_own_agent(start.spawn.options):
            return await super().__call__(start, sink)
        return await open_native(start, self.places, {}, self.journal)


class CallingLink(PlayedLink):
    """Its prompt ``call ACT SIZE MOST [TIMES]`` makes model calls; it then reports them all."""

    answers: list[bytes]

    @property
    def address(self) -> str:
        return self.host.opening.options.variables[VARIABLE]

    async def prompt(self, content: tuple[ContentBlock, ...]) -> TurnOutcome:
        assert isinstance(content[0], TextContent)
        command, *words = content[0].text.split(" ")
        if command != "call":
            return await super().prompt(content)
        self.told += [one.text for one in content if isinstance(one, TextContent)]
        self.answers = []
        act, size, most, times = (*words, "1")[:4]
        for _ in range(int(times)):
            answer = await ask_meter(self.address, make_body(int(size), int(most), act))
            self.answers.append(answer)
            if answer.startswith(b"HTTP/1.1 402 "):
                return TurnOutcome(stop="failed", reason=answer.partition(b"\r\n\r\n")[2].decode())
        return TurnOutcome(stop="end_turn")
