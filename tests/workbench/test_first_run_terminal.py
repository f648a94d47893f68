"""Real terminals: the first run, the demo to its end, crashes, signals, odd terminals."""

import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from quarterdeck.workbench.screens.key_guard import QUIET
from tests.support.deadlines import SOON
from tests.support.real_terminals import (
    PROGRAM,
    Pane,
    clean_environment,
    needs_tmux,
    pane,
    pty_of,
    soon,
)

_DEMO = 45.0


def left_behind(home: Path) -> list[str]:
    return [entry.name for entry in (home / "tmp").iterdir() if "demo" in entry.name]


def agents(environment: dict[str, str]) -> str:
    done = subprocess.run(
        [PROGRAM, "ps", "--all"], env=environment, capture_output=True, text=True, timeout=20
    )
    return done.stdout


@needs_tmux
def test_the_first_run_and_the_demo_to_its_end(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    with pane(tmp_path, f"{PROGRAM}; echo left with $?; sleep 60", cwd=work) as screen:
        screen.shows("no key needed")
        screen.shows("built-in needs a key")
        screen.press("hello")
        screen.shows("❯ hello")
        screen.press("C-u", "F12")
        # The lead needs permission three times, the other one once; the next follows by itself.
        seen = answer_all(screen, until="That was the demo")
        for asked in ("python3 -m unittest", "tides.py", "scribe wants to"):
            assert any(asked in one for one in seen), seen
        assert left_behind(tmp_path)
        assert "scribe" in agents(clean_environment(tmp_path))
        screen.press("C-q")
        screen.shows("left with 0")
        assert not left_behind(tmp_path)
        assert "scribe" not in agents(clean_environment(tmp_path))


def answer_all(screen: Pane, until: str) -> list[str]:
    """Allow once whatever is asked, until some words are there; returns what was asked.

    Keys count after a request has been there for a moment; one that comes in that very moment
    decides nothing, so that a person presses it again.
    """
    seen: list[str] = []
    shown = ("y allow once", "you: ctrl+g", until)
    for _ in range(40):
        soon(lambda: any(words in screen.text() for words in shown), _DEMO, what=screen.text())
        before = screen.text()
        if until in before:
            return seen
        has_keys = "esc later" in before
        if has_keys:
            seen.append(before)
            time.sleep(QUIET + 0.2)
        if has_keys is ("esc later" in screen.text()):
            screen.press("y" if has_keys else "C-g")
        with suppress(AssertionError):
            soon(lambda before=before: screen.text() != before, SOON / 3)
    raise AssertionError(screen.text())


CRASHES = {
    "key": "Workbench.action_help = broken",
    "worker": "FirstRun.discover = broken_worker",
    "start": "Workbench._begin = broken",
    "mount": "MainScreen.on_mount = broken",
    "drawing": "StatusBar.lines = broken",
}
_CRASHING = """
import sys
from quarterdeck.cli.main import main
from quarterdeck.workbench.app import Workbench
from quarterdeck.workbench.first_run import FirstRun
from quarterdeck.workbench.screens.main import MainScreen
from quarterdeck.workbench.widgets.bars import StatusBar

def broken(self, *rest):
    raise RuntimeError("it broke")

async def broken_worker(self):
    raise RuntimeError("it broke")

{}
sys.argv = ["quarterdeck"]
sys.exit(main())
"""


@pytest.mark.parametrize("where", CRASHES)
def test_a_crash_restores_the_terminal_and_tells_where_the_report_is(tmp_path: Path, where: str):
    environment = clean_environment(tmp_path)
    spawned = subprocess.run(
        [PROGRAM, "spawn", "-m", "scripted/default", "-n", "ann", "scene:slow"],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=20,
    )
    assert spawned.stdout
    code = _CRASHING.format(CRASHES[where])
    with pty_of([sys.executable, "-c", code], environment, cwd=tmp_path) as screen:
        if where == "key":
            screen.shows("ann")
            screen.write("\x1bOP")
        assert screen.ends() == 1
        said = screen.seen.decode("utf-8", "replace")
        assert screen.is_restored, said[-2000:]
        last = said[said.rfind("\x1b[?1049l") :]
        assert "unexpected error: RuntimeError: it broke" in last
        report = re.search(r"details are in (\S+\.log)", last)
        assert report is not None and "RuntimeError" in Path(report[1]).read_text()
        assert "running" in agents(environment)  # nobody was ended by it


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_in_good_order_and_no_agent(tmp_path: Path, number: signal.Signals):
    environment = clean_environment(tmp_path)
    with pty_of([PROGRAM], environment, cwd=tmp_path) as screen:
        screen.shows("Agents here")
        screen.write("half a sentence")
        screen.shows("sentence")
        screen.kill(number)
        assert screen.ends() == 128 + number
        assert screen.is_restored
        with pty_of([PROGRAM], environment, cwd=tmp_path) as again:
            again.shows("half a sentence")  # what was typed is kept


def test_killed_with_agents_alive_it_shows_all_of_them_again(tmp_path: Path):
    environment = clean_environment(tmp_path)
    for name in ("ann", "bob"):
        subprocess.run(
            [PROGRAM, "spawn", "-m", "scripted/default", "-n", name, "scene:slow"],
            env=environment,
            cwd=tmp_path,
            check=True,
            capture_output=True,
            timeout=20,
        )
    with pty_of([PROGRAM], environment, cwd=tmp_path) as screen:
        screen.shows("2 running")
        screen.kill(signal.SIGKILL)
        assert screen.ends() == -signal.SIGKILL
        with pty_of([PROGRAM], environment, cwd=tmp_path) as again:
            again.shows("2 running")
            again.shows("tick")


def test_no_colour_is_used_where_none_is_wanted(tmp_path: Path):
    environment = clean_environment(tmp_path, NO_COLOR="1")
    with pty_of([PROGRAM], environment, cwd=tmp_path) as screen:
        screen.shows("no key needed")
        colours = re.findall(rb"\x1b\[(?:\d+;)*(?:38|48);2;(\d+);(\d+);(\d+)", screen.read())
        assert all(red == green == blue for red, green, blue in colours)


def test_it_lives_on_a_terminal_of_five_lines(tmp_path: Path):
    environment = clean_environment(tmp_path)
    with pty_of([PROGRAM], environment, cwd=tmp_path, size=(20, 5)) as screen:
        screen.shows("host")
        screen.write("hi")
        screen.shows("hi")
        screen.write("\x11")
        assert screen.ends() == 0
        assert screen.is_restored


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_be_drawn_on_is_told_so(tmp_path: Path, term: str):
    environment = clean_environment(tmp_path, TERM=term)
    with pty_of([PROGRAM], environment, cwd=tmp_path) as screen:
        assert screen.ends() == 0
        said = screen.seen.decode()
        assert "TERM names" in said and "quarterdeck demo" in said and "\x1b[" not in said


def test_without_a_terminal_the_demo_is_offered_in_plain_text(tmp_path: Path):
    environment = clean_environment(tmp_path)
    done = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and "quarterdeck demo --yes" in done.stdout
    asked = subprocess.run(
        [PROGRAM, "demo"], env=environment, capture_output=True, text=True, timeout=20
    )
    assert asked.returncode == 2 and "--yes" in asked.stderr


@needs_tmux
@pytest.mark.parametrize("home", ["file/qd", "config"])
def test_a_host_that_cannot_start_is_told_and_the_screen_stays(tmp_path: Path, home: str):
    (tmp_path / "file").write_text("no directory")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text("mode = \n")
    more = {"QUARTERDECK_HOME": str(tmp_path / home)}
    with pane(tmp_path, f"{PROGRAM}; echo left with $?; sleep 60", **more) as screen:
        screen.shows("host: unusable", 40)
        screen.shows("/host  retry")
        screen.press("hello")
        screen.shows("❯ hello")
        if home == "config":
            (tmp_path / "config" / "config.toml").unlink()
            screen.press("C-u")
            soon(lambda: "❯ hello" not in screen.text())
            screen.press("/host")
            screen.shows("❯ /host")
            screen.press("Enter")
            screen.shows("Agents here", 40)
        screen.press("C-q")
        screen.shows("left with 0")
