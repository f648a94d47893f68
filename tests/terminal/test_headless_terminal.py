"""Any program in a terminal: what it draws, what is typed, how it ends."""

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quarterdeck.system.api import CommandSpec
from quarterdeck.system.errors import CommandNotFoundError
from quarterdeck.terminal.emulator import Emulator, open_emulator
from quarterdeck.terminal.headless_terminal import HeadlessTerminal
from quarterdeck.terminal.viewer_events import TerminalDrawn, TerminalResized, TerminalWritten
from quarterdeck.wire.errors import LinkError
from tests.support.deadlines import SOON, quick_once


def sh(script: str) -> CommandSpec:
    return CommandSpec(argv=("/bin/sh", "-c", script), cwd="/")


def python(code: str) -> CommandSpec:
    return CommandSpec(argv=(sys.executable, "-c", code), cwd="/")


async def shows(terminal: HeadlessTerminal, holds: Callable[[str], object]) -> str:
    async with asyncio.timeout(SOON):
        while not holds(text := "\n".join(row.text for row in terminal.screen.rows())):
            await terminal.change()
    return text


async def test_it_has_a_controlling_terminal_of_its_size():
    terminal = await HeadlessTerminal.start(
        sh("stty size </dev/tty; test -t 0 && test -t 2 && echo tty")
    )
    await terminal.wait()
    assert [row.text for row in terminal.screen.rows()][:2] == ["40 120", "tty"]
    assert (await terminal.close()).code == 0


async def test_it_is_told_of_a_new_size():
    code = (
        "import os, signal, time\n"
        "def tell(*_): os.write(1, str(os.get_terminal_size()).encode())\n"
        "signal.signal(signal.SIGWINCH, tell)\n"
        "os.write(1, b'up ')\n"
        "while True: time.sleep(1)"
    )
    terminal = await HeadlessTerminal.start(python(code))
    await shows(terminal, lambda text: "up" in text)
    terminal.resize(100, 30)
    await shows(terminal, lambda text: "columns=100, lines=30" in text)
    await terminal.close()


async def test_queries_are_answered_to_the_program():
    code = (
        "import os, sys, tty\n"
        "tty.setraw(0)\n"
        "os.write(1, b'ab\\x1b[6n')\n"
        "seen = b''\n"
        "while not seen.endswith(b'R'): seen += os.read(0, 1)\n"
        "print(repr(seen), flush=True)"
    )
    terminal = await HeadlessTerminal.start(python(code))
    await terminal.wait()
    assert "'\\x1b[1;3R'" in terminal.screen.rows()[0].text
    await terminal.close()


PASTES = (
    "import os, sys, tty\n"
    "tty.setraw(0)\n"
    "os.write(1, b'\\x1b[?2004hready')\n"
    "seen = b''\n"
    "while b'\\x1b[201~' not in seen: seen += os.read(0, 65536)\n"
    "open(sys.argv[1], 'wb').write(seen)"
)


async def test_ten_thousand_characters_are_pasted_within_a_second(tmp_path: Path):
    file = tmp_path / "seen"
    command = CommandSpec(argv=(sys.executable, "-c", PASTES, str(file)), cwd="/")
    evil = "line\n\x1b[201~rm -rf /\r\x03\x1b]0;x\x07\x00\x9b31m ünï 你好 "
    text = (evil * 1000)[:10_000]

    async def paste() -> float:
        terminal = await HeadlessTerminal.start(command)
        await shows(terminal, lambda text: "ready" in text)
        begun = time.perf_counter()
        await terminal.paste(text)
        await terminal.wait()
        taken = time.perf_counter() - begun
        await terminal.close()
        return taken

    await quick_once(paste, 1.0)
    seen = await asyncio.to_thread(file.read_bytes)
    assert seen.startswith(b"\x1b[200~") and seen.endswith(b"\x1b[201~")
    inside = seen[6:-6].decode()
    assert not any(
        (ord(one) < 32 and one not in "\r\t") or "\x7f" <= one < "\xa0" for one in inside
    )
    assert len(inside) == len(text) and "你好" in inside


async def test_a_late_viewer_sees_the_same_and_what_follows():
    script = "printf '\\033[31mred\\033[0m\\r\\n'; seq 100; read x; printf 'after %s' $x"
    terminal = await HeadlessTerminal.start(sh(script), size=(60, 12))
    await shows(terminal, lambda text: "100" in text)
    late = open_emulator(60, 12)
    viewing = asyncio.create_task(view(terminal, late))
    await asyncio.sleep(0)
    terminal.resize(50, 14)
    await terminal.write(b"words\r")
    await terminal.wait()
    await viewing
    assert late.rows() == terminal.screen.rows() and late.scrolled == terminal.screen.scrolled
    assert "after words" in late.text()[-1]
    await terminal.close()


def running(word: bytes) -> list[bytes]:
    found: list[bytes] = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in (words := place.read_bytes()):
                found.append(words)
        except OSError:
            continue
    return found


async def view(terminal: HeadlessTerminal, screen: Emulator) -> None:
    async for seen in terminal.follow():
        match seen:
            case TerminalDrawn():
                screen.feed(seen.data)
            case TerminalWritten():
                screen.feed(seen.data)
            case TerminalResized():
                screen.resize(seen.columns, seen.rows)


async def test_a_viewer_that_does_not_look_holds_nobody_up_and_gets_the_screen_again():
    terminal = await HeadlessTerminal.start(
        sh("read x; yes 0123456789 | head -c 3000000; echo; echo end")
    )
    following = terminal.follow()
    assert isinstance(await anext(following), TerminalDrawn)
    await terminal.write(b"\r")
    await asyncio.wait_for(terminal.wait(), SOON)
    late = open_emulator(120, 40)
    whole = 0
    async for seen in following:
        if isinstance(seen, TerminalDrawn):
            late, whole = open_emulator(120, 40), whole + 1
        if not isinstance(seen, TerminalResized):
            late.feed(seen.data)
    assert whole == 1 and late.rows() == terminal.screen.rows()
    await terminal.close()


async def test_a_program_that_ignores_hanging_up_is_ended_with_its_tree():
    script = "trap '' HUP TERM; (trap '' HUP; setsid sleep 61347) & sleep 61347 & echo up; wait"
    terminal = await HeadlessTerminal.start(sh(script))
    await shows(terminal, lambda text: "up" in text)
    left = await terminal.close()
    assert left.signal == "SIGKILL"
    assert await asyncio.to_thread(running, b"61347") == []
    with pytest.raises(LinkError):
        await terminal.write(b"x")


async def test_its_end_is_told_with_the_reason():
    terminal = await HeadlessTerminal.start(sh("echo last words; exit 3"))
    left = await terminal.wait()
    assert left.code == 3 and terminal.screen.rows()[0].text == "last words"
    assert [type(seen) async for seen in terminal.follow()] == [TerminalDrawn]
    assert (await terminal.close()).code == 3


async def test_the_last_words_are_never_lost():
    for _ in range(20):
        terminal = await HeadlessTerminal.start(sh("seq 300; printf end"))
        await terminal.wait()
        assert terminal.screen.text()[-1] == "end"
        await terminal.close()


async def test_a_missing_program_is_named():
    with pytest.raises(CommandNotFoundError, match="no-such-program"):
        await HeadlessTerminal.start(CommandSpec(argv=("no-such-program",), cwd="/"))


@pytest.mark.parametrize("program", ["vim", "less", "top"])
async def test_programs_that_everybody_has(program: str, tmp_path: Path):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    file = tmp_path / "file.txt"
    file.write_text("".join(f"line {number} 你好 \n" for number in range(200)))
    words = {"vim": ("-u", "NONE", "-n", str(file)), "less": (str(file),), "top": ("-d", "60")}
    env = {"HOME": str(tmp_path), "LANG": "C.UTF-8"}
    command = CommandSpec(argv=(program, *words[program]), cwd="/", env=env)
    terminal = await HeadlessTerminal.start(command, size=(80, 24))
    wanted = "PID" if program == "top" else "line 5 你好"
    await shows(terminal, lambda text: wanted in text)
    other = open_emulator(80, 24, backend="avt")
    other.feed(terminal.snapshot().data)
    assert [row.text for row in other.rows()] == [row.text for row in terminal.screen.rows()]
    await terminal.write(b"G" if program != "top" else b"")
    if program != "top":
        await shows(terminal, lambda text: "line 199 你好" in text)
    await terminal.write(b":q!\r" if program == "vim" else b"q")
    async with asyncio.timeout(SOON):
        assert (await terminal.wait()).code == 0
    await terminal.close()
    assert not terminal.screen.modes.alternate_screen


@pytest.mark.parametrize(
    "script",
    ["printf last; exec <&- >&- 2>&-; sleep 0.3", "sleep 5 & printf last"],
    ids=["let go", "held"],
)
async def test_who_looks_sees_the_end_though_nobody_waits_for_it(script: str):
    terminal = await HeadlessTerminal.start(sh(script))
    async with asyncio.timeout(SOON):
        seen = [one async for one in terminal.follow()]
    assert terminal.is_over and terminal.exit is not None
    assert "last" in "".join(
        one.data.decode() for one in seen if not isinstance(one, TerminalResized)
    )
    await terminal.close()
