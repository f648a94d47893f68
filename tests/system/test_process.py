"""A child's streams: nothing lost, nothing blocked, errors that name their cause."""

import asyncio
import os
import resource
import sys
import threading
import time
from pathlib import Path

import pytest

from quarterdeck.system.api import CommandSpec, EndingDeadlines, ProcessExit
from quarterdeck.system.errors import (
    CommandNotFoundError,
    NoSuchDirectoryError,
    NotExecutableError,
    OutsideRootsError,
    SpawnError,
)
from quarterdeck.system.paths import Roots
from quarterdeck.system.process import LocalProcess, LocalProcesses, spawn
from quarterdeck.wire.errors import LinkBrokenError, LinkBusyError, LinkClosedError

NOW = EndingDeadlines(ask=0, terminate=0)


def sh(script: str) -> CommandSpec:
    return CommandSpec(argv=["/bin/sh", "-c", script])


def python(script: str, *arguments: str) -> CommandSpec:
    return CommandSpec(argv=[sys.executable, "-S", "-c", script, *arguments])


async def received(process: LocalProcess) -> bytes:
    pieces: list[bytes] = []
    while data := await process.receive():
        pieces.append(data)
    return b"".join(pieces)


async def test_output_and_exit_code_arrive():
    async with await spawn(sh("echo out; echo err >&2; exit 3")) as process:
        assert await received(process) == b"out\n"
        assert await process.wait() == ProcessExit(code=3)
        assert process.stderr() == "err\n"


async def test_a_signal_is_named():
    async with await spawn(sh("kill -USR1 $$")) as process:
        assert await process.wait() == ProcessExit(signal="SIGUSR1")


async def test_what_is_sent_comes_back():
    async with await spawn(CommandSpec(argv=["cat"])) as process:
        data = os.urandom(1_000_000)

        async def send() -> None:
            await process.send(data)
            process.close_input()

        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            back = group.create_task(received(process))
        assert back.result() == data
        assert await process.wait() == ProcessExit(code=0)


async def test_arguments_reach_the_program_as_they_are():
    words = ["-n", "a b", "$HOME", "*", "'\"", "\u202eemoji 🎉", "", "x" * 100_000]
    script = "import os, sys; os.write(1, b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    async with await spawn(python(script, *words)) as process:
        assert (await received(process)).decode().split("\0") == words


async def repeat_last_words(times: int) -> None:
    script = "printf '%s' first; printf '%s' last; printf '%s' why >&2; exit 7"
    for _ in range(times):
        process = await spawn(sh(script))
        exit = await process.wait()
        assert process.stderr() == "why"
        assert await received(process) == b"firstlast"
        assert exit == ProcessExit(code=7)
        await process.end(NOW)


async def test_the_last_bytes_before_exit_are_never_lost():
    await repeat_last_words(60)


@pytest.mark.stress
async def test_the_last_bytes_before_exit_are_never_lost_in_a_thousand():
    await repeat_last_words(1000)


async def test_a_full_pipe_of_last_words_is_delivered_after_the_end():
    process = await spawn(python("import os; os.write(1, b'x' * 65536)"))
    await process.wait()
    await process.end(NOW)
    assert await received(process) == b"x" * 65536
    assert await process.receive() == b""


async def test_the_stream_ends_with_the_child_though_a_grandchild_holds_the_pipe():
    begun = time.monotonic()
    async with await spawn(sh("sleep 30 & echo done")) as process:
        assert await received(process) == b"done\n"
        assert await process.wait() == ProcessExit(code=0)
    assert time.monotonic() - begun < 5


async def test_a_chatty_child_is_not_blocked_by_its_stderr():
    script = (
        "import sys; [sys.stderr.write('e' * 99 + '\\n') for _ in range(100_000)]; print('end')"
    )
    seen: list[int] = []
    command = python(script)
    async with await spawn(command, on_stderr=lambda data: seen.append(len(data))) as process:
        assert await received(process) == b"end\n"
        await process.wait()
        assert process.stderr_total == sum(seen) == 10_000_000
        assert len(process.stderr()) == 65_536


async def test_a_failing_observer_of_stderr_does_not_block_the_child():
    def observe(data: bytes) -> None:
        raise RuntimeError("observer")

    async with await spawn(sh("echo a >&2; sleep 0.05; echo b >&2"), on_stderr=observe) as process:
        await process.wait()
        assert process.stderr() == "a\nb\n"


async def test_a_child_is_held_back_while_nobody_receives():
    script = (
        "import os\nn = 0\nwhile True: n += os.write(1, b'x' * 4096); os.write(2, b'%d\\n' % n)"
    )
    async with await spawn(python(script)) as process:
        before = 0
        while not before or process.stderr_total != before:
            before = process.stderr_total
            await asyncio.sleep(0.1)
        assert int(process.stderr().split()[-1]) <= 1_048_576
        received = 0
        while received < 2_000_000:
            received += len(await process.receive())
        await process.end(NOW)


async def test_ending_does_not_wait_for_a_child_that_never_reads():
    process = await spawn(CommandSpec(argv=["sleep", "30"]))
    sending = asyncio.create_task(process.send(b"x" * 5_000_000))
    await asyncio.sleep(0.05)
    assert not sending.done()
    begun = time.monotonic()
    await process.end(EndingDeadlines(ask=0.1, terminate=1))
    assert time.monotonic() - begun < 3
    with pytest.raises((LinkClosedError, LinkBrokenError)):
        await sending


async def test_sending_to_a_child_that_left_says_how_it_left():
    async with await spawn(sh("echo reason >&2; exit 4")) as process:
        await process.wait()
        with pytest.raises(LinkBrokenError) as caught:
            await process.send(b"x")
        assert (caught.value.exit_code, caught.value.stderr) == (4, "reason\n")


async def test_a_send_cancelled_half_way_breaks_the_stream():
    async with await spawn(CommandSpec(argv=["sleep", "30"])) as process:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await process.send(b"x" * 1_000_000)
        with pytest.raises(LinkBrokenError, match="half way"):
            await process.send(b"y")
        await process.end(NOW)


async def test_two_receivers_are_one_too_many():
    async with await spawn(CommandSpec(argv=["cat"])) as process:
        first = asyncio.create_task(process.receive())
        await asyncio.sleep(0)
        with pytest.raises(LinkBusyError):
            await process.receive()
        await process.send(b"x")
        assert await first == b"x"


async def test_after_close_receive_says_so_and_the_child_runs_on():
    async with await spawn(sh("sleep 30")) as process:
        waiting = asyncio.create_task(process.receive())
        await asyncio.sleep(0)
        await process.close()
        with pytest.raises(LinkClosedError):
            await waiting
        assert process.exit is None
        await process.end(NOW)


async def test_a_missing_program_is_named_with_the_path_searched():
    begun = time.monotonic()
    with pytest.raises(CommandNotFoundError, match=r"no-such-agent.*'/nowhere:/bin'"):
        await spawn(CommandSpec(argv=["no-such-agent"], env={"PATH": "/nowhere:/bin"}))
    assert time.monotonic() - begun < 1


async def test_a_program_without_permission_is_told_apart(tmp_path: Path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(NotExecutableError, match="permission denied"):
        await spawn(CommandSpec(argv=["tool"], env={"PATH": str(tmp_path)}))
    with pytest.raises(NotExecutableError, match="is a directory"):
        await spawn(CommandSpec(argv=[str(tmp_path)]))


async def test_a_missing_interpreter_is_told_apart(tmp_path: Path):
    (tmp_path / "tool").write_text("#!/no/such/interpreter\n")
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(NotExecutableError, match="interpreter"):
        await spawn(CommandSpec(argv=[str(tmp_path / "tool")]))


async def test_a_missing_directory_is_named(tmp_path: Path):
    with pytest.raises(NoSuchDirectoryError, match="gone"):
        await spawn(CommandSpec(argv=["true"], cwd=tmp_path / "gone"))


async def test_bad_words_are_refused():
    with pytest.raises(SpawnError, match="NUL"):
        await spawn(CommandSpec(argv=["echo", "a\0b"]))
    with pytest.raises(CommandNotFoundError):
        await spawn(CommandSpec(argv=[]))
    with pytest.raises(NotExecutableError, match="too long"):
        await spawn(CommandSpec(argv=["echo", "x" * 10_000_000]))


async def test_the_working_directory_is_confined(root: Path):
    processes = LocalProcesses(Roots([root]))
    with pytest.raises(OutsideRootsError):
        await processes.spawn(CommandSpec(argv=["pwd"], cwd=root.parent / "outside"))
    process = await processes.spawn(CommandSpec(argv=["pwd"]))
    assert await received(process) == f"{root}\n".encode()
    await processes.close()
    assert process.has_ended


async def test_a_failed_start_leaks_no_descriptor():
    await spawn_and_end()
    before = descriptors()
    for _ in range(5):
        with pytest.raises(CommandNotFoundError):
            await spawn(CommandSpec(argv=["no-such-agent"]))
        with pytest.raises(NotExecutableError):
            await spawn(CommandSpec(argv=["echo", "x" * 10_000_000]))
        await spawn_and_end()
    assert descriptors() == before


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


async def spawn_and_end() -> None:
    process = await spawn(CommandSpec(argv=["true"]))
    await process.end()


async def test_having_no_descriptors_left_is_an_error_of_ours():
    await spawn_and_end()
    free, taken = descriptors(), list[int]()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 20, hard))
    try:
        with pytest.raises(OSError, match=r"open files"):
            while True:
                taken.append(os.dup(0))
        for _ in range(4):
            with pytest.raises(SpawnError, match=r"open files"):
                await spawn(CommandSpec(argv=["true"]))
            os.close(taken.pop())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in taken:
            os.close(descriptor)
    assert descriptors() == free


async def test_a_hundred_idle_children_need_no_thread_each():
    processes = [await spawn(CommandSpec(argv=["sleep", "60"])) for _ in range(100)]
    try:
        assert threading.active_count() < 40
        used = time.process_time()
        await asyncio.sleep(0.3)
        assert time.process_time() - used < 0.1
    finally:
        for process in processes:
            os.killpg(process.pid, 9)
        await asyncio.gather(*(process.end(NOW) for process in processes))


async def test_a_cancelled_spawn_leaves_nothing_behind():
    for delay in (0, 0.0005, 0.001, 0.002):
        spawning = asyncio.create_task(spawn(CommandSpec(argv=["sleep", "60"])))
        await asyncio.sleep(delay)
        spawning.cancel()
        try:
            process = await spawning
        except asyncio.CancelledError:
            continue
        await process.end(NOW)
