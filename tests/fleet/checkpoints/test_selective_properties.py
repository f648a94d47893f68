"""Whatever two agents and a person do to one tree, and however they are undone: nothing is lost."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.agent.checkpoints.errors import CheckpointError, NothingToUndoError
from quarterdeck.fleet.local import LocalFleet
from tests.support.scripted_fleet import fleet_of
from tests.support.work_trees import new_repository, state_of, untouched
from tests.support.working_agents import at_work, prompt, workers

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FILES = {"a": "".join(f"line {n}\n" for n in range(8)), "b": "b\n"}
LINES = st.integers(0, 7)

edits = st.tuples(st.sampled_from(("line", "new", "delete", "mode")), st.sampled_from("ab"), LINES)
steps = st.one_of(
    st.tuples(
        st.just("turn"), st.sampled_from(("ann", "bob")), st.lists(edits, min_size=1, max_size=3)
    ),
    st.tuples(st.just("person"), st.just(""), st.lists(edits, min_size=1, max_size=2)),
    st.tuples(st.just("undo"), st.sampled_from(("ann", "bob")), st.booleans()),
    st.tuples(st.just("redo"), st.sampled_from(("ann", "bob")), st.just(False)),
    st.tuples(st.just("rewind"), st.sampled_from(("ann", "bob")), st.just(False)),
)


def script(mark: str, todo: list[tuple[str, str, int]]) -> str:
    """Shell commands that make these edits; every line that is written has the mark."""
    lines: list[str] = []
    for number, (what, name, line) in enumerate(todo):
        written = f"{mark}-{number}"
        match what:
            case "line":
                lines.append(f"[ -f {name} ] && sed -i '{line + 1}s/.*/{written}/' {name}")
            case "new":
                lines.append(f"echo {written} > new{line}")
            case "delete":
                lines.append(f"rm -f {name}")
            case _:
                lines.append(f"[ -f {name} ] && chmod {'+x' if line % 2 else '-x'} {name}")
    return "; ".join(lines) + "; true"


def words_in(state: dict[bytes, tuple[str, bytes, bool]]) -> set[bytes]:
    return {word for _, data, _ in state.values() for word in data.split()}


async def play(folder: Path, todo: list[tuple[str, str, object]]) -> None:
    work = await asyncio.to_thread(new_repository, folder / "work", FILES)
    repository = await asyncio.to_thread(untouched, work)
    casting = workers()
    brought_back: dict[str, set[bytes]] = {"ann": set(), "bob": set()}
    """Words that undo has restored; redo takes them away again."""
    async with fleet_of(folder / "home", casting) as fleet:
        for name in ("ann", "bob"):
            await at_work(fleet, casting, work, name)
        for number, (what, who, how) in enumerate(todo):
            before = await asyncio.to_thread(state_of, work)
            await _step(fleet, work, number, what, who, how)
            after = await asyncio.to_thread(state_of, work)
            if what in ("undo", "rewind", "redo") and not how:
                # Without force nothing goes that a person wrote between turns.
                theirs = {w for w in words_in(before) if w.startswith(b"person-")}
                theirs -= brought_back[who] if what == "redo" else set()
                assert theirs <= words_in(after), (what, who, theirs)
            if what in ("undo", "rewind"):
                brought_back[who] |= words_in(after) - words_in(before)
            if what in ("undo", "rewind") and after != before:
                assert await _redone(fleet, work, who) == before
                await _again(fleet, who, what, bool(how))
                assert await asyncio.to_thread(state_of, work) == after
    assert await asyncio.to_thread(untouched, work) == repository


async def _redone(fleet: LocalFleet, work: Path, who: str) -> object:
    await fleet.redo(who)
    return await asyncio.to_thread(state_of, work)


async def _again(fleet: LocalFleet, who: str, what: str, force: bool) -> None:
    if what == "undo":
        await fleet.undo(who, force=force)
    else:
        await fleet.rewind(who, "1", force=force)


async def _step(
    fleet: LocalFleet, work: Path, number: int, what: str, who: str, how: object
) -> None:
    if what == "turn":
        assert isinstance(how, list)
        await prompt(fleet, who, script(f"{who}-{number}", how))
    elif what == "person":
        assert isinstance(how, list)
        child = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", script(f"person-{number}", how), cwd=work
        )
        await child.wait()
    else:
        try:
            if what == "undo":
                await fleet.undo(who, force=bool(how))
            elif what == "rewind":
                await fleet.rewind(who, "1")
            else:
                await fleet.redo(who)
        except (NothingToUndoError, CheckpointError):
            pass


def run(todo: list[tuple[str, str, object]]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        asyncio.run(play(Path(folder), todo))


LOOSE = settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@LOOSE
@given(todo=st.lists(steps, min_size=2, max_size=7))
def test_no_word_of_a_person_is_lost_and_redo_brings_back_exactly(todo):
    run(todo)


@pytest.mark.stress
@settings(LOOSE, max_examples=300)
@given(todo=st.lists(steps, min_size=2, max_size=15))
def test_long_sequences(todo):
    run(todo)
