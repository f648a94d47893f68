"""Journeys on a real terminal with a real host: what people do in a day, and what befalls them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.workbench.screens.key_guard import QUIET
from tests.support import real_agents
from tests.support.real_terminals import PROGRAM, Pane, needs_tmux, pane, soon

pytestmark = [needs_tmux, pytest.mark.timeout(180)]
LINES = "\n\n".join(f"line {n}" for n in range(60))
RUN = f"{PROGRAM}; echo left with $?; sleep 60"


def script(folder: Path, **scenes: list[dict[str, Any]]) -> str:
    """A model that says sixty lines unless a scene is named."""
    talk = [{"parts": [{"text": LINES}]}]
    slow = [{"parts": [{"text": "tick {{n}} ", "repeat": 3000, "pause": 0.1}]}]
    every = {"talk": talk, "slow": slow, **scenes}
    told = {"default": "talk", "scenes": {name: {"replies": one} for name, one in every.items()}}
    file = folder / "script.json"
    file.write_text(json.dumps(told))
    return f"scripted/{file}"


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"parts": [{"tool": tool, "arguments": arguments}]}


def ours(screen: Pane, cwd: Path, *words: str) -> str:
    done = subprocess.run(
        [PROGRAM, *words],
        env=screen.environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fake_agent(home: Path) -> None:
    """Make an agent known that is not of our make."""
    agents = home / "qd" / "agents"
    agents.mkdir(parents=True)
    command = [sys.executable, "-m", "quarterdeck.testing.acp_agent"]
    text = f'title = "Fake"\n[transports.acp]\ncommand = {json.dumps(command)}\n'
    (agents / "fake.toml").write_text(text)


def decide(screen: Pane, key: str) -> None:
    """Answer what is asked: keys count after a moment without any, from when the card is ready."""

    def is_answered() -> bool:
        time.sleep(QUIET + 0.2)
        if "y allow once" not in screen.text():
            return True
        screen.press(key)
        time.sleep(1.0)
        return "y allow once" not in screen.text()

    soon(is_answered, what=screen.text())


def settle(screen: Pane) -> None:
    """Let a key that moves the focus be taken: what comes with it goes where the focus was."""
    time.sleep(0.3)


def page_up(screen: Pane) -> None:
    """Scroll the transcript until its first answer is in view."""
    screen.press("F3")
    settle(screen)
    for _ in range(30):
        screen.press("PageUp")
        settle(screen)
        if re.search(r"line \d+", screen.text()) and "line 59" not in screen.text():
            return
    raise AssertionError(screen.text())


def top_line(screen: Pane) -> str:
    found = re.search(r"line \d+", screen.text())
    assert found is not None, screen.text()
    return found[0]


MAKES = ["fake", pytest.param("opencode", marks=pytest.mark.interop)]


@contextmanager
def other_make(make: str, home: Path) -> Generator[dict[str, str]]:
    """What the host needs so that an agent of another make works."""
    if make == "fake":
        fake_agent(home)
        yield {}
        return
    if real_agents.find(make) is None:
        pytest.skip(f"{make} is not installed")
    server = subprocess.Popen(
        [PROGRAM, "testing", "model-server"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = json.loads(server.stdout.readline())["port"]
        yield real_agents.environment(make, home / "its-home", f"http://127.0.0.1:{port}")
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize("make", MAKES)
def test_two_makes_are_answered_interrupted_left_and_met_again(tmp_path: Path, make: str):
    work = tmp_path / "work"
    work.mkdir()
    model = script(tmp_path)
    asks = "ask wipe the disk" if make == "fake" else "scene:shell"
    lasts = "wait 300" if make == "fake" else "scene:slow"
    with other_make(make, tmp_path) as more, pane(tmp_path, RUN, cwd=work) as screen:
        screen.shows("Agents here")
        ours(screen, work, "spawn", "-n", "ann", "-m", model, "talk to me")
        screen.shows("line 59")
        words = [f"--env={key}={value}" for key, value in more.items()]
        ours(screen, work, "spawn", "-n", "bob", "-a", make, *words, asks)
        screen.shows("1 need", 90)  # in the last line, whoever is in view
        screen.press("C-n")
        screen.shows("y allow once")
        decide(screen, "y")
        screen.shows("permission: yes, allowed" if make == "fake" else "Command finished")
        screen.press(lasts, "Enter")
        screen.shows("1 running")
        ours(screen, work, "send", "ann", "scene:slow")
        screen.shows("2 running")
        screen.press("C-c")
        screen.shows("1 running")
        assert state_of(screen, work, "ann") == "running"
        assert state_of(screen, work, "bob") == "interrupted"
        screen.press("a draft for bob", "C-b")
        screen.shows("tick 9")
        page_up(screen)
        before = top_line(screen)
        screen.press("F3")
        settle(screen)
        screen.press("and one for ann")
        screen.shows("❯ and one for ann")
        assert top_line(screen) == before
        screen.press("C-q")
        screen.shows("left with 0")
        assert state_of(screen, work, "ann") == "running"
        screen.tmux("respawn-pane", "-k", "-c", str(work), RUN)
        screen.shows("❯ and one for ann")
        screen.shows("❯ talk to me")  # the prompt of what is read is found anew
        screen.shows(before)
        assert top_line(screen) == before
        screen.press("C-n")
        screen.shows("❯ a draft for bob")


def state_of(screen: Pane, cwd: Path, name: str) -> str:
    told = json.loads(ours(screen, cwd, "ps", "--all", "--json"))
    return next(one["state"] for one in told["agents"] if one["name"] == name)


def screen_call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return call("mcp", server="quarterdeck", tool=tool, arguments=arguments)


def panel(name: str, widget: str, **more: Any) -> dict[str, Any]:
    return {"type": "panel", "id": name, "widget": widget, **more}


def test_a_lead_arranges_the_screen_and_what_a_person_does_stays(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("as it was\n")
    editor = panel("editor", "editor", options={"path": str(work / "notes.txt")})
    chat = panel("chat", "chat")
    tall = {"type": "vertical", "children": [editor, chat, panel("agents", "agents")]}
    layout = {"tabs": [{"title": "by the lead", "root": tall}]}
    model = script(
        tmp_path,
        work=[
            screen_call("screen_layout", action="set", layout=layout),
            screen_call("screen_layout", action="set", layout={"tabs": [{"title": "bad"}]}),
            screen_call("screen_tabs", action="open", title="another"),
            screen_call("screen_tabs", action="show", tab="by the lead"),
            {"parts": [{"text": "ARRANGED"}]},
        ],
    )
    with pane(tmp_path, RUN, cwd=work, size=(110, 40)) as screen:
        screen.shows("Agents here")
        ours(screen, work, "lead", "-d", "-n", "boss", "-m", model, "talk to me")
        screen.shows("line 59")
        screen.press("/edit notes.txt", "Enter")
        screen.shows("as it was")
        screen.press("not saved: ")
        screen.shows("not saved: as it was")
        screen.press("F3")
        settle(screen)
        screen.press("F3")
        settle(screen)
        screen.press("a draft")
        screen.shows("❯ a draft")
        page_up(screen)
        before = top_line(screen)
        ours(screen, work, "send", "boss", "scene:work")
        screen.shows("another")
        soon(lambda: state_of(screen, work, "boss") == "idle")
        screen.shows("by the lead")
        screen.shows("not saved: as it was")
        screen.shows("❯ a draft")
        assert top_line(screen) == before, screen.text()
        screen.press("F3")
        settle(screen)
        screen.press(" goes on")
        screen.shows("❯ a draft goes on")
        assert (work / "notes.txt").read_text() == "as it was\n"


LONG = " && ".join(f"pytest step-number-{n}-of-a-long-command" for n in range(40))
ASKED = {
    "command": [call("shell", command=f"{LONG} && pytest the-very-end")],
    "diff": [call("write", path="made.txt", content="\n".join(f"row {n}" for n in range(60)))],
}


@pytest.mark.parametrize("size", [(80, 24), (60, 14)])
@pytest.mark.parametrize("what", ASKED)
def test_a_long_request_leaves_room_for_every_choice(
    tmp_path: Path, what: str, size: tuple[int, int]
):
    work = tmp_path / "work"
    work.mkdir()
    model = script(tmp_path, ask=[*ASKED[what], {"parts": [{"text": "DONE"}]}])
    last = "the-very-end" if what == "command" else "row 59"
    with pane(tmp_path, RUN, cwd=work, size=size) as screen:
        screen.shows("host")
        ours(screen, work, "spawn", "-n", "ann", "-m", model, "--mode", "ask", "scene:ask")
        for choice in ("y allow once", "n deny", "d deny with words", "esc later"):
            screen.shows(choice)
        assert last not in screen.text()
        screen.shows("lines, ↑ ↓")
        while last not in (page := screen.text()):
            screen.press("PageDown")
            soon(lambda page=page: screen.text() != page, what=page)
        screen.shows("esc later")
        decide(screen, "n")
        screen.shows("DONE")


def test_a_host_that_is_killed_while_somebody_types_loses_nothing(tmp_path: Path):
    work = tmp_path / "work"
    work.mkdir()
    with pane(tmp_path, RUN, cwd=work) as screen:
        screen.shows("Agents here")
        ours(screen, work, "spawn", "-n", "ann", "-m", script(tmp_path), "talk to me")
        screen.shows("line 59")
        screen.press("half a")
        screen.shows("❯ half a")
        told = json.loads(ours(screen, work, "host", "status", "--json"))
        os.kill(told["pid"], signal.SIGKILL)
        screen.press(" sentence")
        screen.shows("❯ half a sentence")
        screen.shows("host: lost")
        screen.press(" more", "Enter")  # it cannot be sent, and comes back
        screen.shows("❯ half a sentence more")
        ours(screen, work, "host", "start")
        soon(lambda: "host: lost" not in screen.text())
        screen.shows("❯ half a sentence more")
        screen.shows("line 59")


def test_a_storm_of_sizes_leaves_a_screen_that_works(tmp_path: Path):
    sizes = [(20, 5), (200, 60), (40, 8), (80, 24), (10, 3), (132, 43), (25, 50), (300, 10)]
    with pane(tmp_path, RUN) as screen:
        screen.shows("Agents here")
        ours(screen, tmp_path, "spawn", "-n", "ann", "-m", script(tmp_path), "scene:slow")
        screen.shows("tick")
        screen.press("a draft")
        for number in range(40):
            screen.resize(*sizes[number % len(sizes)])
        screen.resize(80, 24)
        screen.shows("❯ a draft")
        screen.shows("1 running")
        screen.press(" goes on")
        screen.shows("❯ a draft goes on")
        assert all(len(line) <= 80 for line in screen.text().splitlines())
        screen.press("C-q")
        screen.shows("left with 0")


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
def test_without_colour_a_request_is_answered(tmp_path: Path, size: tuple[int, int]):
    asked = call("shell", command="touch the-very-end")
    model = script(tmp_path, ask=[asked, {"parts": [{"text": "DONE"}]}])
    with pane(tmp_path, RUN, size=size, NO_COLOR="1", TERM="vt100") as screen:
        screen.shows("host")
        ours(screen, tmp_path, "spawn", "-m", model, "-n", "a", "--mode", "ask", "scene:ask")
        screen.shows("y allow once")
        decide(screen, "y")
        soon(lambda: state_of(screen, tmp_path, "a") == "idle")
        assert (tmp_path / "the-very-end").exists()
        screen.press("C-q")
        screen.shows("left with 0")
