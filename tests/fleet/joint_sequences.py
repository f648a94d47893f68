"""Plays random sequences of edits, undo, landing and discarding in forked hosts; run as a program.

``joint_sequences.py FOLDER FIRST COUNT LONGEST``: the seeds from FIRST on. In most sequences hosts
are killed, each right before a change that it is about to make to the disk; the next host has to
find one state or the other. Prints a line of counts, or the seed and the steps that fail.
"""

import asyncio
import ctypes
import json
import os
import pickle
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.support.joint_host import JointHost
from tests.support.joint_steps import FILES, Step, make_sequence
from tests.support.joint_world import Picture, World
from tests.support.scripted_fleet import places_in
from tests.support.work_trees import git, new_repository

_BECOME_PARENT_OF_ORPHANS = 36
_LENGTH = struct.Struct("<Q")


class SequenceError(Exception):
    """A sequence after which something is not as it must be."""


def prepare(folder: Path, *, is_tidy: bool) -> World:
    """A project with a stash, and perhaps settings that let worktrees go at once."""
    project = new_repository(folder / "project", FILES)
    (project / "a").write_text("stashed person-9999-0\n")
    git(project, "stash", "push", "-q")
    if is_tidy:
        settings = places_in(folder / "home").config_file
        settings.parent.mkdir(parents=True)
        settings.write_text("[worktrees]\nkeep_days = 0\n")
    return World(folder=folder, project=project)


def live(
    world: World, steps: list[Step], start: int, cut: tuple[Step, Picture] | None
) -> tuple[World, int, tuple[Step, Picture] | None]:
    """The life of one host: what it left, the next step, and what it was in the middle of."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        run_host(world, steps, start, cut, writing)
    os.close(writing)
    last = None
    with os.fdopen(reading, "rb") as pipe:
        while head := pipe.read(_LENGTH.size):
            last = pickle.loads(pipe.read(_LENGTH.unpack(head)[0]))
    _, status = os.waitpid(pid, 0)
    wait_for_orphans()
    if last is None:
        raise SequenceError(f"the host did not begin: status {status}")
    kind, number, *rest = last
    if kind == "failed":
        raise SequenceError(f"at step {number}:\n{rest[0]}")
    if kind == "begin":
        if not os.WIFSIGNALED(status):
            raise SequenceError(f"at step {number}: the host ended with status {status}")
        return rest[0], number + 1, (steps[number], rest[1])
    return rest[0], number + 1, None


def run_host(
    world: World, steps: list[Step], start: int, cut: tuple[Step, Picture] | None, pipe: int
) -> None:
    """Play steps until the last one, or until it is killed."""
    at = start

    def tell(kind: str, number: int, *rest: object) -> None:
        nonlocal at
        at = number
        data = pickle.dumps((kind, number, *rest))
        with os.fdopen(os.dup(pipe), "wb") as file:
            file.write(_LENGTH.pack(len(data)) + data)

    try:
        asyncio.run(JointHost(world, steps, tell).run(start, cut))
        os._exit(0)
    except BaseException:
        tell("failed", at, traceback.format_exc())
        os._exit(1)


def wait_for_orphans() -> None:
    """Wait until programs that the killed host had started are done, as they are at a new start."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def play(seed: int, folder: Path, longest: int) -> Counter[str]:
    """Play one sequence; how often what has happened."""
    layout, steps = make_sequence(seed, kills=seed % 4 != 3, longest=longest)
    try:
        world, number, cut = prepare(folder, is_tidy=seed % 2 == 1), 0, None
        while number <= len(steps):
            world, number, cut = live(world, steps, number, cut)
    except (SequenceError, OSError) as error:
        shown = "\n".join(f"  {at}: {step}" for at, step in enumerate(steps))
        again = f"{sys.argv[0]} FOLDER {seed} 1 {longest}"
        raise SequenceError(f"seed {seed} ({again})\n{layout}\n{shown}\n{error}") from None
    world.counts["steps"] = len(steps)
    world.counts["kills"] = sum(step.killed_at is not None for step in steps)
    return world.counts


def main(folder: Path, first: int, count: int, longest: int) -> None:
    ctypes.CDLL(None).prctl(_BECOME_PARENT_OF_ORPHANS, 1, 0, 0, 0)
    counts: Counter[str] = Counter(sequences=count)
    begun = time.monotonic()
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory(dir=folder) as name:
            counts += play(seed, Path(name).resolve(), longest)
    counts["seconds"] = round(time.monotonic() - begun)
    print(json.dumps(counts))


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), *(int(word) for word in sys.argv[2:5]))
    except SequenceError as error:
        sys.exit(str(error))
