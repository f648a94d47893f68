"""The workbench against patchfeld, each as people run it, on a terminal of 120×40.

Patchfeld runs with its own bundled CLI, which asks a model on loopback; what cannot be driven from
outside (a key while fifty agents speak) is measured for ours alone.
"""

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support import real_agents

from .acp import ENVIRONMENT, PEERS
from .size import Size
from .table import Row, Table
from .terminals import Screen, on_terminal, open_first_agent

__all__ = ["OURS", "PATCHFELD", "home", "measure_patchfeld", "quarterdeck", "run"]

OURS = str(Path(sys.executable).with_name("quarterdeck"))
PATCHFELD = Path(__file__).parents[1] / "build" / "patchfeld" / "bin" / "patchfeld"
_NOBODY = "http://127.0.0.1:9"
_LAST = "the-last-of-all"
_FRAME = "ctrl+q quit"
_RATE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How much is measured."""

    frames: int
    entries: tuple[int, ...]
    others: int
    """Entries that patchfeld is shown at the most."""
    keys: tuple[int, int]
    """At rest and under load."""
    agents: int
    load: float
    """Seconds under load."""
    speech: int = 900
    """Seconds that an agent speaks: until it is stopped, as to start so many takes its time."""
    settle: float = 1.0
    """Part of the time that a program is given to become quiet; 1: all of it."""


_FULL = _Plan(
    frames=9,
    entries=(500, 2_000, 100_000),
    others=2_000,
    keys=(60, 40),
    agents=50,
    load=30,
)
_QUICK = _Plan(frames=3, entries=(500, 2_000), others=500, keys=(20, 10), agents=50, load=6)
_TINY = _Plan(
    frames=1,
    entries=(20,),
    others=0,
    keys=(2, 2),
    agents=1,
    load=0.2,
    speech=2,
    settle=0.05,
)


@contextlib.contextmanager
def home() -> Iterator[tuple[Path, dict[str, str]]]:
    """An empty place for ours; its host is stopped at the end."""
    with tempfile.TemporaryDirectory() as place:
        environment = {**ENVIRONMENT, "HOME": place, "QUARTERDECK_HOME": f"{place}/qd"}
        project = Path(place) / "project"
        project.mkdir()
        try:
            yield project, environment
        finally:
            stop = [OURS, "host", "stop"]
            subprocess.run(stop, env=environment, capture_output=True, check=False, timeout=60)


def quarterdeck(environment: dict[str, str], cwd: Path, *words: str) -> None:
    """Run one of our commands."""
    done = subprocess.run(
        [OURS, *words], env=environment, cwd=cwd, capture_output=True, text=True, timeout=60
    )
    if done.returncode:
        raise RuntimeError(f"quarterdeck {words} failed: {done.stderr[-500:]}")


async def write_sessions(log: Path, entries: int, cwd: str) -> None:
    """Write two agents into a log: a short one, which is shown first, and a long one."""
    from quarterdeck.journal import Journal
    from quarterdeck.wire.content import text
    from quarterdeck.wire.events import (
        Event,
        MessageChunk,
        Prompted,
        SessionEnded,
        SessionOpened,
        SessionSpawned,
    )
    from quarterdeck.wire.ids import new_message_id, new_session_id
    from quarterdeck.wire.session_options import SessionOptions

    log.parent.mkdir(parents=True, exist_ok=True)
    async with Journal.open(log) as journal:
        for name, count, last in (("short", 2, "short-and-done"), ("long", entries, _LAST)):
            id_ = new_session_id()
            events: list[Event] = [
                SessionSpawned(options=SessionOptions(agent="paced", cwd=cwd), name=name),
                SessionOpened(agent="paced", cwd=cwd),
            ]
            for number in range(count // 2):
                said = new_message_id()
                events.append(Prompted(content=(text(f"do {number}"),), message=new_message_id()))
                words = last if number == count // 2 - 1 else f"did **{number}**, `and` more of it"
                events.append(MessageChunk(message=said, content=text(words)))
            events.append(SessionEnded(how="closed"))
            for event in events:
                await journal.append(id_, event)


def measure_first_frame(rounds: int) -> tuple[list[float], list[float]]:
    """Wall and CPU seconds to a frame that takes keys; the host is there already."""
    walls, cpus = [], []
    with home() as (project, environment):
        quarterdeck(environment, project, "host", "start")
        for _ in range(rounds):
            with on_terminal([OURS], cwd=project, environment=environment) as screen:
                walls.append(screen.wait_for(_FRAME) - screen.begun)
                cpus.append(screen.cpu())
    return walls, cpus


def measure_opening(entries: int, settle: float) -> tuple[float, float]:
    """Seconds from the key to the last page of a long session, and bytes that it takes."""
    with home() as (project, environment):
        log = Path(environment["QUARTERDECK_HOME"]) / "state" / "journal.db"
        asyncio.run(write_sessions(log, entries, str(project)))
        with on_terminal([OURS], cwd=project, environment=environment) as screen:
            open_first_agent(screen, "short-and-done")
            time.sleep(settle)
            before, at = screen.memory(), screen.mark()
            pressed = screen.press("\x0e")
            seconds = screen.wait_for(_LAST, after=at) - pressed
            time.sleep(settle)
            return seconds, screen.memory() - before


def measure_keys(screen: Screen, rounds: int) -> list[float]:
    """Seconds from a key to its character on the screen."""
    taken: list[float] = []
    for number in range(rounds):
        letter = "ЖЯЮЩЦЭФШЫЧ"[number % 10]
        at = screen.mark()
        pressed = screen.press(letter)
        taken.append(screen.wait_for(letter, after=at) - pressed)
        time.sleep(0.05)
    return taken


def write_paced_agent(environment: dict[str, str]) -> None:
    """Make an agent known that speaks at a pace."""
    agents = Path(environment["QUARTERDECK_HOME"]) / "agents"
    agents.mkdir(parents=True)
    command = [sys.executable, "-S", str(PEERS / "agent_paced.py")]
    (agents / "paced.toml").write_text(
        f'title = "Paced"\n[transports.acp]\ncommand = {json.dumps(command)}\n'
    )


def measure_load(plan: _Plan) -> tuple[list[float], list[float], float, int]:
    """With many agents that speak: keys, words on the screen, CPU, growth of memory."""
    with home() as (project, environment):
        write_paced_agent(environment)
        quarterdeck(environment, project, "host", "start")
        for number in range(plan.agents):
            told = f"{plan.speech} {_RATE}"
            quarterdeck(environment, project, "spawn", "-a", "paced", "-n", f"p{number}", told)
        with on_terminal([OURS], cwd=project, environment=environment) as screen:
            screen.wait_for("paced · ")  # the line above its transcript: keys are for it
            time.sleep(4 * plan.settle)
            keys = measure_keys(screen, plan.keys[1])
            memory, at = screen.memory(), screen.mark()
            share = screen.share(plan.load / 2)
            now = time.time_ns()
            # A part of a row may be drawn alone, and look like one: not from the future, then.
            words = [word for word in screen.text(at).split() if len(word) == 19]
            shown = [int(word) for word in words if word.isdecimal() and int(word) <= now]
            behind = [(now - max(shown)) / 1e9] if shown else []
            return keys, behind, share, screen.memory() - memory


def write_patchfeld_project(place: Path, entries: int) -> dict[str, str]:
    """A home and a project of patchfeld's, with a transcript of so many entries in view."""
    project = place / "project"
    transcripts = project / ".patchfeld" / "transcripts"
    transcripts.mkdir(parents=True)
    panel = {"id": "orch", "widget": "OrchestratorChat"}
    layout: dict[str, object] = panel
    if entries:
        lines = [
            {"role": "assistant" if n % 2 else "user", "text": f"entry {n}, `and` **more**"}
            for n in range(entries - 1)
        ]
        lines.append({"role": "assistant", "text": _LAST})
        (transcripts / "longone.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        other = {"id": "t", "widget": "AgentTranscript"}
        children = [panel, {**other, "props": {"agent_id": "longone"}}]
        layout = {"type": "horizontal", "children": children}
    tab = {"id": "one", "title": "one", "layout": {"version": 1, "layout": layout}}
    workspace = {"version": 1, "tabs": [tab], "active": "one"}
    (project / ".patchfeld" / "workspace.json").write_text(json.dumps(workspace))
    variables = dict(real_agents.environment("claude", place, _NOBODY))
    return {**variables, "HOME": str(place), "LANG": "C.UTF-8"}


def measure_patchfeld(entries: int, rest: float = 0.0) -> tuple[float, float, float, float]:
    """Wall and CPU seconds to its first frame, seconds to the last entry, CPU at rest."""
    with tempfile.TemporaryDirectory() as place:
        environment = write_patchfeld_project(Path(place), entries)
        project = Path(place) / "project"
        with on_terminal([str(PATCHFELD)], cwd=project, environment=environment) as screen:
            wall = screen.wait_for("? help", seconds=90) - screen.begun
            cpu = screen.cpu()
            last = screen.wait_for(_LAST, seconds=300) - screen.begun if entries else 0.0
            if rest:
                time.sleep(5)
            return wall, cpu, last - wall if entries else 0.0, screen.share(rest) if rest else 0.0


def compare_frames(rounds: int, compares: bool) -> Table:
    walls, cpus = measure_first_frame(rounds)
    wall, cpu = statistics.median(walls), statistics.median(cpus)
    rows = [
        Row("ours, CPU", f"{cpu:.2f} s", "", "< 0.5 s", cpu < 0.5),
        Row("ours, wall", f"{wall:.2f} s"),
    ]
    if compares:
        others = [measure_patchfeld(0) for _ in range(max(1, rounds // 3))]
        other_wall = statistics.median(o[0] for o in others)
        other_cpu = statistics.median(o[1] for o in others)
        rows += [
            Row(
                "patchfeld, CPU (without its CLI)", f"{other_cpu:.2f} s", f"{other_cpu / cpu:.1f}×"
            ),
            Row("patchfeld, wall", f"{other_wall:.2f} s", f"{other_wall / wall:.1f}×"),
        ]
    return Table("(a) first usable frame", rows)


def compare_openings(plan: _Plan, compares: bool) -> Table:
    rows: list[Row] = []
    for entries in plan.entries:
        seconds, memory = measure_opening(entries, plan.settle)
        rows.append(
            Row(
                f"ours, {entries:,} entries",
                f"{seconds * 1000:.0f} ms, {memory / 1e6:+.1f} MB",
                "",
                "< 300 ms, < 20 MB",
                seconds < 0.3 and memory < 20e6,
            )
        )
        if compares and entries <= plan.others:
            rows.append(_other_opening(entries, seconds))
    return Table("(b) a long session: from the key to its last page", rows)


def _other_opening(entries: int, ours: float) -> Row:
    name = f"patchfeld, {entries:,}"
    try:
        _, _, other, _ = measure_patchfeld(entries)
    except RuntimeError:
        return Row(name, "not within 300 s")
    return Row(name, f"{other:.1f} s", f"{other / ours:.0f}×")


def measure_typing(plan: _Plan) -> Table:
    with home() as (project, environment):
        quarterdeck(environment, project, "spawn", "-m", "scripted/default", "--wait", "hello")
        with on_terminal([OURS], cwd=project, environment=environment) as screen:
            screen.wait_for("You said: hello")
            time.sleep(plan.settle)
            idle = sorted(measure_keys(screen, plan.keys[0]))
    keys, behind, share, growth = measure_load(plan)
    keys.sort()
    rows = [
        Row("key → screen, idle", f"{idle[-1] * 1000:.0f} ms at most"),
        Row(
            f"key → screen, {plan.agents} agents × {_RATE}/s",
            f"{keys[len(keys) // 2] * 1000:.0f} ms, {keys[-1] * 1000:.0f} at most",
            "",
            "< 100 ms",
            keys[-1] < 0.1,
        ),
        Row("CPU of the workbench then", f"{share * 100:.0f} % of a core"),
        Row("growth of its memory then", f"{growth / 1e6:+.1f} MB", "", "< 20 MB", growth < 20e6),
    ]
    rows += [Row("a word written → drawn", f"{b * 1000:.0f} ms") for b in behind]
    return Table("(c) keys", rows)


def run(size: Size) -> Iterator[Table]:
    """All of it."""
    plan = size.choose(_FULL, _QUICK, _TINY)
    compares = PATCHFELD.exists() and size is not Size.TINY
    frames = compare_frames(plan.frames, compares)
    missing = ("patchfeld is not installed (make build/patchfeld/.done); ours alone is measured",)
    yield frames if PATCHFELD.exists() else replace(frames, notes=missing)
    yield compare_openings(plan, compares)
    yield measure_typing(plan)
