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
def test_the_first_run_opens_the_demo_and_comes_back(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    with pane(tmp_path, f"{PROGRAM}; echo left with $?; sleep 60", cwd=work) as screen:
        screen.shows("no key needed")
        screen.shows("built-in needs a key")
        screen.press("hello")
        screen.shows("❯ hello")
        screen.press("F12")
        screen.shows("demo 1/7", _DEMO)
        assert left_behind(tmp_path)
        screen.press("C-q")
        # What the person had open is there again then, and nothing of the demo is.
        screen.shows("❯ hello", _DEMO)
        assert not left_behind(tmp_path)
        assert "tide" not in agents(clean_environment(tmp_path))
        screen.press("C-q")
        screen.shows("left with 0")


@needs_tmux
@pytest.mark.timeout(180)
def test_the_demo_step_by_step_with_one_key(tmp_path: Path):
    run = f"{PROGRAM} demo --fast; echo left with $?; sleep 60"
    with pane(tmp_path, run) as screen:
        screen.shows("/7", _DEMO)
        skip_to_end(screen, until="left with 0")
        assert not left_behind(tmp_path)


@needs_tmux
@pytest.mark.timeout(180)
def test_the_demo_by_the_keys_that_its_captions_name(tmp_path: Path):
    run = f"{PROGRAM} demo; echo left with $?; sleep 60"
    with pane(tmp_path, run, size=(120, 34)) as screen:
        screen.shows("demo 1/7", _DEMO)
        allow(screen, "run a command")
        allow(screen, "edit tides.py")
        screen.shows("demo 3/7", _DEMO)
        type_line(screen, "/review tide")
        screen.shows("demo 4/7")
        screen.shows("% DAY")
        screen.press("Escape")
        screen.shows("Both can land now")
        type_line(screen, "/land tide guard")
        screen.shows("2. guard  +")
        screen.shows("ctrl+s land")
        screen.press("C-s")
        screen.shows("got its work back", _DEMO)
        screen.press("Escape")
        screen.shows("<<<<<<< HEAD", _DEMO)
        allow(screen, "edit tides.py")
        screen.shows("has resolved the conflict", _DEMO)
        type_line(screen, "/land guard")
        screen.shows("1. guard  +")
        screen.shows("ctrl+s land")
        screen.press("C-s")
        screen.shows("demo 7/7", _DEMO)
        screen.press("Escape")
        soon(lambda: "esc close" not in screen.text())
        screen.press("C-q")
        screen.shows("left with 0", _DEMO)
        assert not left_behind(tmp_path)


@needs_tmux
def test_a_second_demo_works_after_one_that_was_left_in_the_middle(tmp_path: Path):
    run = f"{PROGRAM} demo --fast"
    with pane(tmp_path, f"{run}; echo left with $?; {run}; echo again $?; sleep 60") as screen:
        screen.shows("demo 2/7", _DEMO)
        (first,) = left_behind(tmp_path)
        screen.press("C-q")
        soon(lambda: first not in left_behind(tmp_path), _DEMO)
        screen.shows("demo 2/7", _DEMO)
        screen.press("C-q")
        screen.shows("again 0", _DEMO)
        assert not left_behind(tmp_path)


@needs_tmux
def test_without_captions_the_keys_work_all_the_same(tmp_path: Path):
    with pane(tmp_path, f"{PROGRAM} demo --fast --no-captions; sleep 60") as screen:
        screen.shows("y allow once", _DEMO)
        assert "demo 2/7" not in screen.text()
        # A key that comes together with the request decides nothing; then it is pressed again.
        for _ in range(5):
            screen.press("F12")
            with suppress(AssertionError):
                soon(lambda: "? tide" not in screen.text(), 4.0)
                break
        screen.press("C-q")
        soon(lambda: not left_behind(tmp_path), _DEMO, what=screen.text())


def allow(screen: Pane, heading: str) -> None:
    """Allow a request when it has the keys, as a person does: after having read it."""
    screen.shows(heading, _DEMO)
    for _ in range(20):
        soon(lambda: "ctrl+g" in screen.text() or "esc later" in screen.text(), _DEMO)
        if "esc later" in screen.text():
            break
        screen.press("C-g")
        with suppress(AssertionError):
            screen.shows("esc later", 1.0)
    # A key that comes while the request is being drawn decides nothing; then it is pressed again.
    for _ in range(10):
        time.sleep(QUIET + 0.2)
        screen.press("y")
        with suppress(AssertionError):
            soon(lambda: not is_asked(screen, heading), 8.0)
            return
    raise AssertionError(f"it is still asked: {heading}\n{screen.text()}")


def is_asked(screen: Pane, heading: str) -> bool:
    """Whether the card of a request is on the screen, with its heading in the frame."""
    return f"─ {heading}" in screen.text()


def type_line(screen: Pane, words: str) -> None:
    screen.press("-l", words)
    screen.shows(f"❯ {words}")
    screen.press("Enter")


def skip_to_end(screen: Pane, until: str) -> None:
    """Press f12 once for each caption, and again if nothing comes of it, until it has ended."""
    seen: set[str] = set()
    waits = re.compile("demo 1/7|They go on|It merges|merges main")
    last, pressed, until_when = "", 0.0, time.monotonic() + 150.0
    while time.monotonic() < until_when:
        text = screen.text()
        if "left with" in text:
            break
        if found := re.search(r"demo (\d)/7.*", text):
            seen.add(found[1])
            is_due = found[0] != last or time.monotonic() - pressed > 3.0
            if is_due and not waits.search(text):
                screen.press("F12")
                last, pressed = found[0], time.monotonic()
        with suppress(AssertionError):
            soon(lambda before=text: screen.text() != before, 1.0)
    # A step that is done between two looks is not seen; f12 quits at the end alone.
    assert until in screen.text() and seen >= set("3467"), (seen, screen.text())


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
