"""Kills processes that undo and redo, and opens what they left; run as a program.

After each kill the files are exactly as the log says: undone, or not. Prints one line of counts,
or fails with what differs.
"""

import asyncio
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from quarterdeck.agent.native import NativeAgent, NativeSessionOptions
from quarterdeck.config.places import Places
from quarterdeck.models.script import Script
from quarterdeck.models.scripted_model import ScriptedModel
from quarterdeck.policy.grammar import parse_rule
from quarterdeck.wire.content import text
from tests.support.native_agents import call, says
from tests.support.work_trees import new_repository, state_of, untouched

MANY = 40
COMMAND = (
    f"for n in $(seq {MANY}); do echo $n > new$n; echo $n >> old$n; done;"
    " rm gone*; mkdir -p dir; mv old1 dir/moved; rm -r swap; echo file > swap"
)


def options() -> NativeSessionOptions:
    script = Script.sequence(says(call("bash", command=COMMAND)), "done")
    return NativeSessionOptions.of(
        model="scripted/test",
        mode="accept-edits",
        rules=(parse_rule("allow bash"),),
        make_model=lambda _: ScriptedModel(script, name="test"),
    )


def agent(folder: Path) -> NativeAgent:
    return NativeAgent(Places.find({"QUARTERDECK_HOME": str(folder / "home")}), {})


async def work(folder: Path) -> str:
    """A session with one turn that changed a lot."""
    async with agent(folder) as host:
        session = await host.new(options().at(str(folder / "work")))
        ended = await session.prompt((text("change a lot"),))
        assert ended.stop == "end_turn", ended
        return session.id


async def back_and_forth(folder: Path, id_: str, pipe: int) -> None:
    async with agent(folder) as host:
        session = await host.load(id_, options=options())
        os.write(pipe, b"open\n")
        while True:
            (turn,) = (await session.checkpoints.ledger()).turns
            if turn.is_applied:
                await session.checkpoints.undo()
            else:
                await session.checkpoints.redo()
            os.write(pipe, b"done\n")


def one_kill(folder: Path, id_: str, number: int) -> int:
    """Start a process, kill it after a while; how often it went back or forth."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            asyncio.run(back_and_forth(folder, id_, writing))
        finally:
            os._exit(1)
    os.close(writing)
    if number % 5:
        select.select([reading], [], [], 15)
    time.sleep(random.uniform(0, 0.12))
    os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading) as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, f"the process ended by itself: {status}"
    return lines.count("done")


async def is_applied(folder: Path, id_: str) -> bool:
    """Open the session, which finishes what was begun, and ask the log."""
    async with agent(folder) as host:
        session = await host.load(id_, options=options())
        (turn,) = (await session.checkpoints.ledger()).turns
        messages = session._conversation.messages()
        assert bool(messages) == turn.in_conversation == turn.is_applied
        return turn.is_applied


def main(folder: Path, kills: int, seed: int) -> None:
    random.seed(seed)
    files = {f"old{n}": f"old {n}\n" for n in range(1, MANY + 1)}
    files |= {f"gone{n}": "gone\n" for n in range(10)} | {"swap/inside": "in\n"}
    tree = new_repository(folder / "work", files)
    before, kept = state_of(tree), untouched(tree)
    id_ = asyncio.run(work(folder))
    after = state_of(tree)
    went = halves = 0
    for number in range(kills):
        went += one_kill(folder, id_, number)
        state = state_of(tree)
        halves += state not in (before, after)
        expected = after if asyncio.run(is_applied(folder, id_)) else before
        found = state_of(tree)
        different = {name for name in found | expected if found.get(name) != expected.get(name)}
        assert not different, f"kill {number}: {sorted(different)}"
        assert untouched(tree) == kept
    print(f"{kills} kills, {went} times back or forth, {halves} caught half way")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
