"""When we are killed, the watchdog ends what we had started."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quarterdeck.system.api import CommandSpec, EndingDeadlines
from quarterdeck.system.process import spawn
from quarterdeck.system.process_guard import ProcessGuard
from quarterdeck.system.process_tree import ProcessTree, find_processes

OWNER = """
import asyncio, os, sys
from quarterdeck.system.api import CommandSpec
from quarterdeck.system.process import spawn

TREE = '''
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "60"])
subprocess.Popen(["sleep", "60"], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    print("daemon", flush=True)
    time.sleep(60)
time.sleep(60)
'''

async def main():
    command = CommandSpec(argv=[sys.executable, "-S", "-c", TREE])
    processes = [await spawn(command) for _ in range(2)]
    for process in processes:
        await process.receive()
    if "fork" in sys.argv and os.fork() == 0:
        os.read(0, 1)  # a copy of the owner that holds the pipe open
        os._exit(0)
    print(*(process.tree.mark for process in processes), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def gone_within(trees: list[ProcessTree], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while find_processes(trees):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize(
    ("number", "how"),
    [(signal.SIGKILL, "plain"), (signal.SIGTERM, "plain"), (signal.SIGKILL, "fork")],
)
def test_nothing_survives_the_death_of_the_owner(number: int, how: str):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    with owner:
        trees = [ProcessTree(mark) for mark in owner.stdout.readline().split()]
        assert len(find_processes(trees)) >= 8
        owner.send_signal(number)
        owner.wait()
        assert gone_within(trees, 2)
        owner.stdin.close()
        assert owner.stdout.read() == ""


def test_a_tree_that_begins_while_the_owner_dies_is_ended_too():
    """The watchdog has only just been started when its owner is gone: the pipe tells it all."""
    script = (
        "import os, subprocess, sys\n"
        "from quarterdeck.system.process_guard import ProcessGuard\n"
        "ProcessGuard().begin('fedcba98')\n"
        "subprocess.Popen(['sleep', '60'], env={'QUARTERDECK_MARK': 'fedcba98'}, "
        "stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    assert gone_within([ProcessTree("fedcba98")], 3)


async def test_a_killed_watchdog_is_replaced_and_knows_everything():
    guard = ProcessGuard()
    first = await spawn(CommandSpec(argv=["sleep", "60"]), guard=guard)
    old = guard.pid
    os.kill(old, signal.SIGKILL)
    await asyncio.to_thread(os.waitpid, old, 0)
    second = await spawn(CommandSpec(argv=["sleep", "60"]), guard=guard)
    assert guard.pid != old
    guard.close()  # as if we had died
    assert await first.wait() == await second.wait()
    for process in (first, second):
        await process.end(EndingDeadlines(ask=0, terminate=0))
    await asyncio.to_thread(os.waitpid, guard.pid, 0)


async def test_an_ended_tree_is_forgotten(tmp_path: Path):
    guard = ProcessGuard()
    process = await spawn(CommandSpec(argv=["sleep", "60"]), guard=guard)
    await process.end(EndingDeadlines(ask=0))
    bystander = subprocess.Popen(  # noqa: ASYNC220
        ["sleep", "60"], env={"QUARTERDECK_MARK": process.tree.mark}, start_new_session=True
    )
    guard.close()
    await asyncio.to_thread(os.waitpid, guard.pid, 0)
    assert bystander.poll() is None
    bystander.kill()
    await asyncio.to_thread(bystander.wait)
