"""``quarterdeck run -a AGENT``: the same formats, flags and exit codes as for our own agent."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quarterdeck.wire.record import decode_record

SCRIPT = Path(sys.executable).with_name("quarterdeck")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture
def environment(home: Path, tmp_path: Path) -> dict[str, str]:
    """A home in which the fake agent is one of the user's own."""
    agents = home / "quarterdeck" / "agents"
    agents.mkdir(parents=True)
    state = tmp_path / "state"
    command = [sys.executable, "-m", "quarterdeck.testing.acp_agent", "--state", str(state)]
    (agents / "fake.toml").write_text(
        f'title = "Fake"\ninstall = "it ships"\n[transports.acp]\ncommand = {json.dumps(command)}\n'
    )
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "quarterdeck"),
        "LANG": "C.UTF-8",
    }


@pytest.fixture
def run(project: Path, environment: dict[str, str]):
    def run(*arguments: str, agent: str = "fake"):
        return subprocess.run(
            [SCRIPT, "run", "-a", agent, "-C", project, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
        )

    return run


def test_text_holds_the_answer_alone(run):
    done = run("echo hello")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr


def test_the_answer_is_what_came_after_the_last_tool_call(run):
    assert run("echo before\ntool look\necho after").stdout == "after\n"


def test_json_is_one_object(run):
    answer = json.loads(run("--format", "json", "echo hello").stdout)
    assert (answer["stop"], answer["text"]) == ("end_turn", "hello")
    assert answer["session"].startswith("ses_")


def test_stream_json_is_every_event_in_order(run):
    lines = run("--format", "stream-json", "echo hello").stdout.splitlines()
    records = [decode_record(line.encode()) for line in lines]
    types = [json.loads(line)["event"]["type"] for line in lines]
    assert types[-1] == "turn_ended" and "prompted" in types and "message_chunk" in types
    assert [record.seq for record in records] == sorted(record.seq for record in records)


def test_a_call_that_nobody_could_allow_is_exit_code_4(run):
    done = run("--format", "json", "ask make things")
    assert done.returncode == 4, done.stderr
    assert json.loads(done.stdout)["refused"] == 1


def test_what_was_done_without_leave_is_exit_code_8(run, project: Path):
    done = run("--format", "json", f"sneak {project}/a.txt hello")
    assert done.returncode == 8, done.stderr
    assert json.loads(done.stdout)["violations"] == 1
    assert "without permission" in run(f"sneak {project}/b.txt hello").stderr
    assert run("--mode", "accept-edits", f"sneak {project}/c.txt hello").returncode == 0


def test_a_rule_that_cannot_be_held_is_an_error_that_names_it(run):
    done = run("--deny", "read(.env)", "echo hello")
    assert done.returncode == 1 and "read(.env)" in done.stderr and "unheld" in done.stderr


def test_a_file_is_written_through_us_only_by_leave(run, project: Path):
    assert run(f"write {project}/a.txt hello").returncode != 0
    assert not (project / "a.txt").exists()
    assert run("--allow", "edit(a.txt)", f"write {project}/a.txt hello").returncode == 0
    assert (project / "a.txt").read_text() == "hello"


def test_a_rule_on_the_command_line_allows_it(run):
    done = run("--allow", "bash(make:*)", "ask make things")
    assert done.returncode == 0 and "yes" in done.stdout


def test_a_rule_on_the_command_line_denies_it(run):
    done = run("--deny", "bash(make:*)", "ask make things")
    assert "permission: no" in done.stdout


def test_an_agent_that_dies_is_exit_code_1(run):
    done = run("crash 3")
    assert done.returncode == 1 and "3" in done.stderr


def test_a_refusal_has_its_code(run):
    assert run("stop refusal").returncode == 3


def test_it_goes_on_with_the_latest_session_and_by_id(run):
    first = json.loads(run("--format", "json", "echo one").stdout)["session"]
    second = run("-c", "--format", "json", "history")
    answer = json.loads(second.stdout)
    assert answer["session"] == first and "echo one" in answer["text"]
    third = run("--resume", first, "history")
    assert "history" in third.stdout


def test_a_fork_leaves_the_session_as_it_is(run):
    first = json.loads(run("--format", "json", "echo one").stdout)["session"]
    fork = json.loads(run("--resume", first, "--fork", "--format", "json", "history").stdout)
    assert fork["session"] != first and "echo one" in fork["text"]


def test_our_own_agent_does_not_take_over_a_session_of_another(run, project, environment):
    first = json.loads(run("--format", "json", "echo one").stdout)["session"]
    done = subprocess.run(
        [SCRIPT, "run", "-m", "scripted/default", "-C", project, "--resume", first, "hi"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 1 and "-a fake" in done.stderr


def test_a_time_limit_ends_the_turn(run):
    done = run("--max-seconds", "0.5", "wait 600")
    assert done.returncode == 7, done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-a", "nobody", "hi"], "there is no agent 'nobody'"),
        (["-a", "fake", "--transport", "pty", "hi"], "pty"),
        (["-a", "fake", "--tool", "read", "hi"], "the option 'tools'"),
        (["-a", "fake", "--effort", "high", "hi"], "the option 'effort'"),
        (["-a", "fake", "--max-cost", "1", "hi"], "the option 'limits.cost'"),
        (["-a", "fake", "--goal", "done"], "--goal"),
        (["-a", "fake", "--agent-mode", "yolo", "hi"], "yolo"),
        (["-a", "fake", "-m", "gpt-0", "hi"], "gpt-0"),
        (["-a", "fake", "--resume", "ses_none", "hi"], "ses_none"),
        (["--transport", "acp", "hi"], "-a NAME"),
    ],
)
def test_what_cannot_be_is_refused_by_name(
    project: Path, environment: dict[str, str], arguments: list[str], told: str
):
    done = subprocess.run(
        [SCRIPT, "run", "-C", project, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode in (1, 2) and told in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_program_says_how_to_get_it(run):
    done = run("hi", agent="goose")
    assert done.returncode == 1 and "npm install" in done.stderr and "Traceback" not in done.stderr


def test_ctrl_c_cancels_the_turn(project: Path, environment: dict[str, str]):
    process = subprocess.Popen(
        [SCRIPT, "run", "-a", "fake", "-C", project, "--format", "stream-json", "wait 600"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if '"message_chunk"' in line:
            break
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    begun = time.monotonic()
    assert process.wait(30) == 5
    assert time.monotonic() - begun < 20
    assert '"stop":"cancelled"' in rest
    process.stdout.close()
