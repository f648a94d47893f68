"""A session of 2,000 steps with 5 MB of tool output: within the window, each step as quick.

Requests are built and encoded as for Anthropic, so that what a long conversation costs is in the
figures; nothing is sent. Times are CPU time of the whole process.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.agent.tools.tool import (
    Arguments,
    LiveCall,
    PreparedCall,
    ToolOutcome,
    text_outcome,
)
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.config.places import Places
from quarterdeck.models.anthropic import WIRE
from quarterdeck.models.encoded_history import EncodedHistory
from quarterdeck.models.model import Delta, ModelInfo, ModelProfile, ModelRequest, ReplyFinished
from quarterdeck.models.reply import encode
from quarterdeck.wire.content import text
from quarterdeck.wire.conversation import Message, TextPart, ToolUsePart
from quarterdeck.wire.usage import TokenUsage

from .size import Size
from .table import Row, Table

OUTPUT = 2_500
WINDOW = 200_000


class Number(Arguments, frozen=True, kw_only=True, forbid_unknown_fields=True):
    n: int


class Look:
    """A tool with a long result, each another."""

    name, kind, description, arguments = "look", "think", "Looks.", Number

    async def prepare(self, arguments: Number, workspace: ToolWorkspace) -> PreparedCall:
        async def run(_: LiveCall) -> ToolOutcome:
            line = f"line {arguments.n}: the quick brown fox jumps over the lazy dog\n"
            return text_outcome((line * (OUTPUT // len(line) + 1))[:OUTPUT])

        call = workspace.call("look", "think")
        return PreparedCall(title="look", call=call, run=run)


class Worker:
    """Calls the tool at every step; writes summaries; counts four bytes as a token."""

    def __init__(self, steps: int) -> None:
        self.info = ModelInfo(vendor="bench", id="worker", window=WINDOW, max_output=32_000)
        self._profile = ModelProfile(info=self.info)
        self._history = EncodedHistory()
        self._steps = steps
        self.begun: list[float] = []
        """CPU seconds at the beginning of each step."""
        self.built: list[float] = []
        """Seconds that each request took to be built and encoded."""
        self.sizes: list[int] = []
        self.last = b""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        wants_summary = "Stop working for a moment" in _last_text(request)
        begin = time.perf_counter()
        body = encode(WIRE.build(request, self._profile, self._history))
        took = time.perf_counter() - begin
        if wants_summary:
            yield self._finished("# Goal\nLook at everything.", len(body))
            return
        self.begun.append(time.process_time())
        self.built.append(took)
        self.sizes.append(len(body) // 4)
        self.last = body
        done = len(self.begun)
        if done > self._steps:
            yield self._finished("Done.", len(body))
            return
        use = ToolUsePart(id=f"call_{done}", name="look", arguments=f'{{"n":{done}}}')
        yield self._finished(use, len(body))

    async def close(self) -> None:
        pass

    def _finished(self, text_outcome: str | ToolUsePart, size: int) -> ReplyFinished:
        is_text = isinstance(text_outcome, str)
        part: Any = TextPart(text=text_outcome) if is_text else text_outcome
        return ReplyFinished(
            reply=Message(role="assistant", parts=(part,)),
            stop="end_turn" if is_text else "tool_use",
            usage=TokenUsage(input=size // 4, output=20),
        )


def _last_text(request: ModelRequest) -> str:
    part = request.messages[-1].parts[-1]
    return part.text if isinstance(part, TextPart) else ""


async def _run_session(folder: Path, steps: int) -> tuple[Worker, bytes, bytes]:
    """Run the session; gives the worker and what is sent next, resumed and not."""
    worker = Worker(steps)
    options = NativeSessionOptions.of(
        model="bench/worker",
        make_model=lambda _: worker,
        make_tools=lambda: (Look(),),
        flags={"limits": {"model_calls": "unbounded"}},
    )
    places = Places.find({"QUARTERDECK_HOME": str(folder / "home")})
    work = folder / "work"
    work.mkdir()
    async with NativeAgent(places, {"HOME": str(folder)}) as agent:
        session = await agent.new(options.at(str(work)))
        await session.prompt((text("Look at everything. Never change a file."),))
        fork = await agent.fork(session.id, options=options)
        await fork.prompt((text("And now?"),))
        running = worker.last
        again = Worker(0)
        again.begun = [0.0]
        await agent.close(session.id)
        loaded = await agent.load(session.id, options=replace(options, make_model=lambda _: again))
        await loaded.prompt((text("And now?"),))
    return worker, running, again.last


def run(size: Size) -> Iterator[Table]:
    steps, group = size.choose((2_000, 100), (600, 100), (10, 2))
    with tempfile.TemporaryDirectory() as folder:
        worker, running, resumed = asyncio.run(_run_session(Path(folder), steps))
    gaps = [1000 * (b - a) for a, b in zip(worker.begun, worker.begun[1:steps], strict=False)]
    first, last = statistics.mean(gaps[:group]), statistics.mean(gaps[-group:])
    built = [1000 * took for took in worker.built[:steps]]
    early, late = statistics.mean(built[:group]), statistics.mean(built[-group:])
    most, grown = max(worker.sizes), last / first
    yield Table(
        f"(e) {steps} steps with {steps * OUTPUT / 1e6:.1f} MB of output, window {WINDOW:,}",
        [
            Row("largest request", f"{most:,} tokens", "", f"≤ {WINDOW:,}", most <= WINDOW),
            Row(f"a step, first {group}", f"{first:.2f} ms"),
            Row(f"a step, last {group}", f"{last:.2f} ms", f"{grown:.2f}×", "≤ 1.2×", grown <= 1.2),
            Row(f"building a request, first {group}", f"{early:.2f} ms"),
            Row(f"building a request, last {group}", f"{late:.2f} ms", f"{late / early:.2f}×"),
            Row("resumed sends the same", str(running == resumed), "", "True", running == resumed),
        ],
    )
