"""Facts planted in long sessions, and how many of them a request still tells afterwards.

``python -m tests.support.fidelity`` prints the table of ``docs/context.md``.
"""

import asyncio
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from quarterdeck.agent.tools.bash.background import BackgroundCommands
from quarterdeck.agent.tools.tool import LiveCall, PreparedCall, ToolOutcome, text_outcome
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.models.errors import RequestRejectedError
from quarterdeck.models.model import ModelRequest
from quarterdeck.wire.content import text
from quarterdeck.wire.events import CompactionChanged, PlanChanged, Prompted
from quarterdeck.wire.settings import PlanEntry
from quarterdeck.wire.tool_calls import ToolCallLocation
from tests.support.agent_tools import NumberArguments
from tests.support.native_agents import Deck
from tests.support.window_models import Worker, at_sea, texts_of

__all__ = ["MUST", "SESSIONS", "SUMMARIES", "measure", "row", "table"]

MUST = (
    "demands of the user",
    "the newest prompts",
    "pinned messages",
    "the plan",
    "files looked at last",
    "commands that run",
    "instructions",
)
"""What the rules say must survive."""
MAY = ("other words of the user", "what tools said")

_FACT = re.compile(r"fact-[a-z]+-\d+")


def _well(request: ModelRequest) -> str:
    """All facts that it is told, as an ideal model would."""
    return "# Facts\n" + " ".join(sorted(set(_FACT.findall(texts_of(request)))))


SUMMARIES: dict[str, Callable[[ModelRequest], Any]] = {
    "ideal": _well,
    "useless": lambda _: "# Goal\nGo on.",
    "none": lambda _: RequestRejectedError("no summary today", status=400),
}


class Reading:
    """Reads a file with a fact in it; at times it changes the plan."""

    name, kind, description, arguments = "fake", "read", "Reads.", NumberArguments

    def __init__(self) -> None:
        self.read: list[int] = []

    async def prepare(self, arguments: NumberArguments, workspace: ToolWorkspace) -> PreparedCall:
        number = arguments.n
        path = f"{workspace.cwd}/src/module_{number}.py"

        async def run(live: LiveCall) -> ToolOutcome:
            self.read.append(number)
            if number % 50 == 0:
                entry = PlanEntry(content=f"fact-plan-{number}", priority="low", status="pending")
                await live.emit(PlanChanged(entries=(entry,)))
            return text_outcome(f"fact-result-{number} " + "def f(): pass\n" * 80)

        return PreparedCall(
            title="read",
            call=workspace.call("fake", "read", paths=(workspace.path(path, "read", path),)),
            run=run,
            locations=(ToolCallLocation(path=path),),
        )


def _words(number: int) -> dict[str, str]:
    """What a call says of itself, as those of the real tools do."""
    if number == 1:
        return {"word": "serve fact-command-1"}
    return {"word": f"fact-plan-{number}" if number % 50 == 0 else f"src/module_{number}.py"}


async def _many_turns(ship: Deck) -> list[str]:
    """Short prompts, each with a demand, words and a few steps."""
    for n in range(70):
        await ship.prompt(
            f"Look at part {n}. Never change fact-demand-{n}. The value is fact-word-{n}. work 5"
        )
    return [f"fact-demand-{n}" for n in range(70)]


async def _long_turn(ship: Deck) -> list[str]:
    """One prompt, hundreds of steps, and words while it works."""
    worker: Any = ship.model
    running = ship.start("Always keep fact-demand-0. The port is fact-word-0. work 400")
    for n in range(1, 8):
        while worker.calls < 50 * n and not running.done():
            await asyncio.sleep(0)
        ship.session.steer((text(f"Never forget fact-demand-{n}. Also fact-word-{n}."),))
    await running
    return [f"fact-demand-{n}" for n in range(8)]


async def _pastes(ship: Deck) -> list[str]:
    """Prompts with long pastes between what is wanted and what must not be."""
    for n in range(30):
        paste = "2026-11-16 INFO nothing of interest\n" * 250
        await ship.prompt(
            f"You must use fact-demand-{n}. fact-word-{n}.\n{paste}\n"
            f"Do not touch fact-demand-{n + 100}. work 4"
        )
    return [f"fact-demand-{n + m}" for n in range(30) for m in (0, 100)]


async def _many_prompts(ship: Deck) -> list[str]:
    """More prompts than there is room for; each fifth demands something."""
    filler = "This part is about how it looks today and about nothing else at all. " * 5
    for n in range(300):
        demand = f"Always use fact-demand-{n}. " if n % 5 == 0 else ""
        await ship.prompt(f"{demand}{filler}work 0")
    return [f"fact-demand-{n}" for n in range(0, 300, 5)]


SESSIONS: dict[str, Callable[[Deck], Any]] = {
    "70 turns": _many_turns,
    "one turn of 400 steps": _long_turn,
    "30 long pastes": _pastes,
    "300 prompts": _many_prompts,
}


def _running(line: str) -> BackgroundCommands:
    """Commands in the background, of which one runs."""
    commands = BackgroundCommands()
    running: Any = SimpleNamespace(id="cmd-1", line=line, exit=None, release=_release)
    commands._all["cmd-1"] = running  # pyright: ignore[reportPrivateUsage]
    return commands


async def _release() -> None:
    pass


async def measure(folder: Path, session: str, summary: str) -> dict[str, tuple[int, int]]:
    """Found and planted facts, by what they are, in the first request after the session."""
    worker, tool = Worker(window=60_000, max_output=4_000), Reading()
    worker.words = _words
    worker.summary = SUMMARIES[summary]
    marks = {"clear_at": 0.5, "summarise_at": 0.5, "wait_at": 0.7}
    async with at_sea(
        folder, worker, tools=[tool], context=marks, system_prompt="fact-instruction-1"
    ) as ship:
        await ship.prompt("Hello. work 1")
        await ship.session.context.pin("Hold on to fact-pin-1.")
        ship.session.setup.workspace.keep(_running("serve fact-command-1"))
        demands = await SESSIONS[session](ship)
        planted = str(await ship.events(Prompted))
        await ship.session.context.compact()
        await ship.prompt("Last: fact-newest-1.")
        await ship.prompt("And now fact-newest-2?")
        compactions = [e for e in await ship.events(CompactionChanged) if e.through]
    assert compactions or summary == "none"
    told = texts_of(worker.requests[-1])
    words = [fact.replace("demand", "word") for fact in demands if int(fact.split("-")[-1]) < 100]
    words = words if "fact-word-0" in planted else []
    files = [f"module_{n}.py" for n in tool.read[-10:] if n > 1 and n % 50]
    plan = [f"fact-plan-{n}" for n in tool.read if n % 50 == 0][-1:]
    facts = {
        "demands of the user": demands,
        "the newest prompts": ["fact-newest-1", "fact-newest-2"],
        "pinned messages": ["fact-pin-1"],
        "the plan": plan,
        "files looked at last": files,
        "commands that run": ["fact-command-1"],
        "instructions": ["fact-instruction-1"],
        "other words of the user": words,
        "what tools said": [f"fact-result-{n}" for n in tool.read],
    }
    return {
        what: (sum(_is_in(fact, told) for fact in planted), len(planted))
        for what, planted in facts.items()
        if planted
    }


def _is_in(fact: str, told: str) -> bool:
    return re.search(rf"{re.escape(fact)}(?!\d)", told) is not None


async def table() -> str:
    """The table of the documentation, in Markdown."""
    columns = list(SUMMARIES)
    lines = [
        "| session | what | " + " | ".join(f"summary: {name}" for name in columns) + " |",
        "|---|---|" + "---|" * len(columns),
    ]
    for session in SESSIONS:
        found: dict[str, dict[str, tuple[int, int]]] = {}
        for summary in columns:
            with tempfile.TemporaryDirectory(dir=_memory()) as folder:
                found[summary] = await measure(Path(folder), session, summary)
        lines += [
            row(session, what, [found[name][what] for name in columns])
            for what in (*MUST, *MAY)
            if what in found[columns[0]]
        ]
    return "\n".join(lines) + "\n"


def row(session: str, what: str, figures: list[tuple[int, int]]) -> str:
    """A line of the table."""
    note = "" if what in MUST else " (not promised)"
    return f"| {session} | {what}{note} | {' | '.join(f'{a} of {b}' for a, b in figures)} |"


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    print(asyncio.run(table()), end="")
