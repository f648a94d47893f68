"""Nothing of a tree survives its ending, however it hides."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from quarterdeck.system.api import CommandSpec, EndingDeadlines, ProcessExit
from quarterdeck.system.process import LocalProcess, spawn
from quarterdeck.system.process_exit import ExitWatch, peek_exit, reap_child
from quarterdeck.system.process_tree import (
    MARK_VARIABLE,
    ProcessInfo,
    ProcessTree,
    find_processes,
    list_processes,
    marked_by_ps,
    send_signal,
    start_of,
    table_of_ps,
)
from tests.support.deadlines import SOON

QUICK = EndingDeadlines(ask=0.1, terminate=0.3, kill=5)
FOREVER = "import signal, time; {}; print('ready', flush=True); time.sleep(60)"
IGNORES = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


def python(script: str) -> CommandSpec:
    return CommandSpec(argv=[sys.executable, "-S", "-c", script])


def alive(process: LocalProcess) -> list[ProcessInfo]:
    return find_processes([process.tree])


async def pids(tree: ProcessTree) -> list[int]:
    return [one.pid for one in await asyncio.to_thread(find_processes, [tree])]


async def begun(process: LocalProcess) -> None:
    """Wait until its environment can be seen, which is a moment after its start."""
    async with asyncio.timeout(SOON):
        while process.pid not in await pids(ProcessTree(process.tree.mark)):
            await asyncio.sleep(0.01)


async def ready(process: LocalProcess, count: int = 1) -> None:
    """Wait until so many processes of the tree have said that they are ready."""
    seen = b""
    while seen.count(b"ready") < count:
        data = await process.receive()
        assert data, process.stderr()
        seen += data


async def ends(
    process: LocalProcess, ending: EndingDeadlines = QUICK, within: float = 4
) -> ProcessExit:
    begun = time.monotonic()
    exit = await process.end(ending)
    assert time.monotonic() - begun < within
    assert await asyncio.to_thread(alive, process) == []
    return exit


async def gone(group: int) -> None:
    """Wait until a process group has no member, not even one that nobody has reaped."""
    with suppress(ProcessLookupError):
        while True:
            os.killpg(group, 0)
            await asyncio.sleep(0.01)


async def test_a_child_that_leaves_when_asked_is_not_signalled():
    process = await spawn(CommandSpec(argv=["cat"]))
    assert await ends(process, EndingDeadlines(ask=5)) == ProcessExit(code=0)


async def test_a_child_that_heeds_sigterm_can_clean_up():
    process = await spawn(
        python(
            "import os, signal, sys, time\n"
            # No print in it: that of "ready" may not have returned yet, and is not reentrant.
            "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'bye\\n'), sys.exit(5)))\n"
            "print('ready', flush=True); time.sleep(60)"
        )
    )
    await ready(process)
    assert await ends(process, EndingDeadlines(ask=0, terminate=5)) == ProcessExit(code=5)
    assert await process.receive() == b"bye\n"


async def test_a_child_that_ignores_sigterm_is_killed():
    process = await spawn(python(FOREVER.format(IGNORES)))
    await ready(process)
    assert await ends(process) == ProcessExit(signal="SIGKILL")


async def test_a_stopped_child_is_ended():
    process = await spawn(python(FOREVER.format("pass")))
    await ready(process)
    os.kill(process.pid, signal.SIGSTOP)
    assert await ends(process, EndingDeadlines(ask=0, terminate=5)) == ProcessExit(signal="SIGTERM")


async def test_a_grandchild_that_ignores_sigterm_is_killed():
    grandchild = FOREVER.format(IGNORES)
    process = await spawn(
        python(
            f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {grandchild!r}])"
        )
    )
    await ready(process)
    await ends(process)


DAEMON = (
    "import os, signal, sys, time\n"
    "if os.fork(): sys.exit(0)\n"
    "os.setsid()\n"
    "if os.fork(): os._exit(0)\n"
    f"{IGNORES}\n"
    "print('ready', flush=True)\n"
    "time.sleep(60)"
)


async def test_a_daemon_of_its_own_session_is_found_by_its_mark():
    process = await spawn(python(DAEMON), ends_with_child=False)
    await ready(process)
    await process.wait()
    left = await asyncio.to_thread(alive, process)
    assert [one.session == process.pid for one in left] == [False]
    await ends(process)


async def test_many_children_are_all_ended():
    script = (
        "import os, time\n"
        "for _ in range(10):\n"
        "    if os.fork() == 0:\n"
        "        if _ % 2: os.setsid()\n"
        "        print('ready', flush=True); time.sleep(60); os._exit(0)\n"
        "time.sleep(60)"
    )
    process = await spawn(python(script))
    await ready(process, 10)
    assert len(await asyncio.to_thread(alive, process)) == 11
    await ends(process)


async def test_a_tree_that_keeps_forking_is_ended():
    script = (
        "import os, time\n"
        "print('ready', flush=True)\n"
        "until = time.monotonic() + 30\n"
        "while time.monotonic() < until:\n"
        "    if os.fork(): os._exit(0)\n"  # a chain: each process lives for a moment only
        "    time.sleep(0.002)"
    )
    process = await spawn(python(script), ends_with_child=False)
    await ready(process)
    await ends(process)
    await asyncio.wait_for(gone(process.pid), SOON)


async def test_descendants_are_ended_after_the_child_left_by_itself():
    process = await spawn(CommandSpec(argv=["sh", "-c", "sleep 60 & (setsid sleep 60 &) ; exit 3"]))
    assert await process.wait() == ProcessExit(code=3)
    assert await ends(process) == ProcessExit(code=3)


async def test_the_child_is_a_zombie_until_its_end_so_that_its_id_is_kept():
    process = await spawn(CommandSpec(argv=["true"]))
    await process.wait()
    assert (await asyncio.to_thread(list_processes))[process.pid].is_dead
    await process.end()
    assert process.pid not in await asyncio.to_thread(list_processes)


async def test_an_ending_goes_on_when_its_caller_is_cancelled():
    process = await spawn(python(FOREVER.format(IGNORES)))
    await ready(process)
    ending = asyncio.create_task(process.end(EndingDeadlines(ask=0, terminate=0.2)))
    await asyncio.sleep(0.05)
    ending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ending
    assert await process.wait() == ProcessExit(signal="SIGKILL")
    assert await process.end() == ProcessExit(signal="SIGKILL")
    assert process.has_ended


async def test_ending_twice_at_once_is_ending_once():
    process = await spawn(CommandSpec(argv=["sleep", "60"]))
    first, second = await asyncio.gather(process.end(QUICK), process.end(QUICK))
    assert first == second == ProcessExit(signal="SIGTERM")


def test_a_loop_that_closes_kills_the_child_it_was_ending():
    async def leave() -> int:
        process = await spawn(python(FOREVER.format(IGNORES)))
        await ready(process)
        ending = asyncio.create_task(process.end(EndingDeadlines(ask=60)))
        await asyncio.sleep(0)
        assert not ending.done()
        return process.pid

    pid = asyncio.run(leave())
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL


async def test_a_reused_process_id_is_not_signalled():
    process = await spawn(CommandSpec(argv=["sleep", "60"]))
    one = (await asyncio.to_thread(list_processes))[process.pid]
    stranger = ProcessInfo(one.pid, one.parent, one.group, one.session, "1", is_dead=False)
    assert not await asyncio.to_thread(send_signal, stranger, signal.SIGKILL)
    assert await pids(ProcessTree("", one.pid, "1")) == []
    assert await pids(ProcessTree("", one.pid, one.start)) == [one.pid]
    await ends(process)


async def test_nested_marks_all_lead_to_the_process():
    outer = os.environ[MARK_VARIABLE]
    process = await spawn(CommandSpec(argv=["sleep", "60"]))
    await begun(process)
    assert await pids(ProcessTree(outer)) == [process.pid]
    assert await pids(ProcessTree(process.tree.mark)) == [process.pid]
    assert await pids(ProcessTree(process.tree.mark[:-1])) == []
    await ends(process)


def test_a_program_name_with_parentheses_is_read(tmp_path: Path):
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([program, "60"])
    try:
        assert list_processes()[child.pid].parent == os.getpid()
        assert start_of(child.pid)
    finally:
        child.kill()
        child.wait()
    assert start_of(child.pid) == ""


async def test_polling_learns_of_an_exit_too():
    child = subprocess.Popen(["/bin/sh", "-c", "sleep 0.1; exit 9"])  # noqa: ASYNC220
    left: asyncio.Future[ProcessExit] = asyncio.get_running_loop().create_future()
    watch = ExitWatch(child.pid, left.set_result, polls=True)
    assert peek_exit(child.pid) is None
    assert await left == ProcessExit(code=9)
    watch.stop()
    reap_child(child.pid)
    child.returncode = 9
    assert peek_exit(child.pid) == ProcessExit()


async def test_ps_and_proc_agree():
    process = await spawn(CommandSpec(argv=["sleep", "60"]))
    table = await asyncio.to_thread(table_of_ps, ["-ax"])
    here = (await asyncio.to_thread(list_processes))[process.pid]
    assert (table[process.pid].parent, table[process.pid].group) == (here.parent, here.group)
    assert table[process.pid].start
    assert await asyncio.to_thread(marked_by_ps, {process.tree.mark}) == {process.pid}
    await ends(process)
