"""Whatever turns do, and however people go back and forth: the states are those recorded."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.agent.checkpoints.errors import NothingToUndoError
from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.agent.checkpoints.turn_history import TurnHistory
from quarterdeck.wire.content import text
from quarterdeck.wire.events import Event, Prompted
from quarterdeck.wire.ids import MessageId, SessionId, TurnId
from quarterdeck.wire.record import Record
from tests.support.work_trees import new_repository, state_of, untouched

SESSION = SessionId("ses_" + "0" * 26)
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
NAMES = ("a", "b", "d", "d/e", "d/f", "g", os.fsdecode(b"\xff"))

edits = st.tuples(
    st.sampled_from(("write", "delete", "link", "run", "directory")),
    st.sampled_from(NAMES),
    st.integers(0, 3),
)
steps = st.one_of(
    st.tuples(st.just("turn"), st.lists(edits, min_size=1, max_size=5)),
    st.tuples(st.just("undo"), st.just(0)),
    st.tuples(st.just("redo"), st.just(0)),
    st.tuples(st.just("rewind"), st.integers(0, 6)),
)


def edit(work: Path, what: str, name: str, number: int) -> None:
    """Change one path, whatever is there."""
    path = work / name
    if path.parent != work and not (path.parent.is_dir() and not path.parent.is_symlink()):
        path.parent.unlink(missing_ok=True)
        path.parent.mkdir()
    if what == "run":
        if path.is_file() and not path.is_symlink():
            path.chmod(0o755 if number % 2 else 0o644)
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if what == "write":
        path.write_text(f"content {number}\n" * number)
    elif what == "link":
        path.symlink_to(f"target{number}")
    elif what == "directory":
        path.mkdir()
        (path / "inside").write_text(f"{number}\n")


class Log:
    """The log of one session, in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    async def emit(self, event: Event, turn: TurnId | None = None) -> None:
        seq = len(self.records) + 1
        self.records.append(Record(seq=seq, time=seq, session=SESSION, turn=turn, event=event))

    async def read(self) -> AsyncIterator[Record]:
        for record in list(self.records):
            yield record


async def walk(folder: Path, plan: list[tuple[str, object]], *, is_git: bool) -> None:
    work = folder / "work"
    work.mkdir()
    if is_git:
        new_repository(work, {"a": "first\n", "d/e": "deep\n"})
        kept = untouched(work)
    snapshots = await asyncio.to_thread(TurnSnapshots, folder / "state", SESSION, (str(work),))
    log = Log()
    history = TurnHistory(snapshots, log.read, log.emit)
    befores: list[object] = []
    told: list[int] = []
    undone: list[tuple[list[int], object]] = []

    def work_on(id_: TurnId, changes: list[tuple[str, str, int]]) -> tuple[Event, ...]:
        pending = snapshots.begin(id_)
        for what, name, n in changes:
            if not is_git:
                for affected in affected_by(work, name):
                    snapshots.keep(pending, os.fsencode(affected))
            edit(work, what, name, n)
        events = snapshots.finish(pending)
        snapshots.forget()
        return events

    async def turn(changes: list[tuple[str, str, int]]) -> None:
        number = len(befores)
        id_ = TurnId(f"trn_{number}")
        befores.append(state_of(work))
        told.append(number)
        undone.clear()
        prompt = Prompted(content=(text(f"turn {number}"),), message=MessageId(f"m{number}"))
        await log.emit(prompt, id_)
        for event in await asyncio.to_thread(work_on, id_, changes):
            await log.emit(event, id_)

    for step, argument in plan:
        before = state_of(work)
        try:
            if step == "turn":
                await turn(argument)  # type: ignore[arg-type]
                continue
            if step == "redo":
                await history.redo()
                names, state = undone.pop()
                told[:] = names
                assert state_of(work) == state
                continue
            target = told[-1] if step == "undo" and told else argument
            if step == "undo":
                await history.undo()
            else:
                await history.rewind(str(int(str(argument)) + 1))
            undone.append((list(told), before))
            told[:] = [n for n in told if n < int(str(target))]
            assert state_of(work) == befores[int(str(target))]
        except NothingToUndoError:
            assert state_of(work) == before
    ledger = await history.ledger()
    assert [t.number - 1 for t in ledger.turns if t.in_conversation] == told
    if is_git:
        assert untouched(work) == kept


def affected_by(work: Path, name: str) -> list[Path]:
    """Every path that an edit of a name may change; what our tools say of their calls."""
    path = work / name
    near = [path, path.parent] if path.parent != work else [path]
    below = [path / "inside", path / "e", path / "f", path / "e" / "inside", path / "f" / "inside"]
    return [*near, *below]


def check(plan: list[tuple[str, object]], *, is_git: bool) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        asyncio.run(walk(Path(folder), plan, is_git=is_git))


def test_a_directory_that_was_a_file_for_one_turn():
    plan = [("turn", [("write", "d", 0)]), ("turn", [("write", "d/e", 0)]), ("rewind", 0)]
    check(plan, is_git=True)
    check([*plan, ("redo", 0), ("undo", 0)], is_git=False)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=8))
def test_going_back_and_forth_with_git(plan: list[tuple[str, object]]):
    check(plan, is_git=True)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=10))
def test_going_back_and_forth_without_git(plan: list[tuple[str, object]]):
    check(plan, is_git=False)


@pytest.mark.stress
@pytest.mark.timeout(600)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=20), st.booleans())
def test_going_back_and_forth_for_long(plan: list[tuple[str, object]], is_git: bool):
    check(plan, is_git=is_git)
