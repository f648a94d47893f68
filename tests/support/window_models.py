"""A model with a small window that works step by step, and writes summaries well or badly."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from quarterdeck.agent.native import NativeAgent
from quarterdeck.agent.tools.tool import LiveCall, Tool, ToolOutcome, text_outcome
from quarterdeck.config.places import Places
from quarterdeck.models.errors import CallError, ContextOverflowError
from quarterdeck.models.model import Delta, ModelInfo, ModelRequest, ReplyFinished, TextDelta
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import Message, TextPart, ToolUsePart
from quarterdeck.wire.usage import TokenUsage
from tests.support.agent_tools import FakeTool, NumberArguments
from tests.support.native_agents import Deck, deck

__all__ = ["Reply", "Worker", "asked_again", "at_sea", "is_summary", "loud", "size_of", "texts_of"]

Reply = str | list[ToolUsePart | TextPart] | CallError


def is_summary(request: ModelRequest) -> bool:
    """Whether a request wants a summary."""
    parts = request.messages[-1].parts
    last = parts[-1] if parts else None
    return isinstance(last, TextPart) and last.text.startswith("Stop working for a moment")


def size_of(request: ModelRequest) -> int:
    """Tokens, as this model counts them."""
    return len(msgspec.json.encode(request)) // 4


def texts_of(request: ModelRequest) -> str:
    """All that a request tells, as one text."""
    return msgspec.json.encode(request).decode()


class Worker:
    """Calls a tool a number of times for each prompt, then answers.

    The prompt ``work N`` makes N steps. A request above the window is refused as vendors do.
    """

    def __init__(
        self, *, window: int = 8_000, max_output: int = 1_000, name: str = "worker"
    ) -> None:
        self.info = ModelInfo(vendor="test", id=name, window=window, max_output=max_output)
        self.requests: list[ModelRequest] = []
        self.summaries: list[ModelRequest] = []
        self.summary: Callable[[ModelRequest], Reply] = lambda _: "# Goal\nGo on."
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.refuse: list[CallError] = []
        """Raised by the next calls, one each."""
        self.raw_stops: list[str] = []
        """The stop words of the next calls that make no tool call."""
        self.left = 0
        self.calls = 0
        self.calls_before_summary = 0
        """Calls that had been made when the first summary was asked for."""
        self.keep = True
        self.words: Callable[[int], dict[str, str]] = lambda _: {}
        """More arguments of a call, by its number."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        if is_summary(request):
            self.calls_before_summary = self.calls_before_summary or self.calls
            self.summaries.append(request)
            await self.may_write.wait()
            self._refuse_if_large(request)
            yield self._finished(request, self.summary(request))
            return
        if self.keep:
            self.requests.append(request)
        await asyncio.sleep(0)
        if self.refuse:
            raise self.refuse.pop(0)
        self._refuse_if_large(request)
        self._read(request)
        if self.left == 0:
            yield TextDelta("Done.")
            yield self._finished(request, "Done.")
            return
        self.left -= 1
        self.calls += 1
        arguments = msgspec.json.encode({"n": self.calls, **self.words(self.calls)}).decode()
        use = ToolUsePart(id=f"c{self.calls}", name="fake", arguments=arguments)
        yield self._finished(request, [TextPart(text=f"Step {self.calls}."), use])

    async def close(self) -> None:
        pass

    def _read(self, request: ModelRequest) -> None:
        last = request.messages[-1].parts[-1]
        if isinstance(last, TextPart) and "work " in last.text:
            self.left = int(last.text.rpartition("work ")[2].split()[0])

    def _refuse_if_large(self, request: ModelRequest) -> None:
        if self.keep and size_of(request) > self.info.window:
            raise ContextOverflowError("the prompt is too long", status=400)

    def _finished(self, request: ModelRequest, reply: Reply) -> ReplyFinished:
        if isinstance(reply, CallError):
            raise reply
        parts: list[Any] = [TextPart(text=reply)] if isinstance(reply, str) else reply
        parts = [p for p in parts if not isinstance(p, TextPart) or p.text]
        calls = any(isinstance(part, ToolUsePart) for part in parts)
        raw = self.raw_stops.pop(0) if self.raw_stops and not calls else None
        size = size_of(request) if self.keep else 0
        return ReplyFinished(
            reply=Message(role="assistant", parts=tuple(parts)),
            stop="tool_use" if calls else "max_tokens" if raw else "end_turn",
            usage=TokenUsage(input=size, output=10),
            raw_stop=raw,
        )


def loud(size: int = 1_000) -> FakeTool:
    """A tool with long results, each another."""

    async def run(arguments: NumberArguments, live: LiveCall) -> ToolOutcome:
        head = f"result {arguments.n}: "
        return text_outcome(head + "x" * (size - len(head)))

    return FakeTool(run)


@asynccontextmanager
async def at_sea(
    tmp_path: Path,
    worker: Worker,
    *,
    tools: list[Tool] | None = None,
    context: dict[str, Any] | None = None,
    models: dict[str, Worker] | None = None,
    **options: Any,
) -> AsyncIterator[Deck]:
    """A deck whose model is the worker."""
    named = {"scripted/test": worker, **(models or {})}
    flags = {"limits": {"model_calls": "unbounded"}, "context": context or {}}
    async with deck(
        tmp_path,
        "unused",
        tools=tools if tools is not None else [loud()],
        make_model=lambda name: named[name],
        flags=flags,
        **options,
    ) as ship:
        ship.model = worker  # type: ignore[assignment]
        yield ship


async def asked_again(ship: Deck, words: str, worker: Worker) -> tuple[ModelRequest, ModelRequest]:
    """What the running session sends for a prompt, and what a resumed copy of it sends."""
    home = ship.cwd.parent / "home"
    twin = home.with_name("twin")
    await asyncio.to_thread(shutil.copytree, home, twin)
    other = Worker(window=worker.info.window, max_output=worker.info.max_output)
    options = replace(ship.options, make_model=lambda _: other)
    places = Places.find({"QUARTERDECK_HOME": str(twin)})
    async with NativeAgent(places, {"HOME": str(ship.cwd.parent)}) as agent:
        session = await agent.load(ship.session.id, options=options)
        await session.prompt((text(words),))
    await ship.prompt(words)
    return worker.requests[-1], other.requests[-1]
