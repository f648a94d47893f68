"""``quarterdeck --plain``: the fleet in lines, on a dumb terminal and through a pipe."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from quarterdeck.cli.fleet.inbox import UnclearAnswerError, choose_option
from quarterdeck.wire.permissions import PermissionOption
from tests.cli.test_fleet_commands import SCRIPT, Screen, done, host

__all__ = ["done", "host"]


def piped(environ: dict[str, str], work: Path, lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), "--plain"],
        input=lines,
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_a_script_lists_follows_sends_and_answers(environ, work: Path, done):
    done("spawn", "-n", "ann", "-a", "claude", "say hello\x1b[2J")
    said = piped(environ, work, "/follow 1\nsay one\nask\ny\nsay two\n/agents\n")
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[0] == "= Quarterdeck, plain mode; /help lists commands"
    assert lines[1].startswith("1. ann, claude, idle")
    assert "= following ann (claude, idle)" in lines
    assert "hello\\x1b[2J" in lines
    for one in ("> say one", "one", "? needs permission: ls /\\x1b[31m\\u202e", "two"):
        assert lines.count(one) == 1, (one, lines)
    assert "You said Allow." in lines
    assert "\x1b" not in said.stdout
    assert "\r" not in said.stdout


def test_the_exit_code_tells_how_the_followed_agent_stands(environ, work: Path, done):
    done("spawn", "-n", "ann")
    asks = piped(environ, work, "/follow ann\nask\n")
    assert asks.returncode == 4
    assert "    [3] Deny (reject_once)" in asks.stdout.splitlines()
    assert piped(environ, work, "/inbox\n/answer ann n\n").returncode == 0
    assert piped(environ, work, "").returncode == 0
    done("kill", "ann")
    assert piped(environ, work, "/follow ann\n").returncode == 5


def test_the_same_requests_of_several_agents_are_one_group(environ, work: Path, done):
    for name in ("ann", "bob", "cleo"):
        done("spawn", "-n", name, "ask")
    said = piped(environ, work, "/inbox\n/answer bob n\n/all cleo y\n/inbox\n/all cleo y\n/all\n")
    lines = said.stdout.splitlines()
    assert lines.count("? these agents need you; /all ann y allows all") == 2
    assert said.stdout.count("\n  3 agents want ls /") == 2
    assert said.stdout.count("[1] Allow") == 2, "the request itself once for the group"
    assert "= 2 answered: cleo, ann" in lines
    answers = [line for line in lines if line[:2] in ("= ", "! ")]
    assert answers[-3:] == [
        "= nothing needs you",
        "! 'cleo' has no open request",
        "! /all needs an agent and an answer, such as /all docs y",
    ]
    for name, words in {"ann": "Allow", "bob": "Deny", "cleo": "Allow"}.items():
        assert f"You said {words}." in done("logs", name)


def test_what_was_not_shown_is_not_answered_with_the_others(environ, work: Path, done):
    done("spawn", "-n", "ann", "ask")
    screen = Screen({**environ, "TERM": "dumb"}, "--plain")
    screen.until("[3] Deny")
    done("spawn", "-n", "bob", "ask")
    screen.until("* 2 agents want ls /; /inbox shows them, /all bob y allows all")
    screen.type("/all ann y\n")
    screen.until("! one of these was not shown before; /all again answers all of them")
    assert "  2 agents want ls /" in screen.seen
    assert done("inbox").count("req_") == 2
    screen.type("/all ann perhaps\n")
    screen.until("! 'perhaps' is not a valid answer")
    screen.type("/all ann y\n")
    screen.until("= 2 answered: ann, bob")
    assert done("inbox") == "No open requests.\n"
    screen.type("/quit\n")
    assert screen.code() == 0


def test_the_followed_agent_says_who_else_asks(environ, work: Path, done):
    done("spawn", "-n", "ann", "ask")
    done("spawn", "-n", "bob", "ask")
    done("spawn", "-n", "cleo", "question")
    said = piped(environ, work, "/follow bob\n/all n\n/all n\n/follow cleo\n/all blue\n")
    lines = said.stdout.splitlines()
    assert (
        "  2 agents want ls / (reaches outside the workspace); /all y allows all, y this one only"
        in lines
    )
    assert "= 2 answered: bob, ann" in lines
    assert "! no request is open" in lines
    assert lines[-1] == "! a question is answered by itself, without /all"


def test_what_is_wrong_is_said_and_ends_nothing(environ, work: Path, done):
    said = piped(
        environ,
        work,
        "hello\n/follow none\n/answer x\n/send\n/new\n/help\n/unknown\n\n/quit\n/help\n",
    )
    assert said.returncode == 0
    errors = [line for line in said.stdout.splitlines() if line.startswith("! ")]
    assert len(errors) == 6
    assert "no agent is followed" in errors[0]
    assert "no agent 'none'" in errors[1]
    assert said.stdout.count("/follow NAME        follow an agent") == 1
    assert "= no agents; /new PROMPT starts one" in said.stdout


def test_agents_are_started_and_commands_run(environ, work: Path, done):
    said = piped(environ, work, "/new claude: say hello\n!echo $((6*7)); exit 3\n/quit\n")
    lines = said.stdout.splitlines()
    assert "= following claude (claude, idle)" in [
        line.replace("starting", "idle") for line in lines
    ]
    assert "hello" in lines
    assert lines[-3:] == ["$ echo $((6*7)); exit 3", "| 42", "= exit 3"]


def test_a_person_hears_of_other_agents_and_leaves_with_ctrl_c(environ, done):
    done("spawn", "-n", "ann")
    done("spawn", "-n", "bob")
    screen = Screen({**environ, "TERM": "dumb"}, "--plain")
    screen.until("2. ")
    screen.type("/follow ann\n")
    screen.until("= following ann")
    done("send", "bob", "ask")
    screen.until("* bob needs you: bash: ls /")
    screen.type("/answer bob y\n")
    screen.until("* bob is done")
    screen.type("work\n")
    screen.until("> work\n")
    screen.type("\x03")
    screen.until("turn ended: cancelled")
    screen.type("\x03")
    assert screen.code() == 0
    assert "\x1b" not in screen.seen
    assert "stopped" in done("ps")


def test_the_end_of_input_leaves_and_agents_go_on(environ, done):
    done("spawn", "-n", "ann", "work")
    screen = Screen({**environ, "TERM": "dumb"}, "--plain")
    screen.until("1. ann")
    screen.type("\x04")
    assert screen.code() == 0
    screen = Screen(environ, "--plain")
    screen.until("1. ann")
    os.kill(screen.pid, signal.SIGKILL)
    assert screen.code() == -signal.SIGKILL
    assert "running" in done("ps")


def test_scopes_are_chosen_by_the_keys_of_the_workbench():
    def option(id_: str, scope: str, kind: str = "allow_always") -> PermissionOption:
        meta = {"quarterdeck": {"effect": "allow", "scope": scope, "rule": "bash(ls)"}}
        return PermissionOption(option_id=id_, name=id_, kind=kind, meta=meta)

    options = (option("a", "once", "allow_once"), option("b", "session"), option("c", "project"))
    assert [choose_option(options, word) for word in ("y", "s", "p", "session", "2")] == [
        "a", "b", "c", "b", "b",
    ]  # fmt: skip
    with pytest.raises(UnclearAnswerError):
        choose_option(options[:1], "s")


def test_it_stands_alone_and_helps(run):
    wrong = run("--plain", "ps")
    assert wrong.returncode == 2
    assert "--plain stands alone" in wrong.stderr
    assert "--plain" in run("--help").stdout
