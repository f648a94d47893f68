"""``quarterdeck run`` as a script sees it: output, exit codes, sessions, Ctrl-C."""

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
    (project / "notes.md").write_text("hello\n")
    return project


def environment(home: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "quarterdeck"),
        "LANG": "C.UTF-8",
        **more,
    }


def run(home: Path, project: Path, *arguments: str, stdin: str = "", **more: str):
    return subprocess.run(
        [SCRIPT, "run", "-m", "scripted/default", "-C", project, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(home, **more),
        timeout=60,
    )


def test_text_holds_the_answer_alone(home: Path, project: Path):
    done = run(home, project, "scene:text")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "·" not in done.stdout


def test_the_prompt_may_come_from_standard_input(home: Path, project: Path):
    assert run(home, project, stdin="scene:text").stdout == run(home, project, "scene:text").stdout


def test_no_prompt_is_a_usage_error(home: Path, project: Path):
    done = run(home, project)
    assert done.returncode == 2
    assert "no prompt" in done.stderr


def test_json_is_one_object(home: Path, project: Path):
    done = run(home, project, "--format", "json", "scene:text")
    answer = json.loads(done.stdout)
    assert answer["stop"] == "end_turn"
    assert answer["session"].startswith("ses_")
    assert answer["usage"]["output"] > 0


def test_stream_json_is_the_turn_in_order(home: Path, project: Path):
    done = run(home, project, "--format", "stream-json", "scene:text")
    records = [decode_record(line.encode()) for line in done.stdout.splitlines()]
    types = [json.loads(line)["event"]["type"] for line in done.stdout.splitlines()]
    assert [record.seq for record in records] == sorted(record.seq for record in records)
    order = ["prompted", "turn_started", "model_call_started", "message_chunk"]
    assert [types.index(name) for name in order] == sorted(types.index(name) for name in order)
    assert types[-1] == "turn_ended"
    assert types.count("turn_ended") == types.count("turn_started") == 1


def test_an_edit_that_is_allowed_happens(home: Path, project: Path):
    done = run(home, project, "--mode", "accept-edits", "--format", "json", "scene:write")
    assert done.returncode == 0, done.stderr
    assert len(list(project.iterdir())) > 1


def test_nobody_to_ask_is_a_refusal_and_an_exit_code(home: Path, project: Path):
    done = run(home, project, "--format", "json", "scene:write")
    assert done.returncode == 4, done.stderr
    assert [path.name for path in project.iterdir()] == ["notes.md"]
    assert json.loads(done.stdout)["refused"] == 1


def test_a_denied_call_is_told_to_the_model_and_is_no_failure(home: Path, project: Path):
    done = run(home, project, "--mode", "accept-edits", "--deny", "edit", "scene:write")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in project.iterdir()] == ["notes.md"]


@pytest.mark.parametrize(("scene", "code"), [("e401", 1), ("e400", 1), ("refuse", 3), ("cut", 2)])
def test_how_it_ended_is_the_exit_code(home: Path, project: Path, scene: str, code: int):
    done = run(home, project, f"scene:{scene}")
    assert done.returncode == code, done.stderr


def test_the_limit_of_calls_is_its_own_exit_code(home: Path, project: Path):
    done = run(home, project, "--max-calls", "2", "--mode", "accept-edits", "scene:many")
    assert done.returncode == 7, done.stderr
    assert "2 model calls" in done.stderr


def test_continue_goes_on_with_the_latest_session(home: Path, project: Path):
    first = json.loads(run(home, project, "--format", "json", "scene:text").stdout)
    again = json.loads(run(home, project, "-c", "--format", "json", "scene:text").stdout)
    assert again["session"] == first["session"]
    forked = run(home, project, "-c", "--fork", "--format", "json", "scene:text")
    assert json.loads(forked.stdout)["session"] != first["session"]


def test_a_session_that_is_not_there_is_named(home: Path, project: Path):
    for wrong in ("ses_nope", "../../etc/passwd", "ses_" + "0" * 26):
        done = run(home, project, "--resume", wrong, "scene:text")
        assert done.returncode == 1
        assert wrong in done.stderr
        assert "Traceback" not in done.stderr


def test_no_model_says_how_to_get_one(home: Path, project: Path):
    done = subprocess.run(
        [SCRIPT, "run", "-C", project, "hi"],
        capture_output=True,
        text=True,
        env=environment(home),
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert "--model" in done.stderr


def test_ctrl_c_cancels_the_turn(home: Path, project: Path):
    child = subprocess.Popen(
        [
            SCRIPT,
            "run",
            "-m",
            "scripted/default",
            "-C",
            project,
            "--format=stream-json",
            "scene:stall",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home),
    )
    assert child.stdout is not None
    for line in child.stdout:
        if b"model_call_started" in line:
            break
    child.send_signal(signal.SIGINT)
    begin = time.monotonic()
    output, errors = child.communicate(timeout=50)
    assert child.returncode == 5, errors
    assert b'"stop":"cancelled"' in output
    assert time.monotonic() - begin < 10


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}


def test_an_answer_must_fit_its_schema(home: Path, project: Path, tmp_path: Path):
    schema = tmp_path / "person.json"
    schema.write_text(json.dumps(SCHEMA))
    done = run(home, project, "--output-schema", str(schema), "scene:text")
    assert done.returncode == 1
    assert "person.json" in done.stderr
