"""The fleet's commands against a host whose agents obey their prompts."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.deadlines import SOON

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).parent / "quarterdeck"
HOST = """
import asyncio, os
from quarterdeck.config.places import Places
from quarterdeck.fleet.host.process import run_host
from tests.support.memory_fleet import open_fake
ready = lambda: print("ready", flush=True)
asyncio.run(run_host(Places.find(), dict(os.environ), open_fleet=open_fake, ready=ready))
"""


@pytest.fixture
def host(environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOST], cwd=ROOT, env=environ, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    with child, child.stdout:
        yield child
        child.terminate()
        child.wait(SOON)


@pytest.fixture
def done(run: Callable[..., subprocess.CompletedProcess[str]], host: object):
    """Run a command that must succeed; its output."""

    def run_well(*arguments: str) -> str:
        result = run(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    return run_well


def test_agents_are_spawned_listed_and_read(done, run):
    assert done("ps").startswith("No agents.")
    assert done("spawn", "-a", "claude", "-n", "ann", "say hello\x1b[2J") == "ann\n"
    assert done("spawn", "-n", "bob", "ask") == "bob\n"
    lines = done("ps").splitlines()
    assert lines[0].split()[:3] == ["NAME", "AGENT", "STATE"]
    assert lines[1].split()[:4] == ["bob", "native", "needs", "you"]
    assert lines[2].split()[:3] == ["ann", "claude", "idle"]
    assert lines[3] == "1 needs you: quarterdeck inbox"
    agents = json.loads(done("ps", "--json"))["agents"]
    assert [(agent["name"], agent["state"]) for agent in agents] == [
        ("bob", "waiting"), ("ann", "idle"),
    ]  # fmt: skip
    assert done("logs", "ann").endswith("> say hello\\x1b[2J\nhello\\x1b[2J\n")
    records = [json.loads(line) for line in done("logs", "ann", "--json", "-n", "2").splitlines()]
    assert [record["event"]["type"] for record in records] == ["message_chunk", "turn_ended"]
    assert "ann 6 message_chunk: hello" in done("search", "hello")
    missing = run("logs", "an")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == "quarterdeck: there is no agent 'an'; did you mean 'ann'?\n"


def test_spawn_can_wait_and_tells_how_it_ended(run, host: object):
    said = run("spawn", "--wait", "say All done.")
    assert (said.returncode, said.stdout) == (0, "All done.\n")
    asks = run("spawn", "-n", "ann", "--wait", "ask")
    assert (asks.returncode, "ann needs you" in asks.stderr) == (4, True)
    late = run("spawn", "-n", "bob", "--wait", "--timeout", "0.01", "work")
    assert late.returncode == 124
    taken = run("spawn", "-n", "bob", "--json", "work")
    assert (taken.returncode, taken.stdout) == (1, "")
    assert "already an agent 'bob'" in taken.stderr


def test_what_is_asked_for_is_what_is_sent(run, host: object, work: Path):
    (work / "more").mkdir()
    request = [
        "--mode",
        "plan",
        "--allow",
        "bash(ls:*)",
        "--root",
        "more",
        "-e",
        "A=1=2",
        "-e",
        "B",
    ]
    spawned = run("spawn", "-n", "ann", *request, "--json", B="b")
    assert spawned.returncode == 0
    info = json.loads(spawned.stdout)
    assert (info["mode"], info["cwd"]) == ("plan", str(work.resolve()))
    assert json.loads(info["title"]) == {"A": "1=2", "B": "b", "roots": [str(work / "more")]}
    missing = run("spawn", "-e", "NO_SUCH_VARIABLE")
    assert (missing.returncode, "NO_SUCH_VARIABLE" in missing.stderr) == (2, True)


@pytest.mark.parametrize("command", [("spawn",), ("lead", "-d")], ids=" ".join)
def test_spawn_and_lead_set_effort_and_limits(run, done, command: tuple[str, ...]):
    flags = ("--effort", "high", "--max-cost", "2", "--deny-tool", "fetch", "-e", "A=s3cret")
    said = run(*command, "-n", "ann", *flags, "say x")
    assert said.returncode == 0, said.stderr
    lines = [json.loads(line) for line in done("logs", "--json", "ann").splitlines()]
    (spawned,) = [one["event"] for one in lines if one["event"]["type"] == "session_spawned"]
    assert spawned["options"] == {
        "cwd": spawned["options"]["cwd"],
        "effort": "high",
        "denied_tools": ["fetch"],
        "environment": {"A": None},
        "limits": {"cost": 2.0},
    }
    wrong = run(*command, "--effort", "extreme", "say x")
    assert (wrong.returncode, "'extreme' is not one of" in wrong.stderr) == (2, True)


def test_requests_are_shown_whole_and_answered_once(done, run):
    done("spawn", "-n", "ann", "ask")
    shown = done("inbox")
    assert "ls /\\x1b[31m\\u202e" in shown
    assert '"command": "ls /"' in shown
    assert "[2] Always allow ls (allow_always)" in shown
    (item,) = json.loads(done("inbox", "--json"))["inbox"]
    wrong = run("answer", "ann", "perhaps")
    assert (wrong.returncode, "1 Allow, 2 Always" in wrong.stderr) == (1, True)
    done("answer", "ann", "deny", "--feedback", "not there")
    assert done("inbox") == "No open requests.\n"
    assert "= denied by person cli (reject once): not there" in done("logs", "ann")
    again = run("answer", item["request"], "allow", "--json")
    assert (again.returncode, json.loads(again.stdout)["answered"]) == (6, False)
    assert run("answer", "req_none", "allow").returncode == 1
    assert "has no open request" in run("answer", "ann", "allow").stderr


def test_questions_are_answered_by_their_value(done, run):
    done("spawn", "-n", "ann", "question")
    assert "colour: red, blue" in done("inbox")
    assert "not one of: red, blue" in run("answer", "ann", "green").stderr
    done("answer", "ann", "blue")
    assert "accept: {'colour': 'blue'}" in done("logs", "ann")


def test_agents_are_steered(done, run):
    done("spawn", "-n", "ann", "work")
    done("interrupt", "ann", "--drop-queue")
    assert run("wait", "ann").stdout == "ann interrupted\n"
    done("send", "ann", "say more")
    assert run("wait", "ann", "--timeout", "10").returncode == 0
    done("rename", "ann", "bob")
    assert done("fork", "bob", "-n", "cid", "say copied") == "cid\n"
    done("close", "bob")
    assert "quarterdeck resume bob" in run("send", "--no-resume", "bob", "hello").stderr
    assert done("resume", "bob", "say back") == "bob\n"
    done("kill", "bob", "--reason", "enough")
    assert run("wait", "bob", "cid").returncode == 5
    done("archive", "bob")
    assert [line.split()[0] for line in done("ps").splitlines()[1:]] == ["cid"]
    assert len(done("ps", "--all").splitlines()) == 3
    assert len(done("sessions").splitlines()) == 3
    assert json.loads(done("archive", "bob", "--undo", "--json"))["agents"][0]["name"] == "bob"


def test_a_message_steers_the_running_turn(done, run):
    done("spawn", "-n", "ann", "work")
    assert done("send", "ann", "--steer", "rather blue") == ""
    assert json.loads(done("send", "ann", "--steer", "greener", "--json"))["steered"] is True
    assert "rather blue" in done("logs", "ann")
    done("interrupt", "ann")
    late = run("send", "ann", "--steer", "say more")
    assert (late.returncode, "queued as a prompt" in late.stderr) == (0, True)
    done("spawn", "-n", "bob", "-a", "aider", "work")
    no = run("send", "bob", "--steer", "hello")
    assert no.returncode == 1 and "aider over pty cannot be steered" in no.stderr


def test_work_is_handed_over(done, run):
    done("spawn", "-a", "claude", "-n", "ann", "say hello")
    done("wait", "ann")
    shown = done("hand-over", "ann", "--show")
    assert "| The first prompt:\n| the goal of ann" in shown and "(claude, called 'ann')" in shown
    assert json.loads(done("hand-over", "ann", "--show", "--json"))["goal"] == "the goal of ann"
    assert done("hand-over", "ann", "--to", "codex", "-n", "bob", "say more") == "bob\n"
    states = {one["name"]: one["state"] for one in json.loads(done("ps", "--json"))["agents"]}
    assert states["ann"] == "done" and "bob" in states
    wrong = run("hand-over", "bob")
    assert wrong.returncode == 2 and "--to NAME is needed" in wrong.stderr
    wrong = run("hand-over", "none", "--to", "codex")
    assert wrong.returncode == 1 and "there is no agent 'none'" in wrong.stderr


def test_the_host_tells_about_itself_and_stops(run, host: subprocess.Popen[bytes]):
    told = run("host", "status")
    assert (told.returncode, f"process   {host.pid}" in told.stdout) == (0, True)
    assert json.loads(run("host", "status", "--json").stdout)["clients"] == 1
    assert run("host", "start").stdout == f"The host runs: process {host.pid}\n"
    assert run("host", "stop").stdout == "The host has ended.\n"
    assert host.wait(SOON) == 0
    assert run("host", "stop").returncode == 3
    none = run("host", "status", "--json")
    assert (none.returncode, json.loads(none.stdout)) == (3, {"running": False})
    assert "no host is running" in run("host", "status").stderr


def test_a_pipe_is_sent_line_by_line(environ, work: Path, done):
    done("spawn", "-n", "ann")
    said = subprocess.run(
        [str(SCRIPT), "attach", "ann", "-n", "0"],
        input="say one\nask\nallow\nsay two\n",
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (said.returncode, said.stderr) == (0, "")
    assert "> say one\none\n" in said.stdout
    assert "? needs permission: ls /" in said.stdout
    assert "You said Allow." in said.stdout
    assert said.stdout.endswith("two\n")


def test_attach_says_who_asks_for_the_same_and_answers_all_or_one(environ, work: Path, done):
    for name in ("ann", "bob", "cleo"):
        done("spawn", "-n", name, "ask")

    def attached(name: str, lines: str) -> list[str]:
        said = subprocess.run(
            [str(SCRIPT), "attach", name, "-n", "0"],
            input=lines, cwd=work, env=environ, capture_output=True, text=True, timeout=50,
        )  # fmt: skip
        assert (said.returncode, said.stderr) == (0, "")
        return said.stdout.splitlines()

    alone = attached("ann", "n\n/group\n/all y\n")
    (at,) = [at for at, line in enumerate(alone) if line.startswith("  3 agents want ls / (")]
    assert alone[at].endswith("; /all y allows all, y this one only")
    assert alone[at + 1 : at + 4] == ["    ann", "    bob", "    cleo"]
    assert alone[-1] == "! no request is open"
    assert done("inbox").startswith("2 agents want ls /")
    both = attached("bob", "/group\n/all\n/all y\n")
    assert "  2 agents want ls /  (reaches outside the workspace)" in both
    assert "! /all needs an answer, such as /all y" in both
    assert "= 2 answered: bob, cleo" in both
    assert done("inbox") == "No open requests.\n"


def test_a_program_attaches_by_lines(environ, work: Path, done):
    done("spawn", "-n", "ann")
    said = subprocess.run(
        [str(SCRIPT), "attach", "ann", "--json", "-n", "0"],
        input="ask\n3\n",
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert said.returncode == 0
    types = [json.loads(line)["event"]["type"] for line in said.stdout.splitlines()]
    assert types[-3:] == ["tool_call_ended", "message_chunk", "turn_ended"]
    assert "[3] Deny" in said.stderr


class Screen:
    """A command in a terminal of its own."""

    def __init__(self, environ: dict[str, str], *arguments: str) -> None:
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execve(SCRIPT, [str(SCRIPT), *arguments], environ)
        self.seen = ""

    def until(self, text: str) -> None:
        deadline = time.monotonic() + SOON
        while text not in self.seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not come: {self.seen!r}"
            if select.select([self.fd], [], [], left)[0]:
                self.seen += os.read(self.fd, 65_536).decode().replace("\r\n", "\n")

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def code(self) -> int:
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        raise AssertionError(f"it did not end: {self.seen!r}")


def test_a_person_talks_answers_interrupts_and_leaves(environ, done):
    done("spawn", "-n", "ann", "ask")
    screen = Screen(environ, "attach", "ann")
    screen.until("[3] Deny (reject_once)")
    screen.type("what?\n")
    screen.until("'what?' is not a valid answer")
    screen.type("1\n")
    screen.until("You said Allow.")
    screen.type("say hello there\n")
    screen.until("\nhello there\n")
    screen.type("question\n")
    screen.until("colour: red, blue")
    screen.type("red\n")
    screen.until("accept: {'colour': 'red'}")
    screen.type("work\n")
    screen.until("> work\n")
    screen.type("\x03")
    screen.until("turn ended: cancelled")
    screen.type("\x03")
    assert screen.code() == 0
    assert "\a" in screen.seen
    assert "stopped" in done("ps")


def test_leaving_a_terminal_ends_nothing(environ, done):
    done("spawn", "-n", "ann", "work")
    screen = Screen(environ, "attach", "ann")
    screen.until("> work")
    screen.type("\x04")
    assert screen.code() == 0
    screen = Screen(environ, "attach", "ann", "--answer-only")
    screen.until("/help")
    screen.type("hello\n")
    screen.until("no request is open")
    os.kill(screen.pid, signal.SIGKILL)
    assert screen.code() == -signal.SIGKILL
    assert "running" in done("ps")


def test_a_reader_that_leaves_early_is_no_error(environ, done):
    done("spawn", "-n", "ann", "big 500000")
    for arguments in ("logs ann", "logs ann --json", "logs ann -f", "ps --json"):
        line = f"{SCRIPT} {arguments} | head -c 10; exit ${{PIPESTATUS[0]}}"
        left = subprocess.run(
            ["bash", "-c", line], env=environ, capture_output=True, text=True, timeout=50
        )
        assert (left.returncode in (0, 141), left.stderr) == (True, "")


def test_logs_follow_until_they_are_left(environ, done):
    done("spawn", "-n", "ann")
    screen = Screen(environ, "logs", "-f", "ann")
    screen.until("started in")
    done("send", "ann", "say news")
    screen.until("\nnews")
    screen.type("\x03")
    assert screen.code() == 130
