"""``quarterdeck terminal``: opened, listed, attached to on a real terminal, closed."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quarterdeck.cli.fleet.terminal_console import LeaveKey, TerminalPainter
from quarterdeck.terminal.emulator import Emulator, Style, open_emulator
from tests.support.real_terminals import PROGRAM, Pty, clean_environment, pty_of, soon
from tests.support.recorded_terminals import AGENTS, recorded

Run = Callable[..., subprocess.CompletedProcess[str]]
LEAVE = "\x1c"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return clean_environment(tmp_path / "home", SHELL="/bin/sh")


@pytest.fixture
def hosted(run: Run) -> Iterator[Run]:
    """Commands with a host of their own, which is stopped at the end."""
    yield run
    run("host", "stop", "--force")


def attached(environ: dict[str, str], *words: str, size: tuple[int, int] = (80, 24)):
    return pty_of([PROGRAM, "terminal", *words], environ, size=size)


def screen_of(program: Pty, size: tuple[int, int]) -> str:
    """What a person sees who sits before it."""
    screen = open_emulator(*size)
    screen.feed(program.read())
    return "\n".join(row.text for row in screen.rows())


def shows(program: Pty, words: str, size: tuple[int, int] = (80, 24)) -> None:
    soon(lambda: words in screen_of(program, size), what=words)


def test_it_is_opened_listed_and_closed(hosted: Run, work: Path):
    assert "No terminals" in hosted("terminal", "list").stdout
    opened = hosted("terminal", "open", "-n", "one", "--", "sh", "-c", "sleep 600; echo")
    assert (opened.returncode, opened.stderr) == (0, "")
    id_ = opened.stdout.strip()
    (info,) = json.loads(hosted("terminal", "list", "--json").stdout)["terminals"]
    assert (info["id"], info["name"], info["cwd"]) == (id_, "one", str(work))
    assert (info["columns"], info["rows"], info["ended"]) == (120, 40, None)
    head, row = hosted("terminal", "list").stdout.splitlines()
    assert head.split() == ["ID", "NAME", "STATE", "AGE", "SIZE", "COMMAND"]
    assert row.split()[:3] == [id_, "one", "running"]
    assert "terminals 1" in hosted("host", "status").stdout
    twin = json.loads(hosted("terminal", "open", "-n", "one", "--json", "cat").stdout)
    both = hosted("terminal", "close", "one")
    assert both.returncode == 2 and twin["id"] in both.stderr
    assert hosted("terminal", "close", "one", id_).returncode == 2
    assert hosted("terminal", "close", id_, "one").returncode == 0
    gone = hosted("terminal", "close", id_)
    assert (gone.returncode, id_ in gone.stderr) == (1, True)
    assert json.loads(hosted("terminal", "list", "--json").stdout) == {"terminals": []}
    absent = hosted("terminal", "open", "no-such-program")
    assert absent.returncode == 1 and "no-such-program" in absent.stderr
    assert hosted("terminal", "open", "-C", "/no/where").returncode == 2
    for words in (("attach", "x"), ("open", "--attach")):
        refused = hosted("terminal", *words)
        assert refused.returncode == 2 and "needs a terminal" in refused.stderr


def test_a_person_attaches_leaves_and_comes_back(hosted: Run, environ: dict[str, str]):
    with attached(environ, "open", "--attach", "-n", "mine", size=(70, 20)) as first:
        first.write("quarterdeck terminal attach mine\r")
        shows(first, "inside itself", (70, 20))
        first.write("clear; stty size; echo $((6*7)) $QUARTERDECK_TERMINAL; cat -v\r")
        shows(first, "20 70\n42 term-", (70, 20))
        id_ = screen_of(first, (70, 20)).split("42 ")[1].split()[0]
        first.write("\x1b[A")
        shows(first, "^[[A", (70, 20))
        first.write(LEAVE)
        assert first.ends() == 0
        assert first.is_restored
        assert f"terminal attach {id_}".encode() in first.seen
        with attached(environ, "attach", "mine", size=(60, 15)) as second:
            shows(second, "^[[A", (60, 15))
            (info,) = json.loads(hosted("terminal", "list", "--json").stdout)["terminals"]
            assert (info["columns"], info["rows"]) == (60, 15)
            second.write("\r\x04exit 7\r")
            assert second.ends() == 5
            assert second.is_restored and b"exit code 7" in second.seen
            assert hosted("terminal", "close", id_).returncode == 0


def test_a_new_size_is_passed_on_and_a_program_that_ends_well_is_closed(
    hosted: Run, environ: dict[str, str]
):
    script = "trap 'stty size' WINCH; echo up; while ! read -t 1 x; do :; done"
    with attached(environ, "open", "--attach", "--", "bash", "-c", script) as program:
        shows(program, "up")
        program.resize(50, 12)
        shows(program, "12 50", (50, 12))
        program.write("\r")
        assert program.ends() == 0
        assert program.is_restored
    assert json.loads(hosted("terminal", "list", "--json").stdout)["terminals"] == []


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.stress)]
)
def test_whoever_is_ended_leaves_the_terminal_as_it_was(
    environ: dict[str, str], number: signal.Signals
):
    modes = r"printf '\033[?1049h\033[?1002h\033[?1006h\033[?2004h\033[?1h\033[?25l\033[>5uup'"
    with attached(environ, "open", "--attach", "--", "sh", "-c", f"{modes}; sleep 600") as program:
        shows(program, "up")
        soon(lambda: b"\x1b[?1002h" in program.read(), what="the mouse")
        program.kill(number)
        assert program.ends() == 128 + number
        assert program.is_restored
        for mode in (1002, 1006, 2004, 1):
            on, off = b"\x1b[?%dh" % mode, b"\x1b[?%dl" % mode
            assert program.seen.rfind(off) > program.seen.rfind(on) > 0
        assert program.seen.rfind(b"\x1b[<u") > program.seen.rfind(b"\x1b[>5u") > 0


def test_a_host_that_goes_away_is_told(hosted: Run, environ: dict[str, str]):
    with attached(environ, "open", "--attach", "cat") as program:
        program.write("hello\r")
        shows(program, "hello\nhello")
        hosted("host", "stop")
        assert program.ends() in (1, 5)
        assert program.is_restored


def test_queries_of_a_program_are_answered_once(environ: dict[str, str]):
    code = (
        "import os, sys, tty, select, time\n"
        "tty.setraw(0); os.write(1, b'\\x1b[c\\x1b[6nasked')\n"
        "seen, end = b'', time.time() + 1\n"
        "while time.time() < end:\n"
        "    if select.select([0], [], [], 0.1)[0]: seen += os.read(0, 100)\n"
        "print('R' * 0 + str(seen.count(b'R')), 'answers', flush=True); time.sleep(60)\n"
    )
    with attached(environ, "open", "--attach", "--", sys.executable, "-c", code) as program:
        shows(program, "asked")
        assert b"\x1b[6n" not in program.seen and b"\x1b[c" not in program.seen
        shows(program, "1 answers")


def test_what_is_larger_than_the_terminal_is_shown_where_its_cursor_is():
    screen = open_emulator(60, 40)
    screen.feed(b"".join(b"\x1b[3%dmrow %d \xe4\xbd\xa0\r\n" % (n % 8, n) for n in range(39)))
    drawing, shown = TerminalPainter("x"), open_emulator(9, 5)
    shown.feed(b"\x1b[?7l" + drawing.frame(screen, (9, 5)))
    assert [row.text for row in shown.rows()] == [f"row {n} 你" for n in (35, 36, 37, 38)] + [""]
    screen.feed(b"\x1b[H\x1b[1;4mtop")
    shown.feed(drawing.frame(screen, (9, 5)))
    assert shown.rows()[0].spans[0].style == screen.rows()[0].spans[0].style
    assert (shown.cursor.column, shown.cursor.row) == (3, 0)
    screen.feed(b"\x1b[2;1Hxx\x1b]2;name\x1b[31m\x07")
    update = drawing.frame(screen, (9, 5))
    shown.feed(update)
    assert len(update) < 150 and b"row 2" not in update
    assert [row.text for row in shown.rows()][:3] == ["top 0 你", "xxw 1 你", "row 2 你"]


def test_what_fills_a_terminal_is_drawn_to_its_last_column():
    screen = open_emulator(8, 2)
    screen.feed("abcdefgh你你你你".encode())
    shown = open_emulator(8, 2)
    shown.feed(b"\x1b[?7l" + TerminalPainter("x").frame(screen, (8, 2)))
    assert shown.rows() == screen.rows()


def cells(screen: Emulator) -> list[list[tuple[str, Style]]]:
    return [[(c, span.style) for span in row.spans for c in span.text] for row in screen.rows()]


@pytest.mark.parametrize("agent", AGENTS)
def test_what_agents_draw_is_seen_as_they_drew_it(agent: str):
    session = recorded(agent)
    screen, shown = open_emulator(*session.size), open_emulator(*session.size)
    drawing = TerminalPainter(agent)
    shown.feed(b"\x1b[?7l")
    for number, piece in enumerate(session.pieces()):
        screen.feed(piece)
        if number % 7 == 0:
            shown.feed(drawing.frame(screen, session.size))
            assert cells(shown) == cells(screen)
            assert shown.cursor == screen.cursor
            assert shown.modes.bracketed_paste == screen.modes.bracketed_paste
    shown.feed(drawing.leave())
    assert not shown.modes.bracketed_paste and shown.cursor.is_visible


@pytest.mark.parametrize("cut", range(8, 40))
def test_the_key_that_leaves_is_found_outside_of_pastes(cut: int):
    data = b"ab\x1b[200~pasted \x1c text\x1b[201~cd\x1cafter"
    key = LeaveKey()
    first, is_leaving = key.take(data[:cut])
    rest, is_leaving = (b"", True) if is_leaving else key.take(data[cut:])
    assert is_leaving and first + rest == b"ab\x1b[200~pasted \x1c text\x1b[201~cd"


def test_the_key_that_leaves_is_known_in_the_other_protocol():
    assert LeaveKey().take(b"x\x1b[92;5uy") == (b"x", True)
    assert LeaveKey().take(b"x\x1b[92;5:1uy") == (b"x", True)
    assert LeaveKey().take(b"\x1b[92;1u") == (b"\x1b[92;1u", False)


def test_the_screen_of_an_agent_is_attached_to_by_its_name(
    hosted: Run, environ: dict[str, str], tmp_path: Path
):
    agents = tmp_path / "home" / "qd" / "agents"
    agents.mkdir(parents=True)
    command = f'["{sys.executable}", "-m", "quarterdeck.testing.tui"]'
    (agents / "fake.toml").write_text(f'[transports.pty]\ncommand = {command}\ndialect = "fake"\n')
    spawned = hosted("spawn", "-a", "fake", "-n", "ann", "--transport", "pty", "--wait", "echo hi")
    assert spawned.stdout == "hi\n", spawned.stderr
    with attached(environ, "attach", "ann", size=(50, 10)) as program:
        shows(program, "ready · fake", (50, 10))
        program.write("echo typed\r")
        shows(program, "● typed", (50, 10))
        refused = hosted("terminal", "close", "ann")
        assert refused.returncode == 1 and "quarterdeck close ann" in refused.stderr
        program.write(LEAVE)
        assert program.ends() == 0 and program.is_restored
