"""Commands that are watched: output, limits, exit, kill, release."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from quarterdeck.system.api import CommandSpec, ProcessExit
from quarterdeck.system.errors import (
    CommandNotFoundError,
    NoSuchTerminalError,
    OutsideRootsError,
    PathRefusedError,
)
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.local_terminals import LocalTerminals
from quarterdeck.system.process_tree import find_processes


@pytest.fixture
async def system(root: Path) -> AsyncIterator[LocalSystem]:
    async with LocalSystem([root]) as system:
        yield system


@pytest.fixture
def terminals(system: LocalSystem) -> LocalTerminals:
    return system.terminals


def sh(script: str, **environment: str) -> CommandSpec:
    return CommandSpec(argv=["/bin/sh", "-c", script], env=environment)


async def test_both_streams_arrive_in_order_with_the_exit(terminals: LocalTerminals):
    terminal = await terminals.create(sh("echo a; echo b >&2; echo $WORD; exit 2", WORD="c"))
    assert await terminal.wait() == ProcessExit(code=2)
    view = await terminal.output()
    assert (view.text, view.dropped, view.total, view.exit) == (
        "a\nb\nc\n",
        0,
        6,
        ProcessExit(code=2),
    )
    assert not view.is_truncated


async def test_input_is_empty(terminals: LocalTerminals):
    terminal = await terminals.create(CommandSpec(argv=["cat"]))
    assert await terminal.wait() == ProcessExit(code=0)


async def test_output_can_be_seen_while_it_runs(terminals: LocalTerminals):
    terminal = await terminals.create(sh("echo begun; exec sleep 60"))
    async for text in terminal.follow():
        assert text == "begun\n"
        break
    view = await terminal.output()
    assert (view.text, view.exit) == ("begun\n", None)
    await terminal.kill()
    assert (await terminal.output()).exit == ProcessExit(signal="SIGTERM")


async def test_the_limit_keeps_the_end_cut_at_a_character(terminals: LocalTerminals):
    terminal = await terminals.create(sh("printf 'ääääää'"), tail=5)
    await terminal.wait()
    view = await terminal.output()
    assert (view.text, view.dropped, view.total, view.is_truncated) == ("ää", 8, 12, True)


async def test_head_and_tail_with_the_exact_gap_and_the_whole_in_a_file(
    terminals: LocalTerminals, tmp_path: Path
):
    script = "import sys; [print(n) for n in range(200_000)]"
    command = CommandSpec(argv=[sys.executable, "-S", "-c", script])
    terminal = await terminals.create(command, head=100, tail=100, spill=tmp_path / "whole")
    await terminal.wait()
    view = await terminal.output()
    whole = "".join(f"{n}\n" for n in range(200_000))
    assert (view.head, view.tail) == (whole[:100], whole[-100:])
    assert view.dropped == len(whole) - 200
    assert (tmp_path / "whole").read_text() == whole
    assert (tmp_path / "whole").stat().st_mode & 0o777 == 0o600
    assert terminal.spill_problem == ""


async def test_garbage_does_not_lose_later_lines(terminals: LocalTerminals):
    terminal = await terminals.create(sh(r"printf 'a\377\376\nb\n'"))
    await terminal.wait()
    assert (await terminal.output()).text == "a\ufffd\ufffd\nb\n"


async def test_followers_get_everything_and_an_end(terminals: LocalTerminals):
    terminal = await terminals.create(sh("for i in 1 2 3 4 5; do printf 'ä%s ' $i; done"))
    pieces = [[text async for text in terminal.follow()] for _ in range(2)]
    assert "".join(pieces[0]) in ("ä1 ä2 ä3 ä4 ä5 ", "")
    assert "".join(pieces[1]) == ""


async def test_a_slow_follower_learns_what_it_missed(terminals: LocalTerminals):
    terminal = await terminals.create(sh("sleep 0.05; yes | head -c 1000000"), tail=1000)
    follower = terminal.follow()
    first = asyncio.ensure_future(anext(follower))
    await terminal.wait()
    text = await first + "".join([piece async for piece in follower])
    assert "bytes …]" in text
    assert text.endswith("y\n")


async def test_the_wait_is_over_though_a_grandchild_holds_the_pipe(terminals: LocalTerminals):
    begun = time.monotonic()
    terminal = await terminals.create(sh("echo now; (sleep 0.2; echo later; sleep 60) &"))
    assert await terminal.wait() == ProcessExit(code=0)
    assert time.monotonic() - begun < 2
    assert (await terminal.output()).text.startswith("now\n")
    while "later" not in (await terminal.output()).text:
        await asyncio.sleep(0.02)
    await terminal.release()
    assert time.monotonic() - begun < 4


async def test_a_grandchild_that_floods_does_not_delay_the_wait(terminals: LocalTerminals):
    begun = time.monotonic()
    terminal = await terminals.create(sh("yes & sleep 0.1"), tail=10_000)
    assert await terminal.wait() == ProcessExit(code=0)
    assert time.monotonic() - begun < 3
    await terminal.release()


async def test_a_killed_command_keeps_its_partial_output(terminals: LocalTerminals):
    terminal = await terminals.create(
        sh("trap '' TERM; echo part; setsid sh -c 'trap \"\" TERM; sleep 60'; sleep 60")
    )
    async for _ in terminal.follow():
        break
    begun = time.monotonic()
    await terminal.kill()
    assert time.monotonic() - begun < 2
    view = await terminal.output()
    assert (view.text, view.exit) == ("part\n", ProcessExit(signal="SIGKILL"))


async def test_a_released_terminal_is_forgotten(terminals: LocalTerminals):
    terminal = await terminals.create(sh("sleep 60"))
    assert terminals.get(terminal.id) is terminal
    await terminal.release()
    await terminal.release()
    with pytest.raises(NoSuchTerminalError, match=terminal.id):
        terminals.get(terminal.id)


async def test_refusals(terminals: LocalTerminals, root: Path):
    with pytest.raises(OutsideRootsError):
        await terminals.create(CommandSpec(argv=["true"], cwd=".."))
    with pytest.raises(CommandNotFoundError):
        await terminals.create(CommandSpec(argv=["no-such"]), spill=root / "spill")
    with pytest.raises(PathRefusedError, match="exists"):
        await terminals.create(CommandSpec(argv=["true"]), spill=root / "spill")


async def test_leaving_the_system_ends_everything(root: Path):
    async with LocalSystem([root]) as system:
        process = await system.processes.spawn(CommandSpec(argv=["sleep", "60"]))
        terminal = await system.terminals.create(sh("sleep 60"))
    assert process.has_ended
    assert terminal.pid > 0
    assert await asyncio.to_thread(find_processes, [process.tree]) == []
