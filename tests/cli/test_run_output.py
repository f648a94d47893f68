"""What ``quarterdeck run`` writes where: readers that leave, terminals, refusals, empty turns."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.processes import is_running

SCRIPT = Path(sys.executable).with_name("quarterdeck")
HOSTILE = "a\x1b[2J\x1b]52;c;aGk=\x07b\x9b1mc\rd\u202ee"
SHOWN = "a\\x1b[2J\\x1b]52;c;aGk=\\x07b\\x9b1mc\\rd\\u202ee"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


@pytest.fixture
def environment(home: Path, tmp_path: Path) -> dict[str, str]:
    """A home with a fake agent, one that starts slowly, and a script for our own."""
    agents = home / "quarterdeck" / "agents"
    agents.mkdir(parents=True)
    command = [sys.executable, "-m", "quarterdeck.testing.acp_agent"]
    slow = ["sh", "-c", f"echo $$ > {tmp_path}/slow.pid; sleep 600; true"]
    for name, words in (("fake", command), ("slow", slow)):
        (agents / f"{name}.toml").write_text(
            f'title = "{name}"\n[transports.acp]\ncommand = {json.dumps(words)}\n'
        )
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "quarterdeck"),
        "LANG": "C.UTF-8",
    }


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """What our own agent's model says."""
    path = tmp_path / "script.toml"
    path.write_text(
        f"""
default = "odd"
[scenes]
odd = [{json.dumps(HOSTILE)}]
[[scenes.empty.replies]]
parts = []
[[scenes.thinks.replies]]
parts = [{{ thinking = "hm" }}]
[[scenes.long.replies]]
parts = [{{ text = "line {{{{n}}}}\\n", repeat = 600, pause = 0.1 }}]
[[scenes.command.replies]]
parts = [{{ tool = "shell", arguments = {{ command = "pytest -q" }} }}]
[[scenes.command.replies]]
parts = [{{ text = "could not" }}]
[[scenes.after.replies]]
parts = [{{ tool = "read", arguments = {{ path = "nothing" }} }}]
[[scenes.after.replies]]
parts = []
"""
    )
    return path


@pytest.fixture
def native(script: Path) -> list[str]:
    return ["-m", f"scripted/{script}"]


@pytest.fixture
def run(project: Path, environment: dict[str, str]):
    def run(*arguments: str, **changes: str):
        return subprocess.run(
            [SCRIPT, "run", "-C", project, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment | changes,
            timeout=60,
        )

    return run


def crash_files(environment: dict[str, str]) -> list[Path]:
    return list(Path(environment["QUARTERDECK_HOME"]).rglob("crash-*.log"))


# Readers that leave


def test_a_reader_that_leaves_ends_a_running_turn_quietly(
    project: Path, environment: dict[str, str], native: list[str]
):
    for who, prompt in ((native, "scene:long"), (["-a", "fake"], "stream 3\nwait 600")):
        process = subprocess.Popen(
            [SCRIPT, "run", "-C", project, *who, "--format", "stream-json", prompt],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        if who != native:  # it says nothing more by itself: the person has it write
            process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        code = process.wait(40)
        process.stderr.close()
        assert errors == b""
        assert code == 141
    assert crash_files(environment) == []


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
@pytest.mark.parametrize("agent", ["native", "fake"])
def test_a_closed_pipe_is_quiet_in_every_form(
    project: Path, environment: dict[str, str], native: list[str], form: str, agent: str
):
    who = native if agent == "native" else ["-a", agent]
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [SCRIPT, "run", "-C", project, *who, "--format", form, "hi"],
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
    assert crash_files(environment) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_full_disk_is_told_in_every_form(
    project: Path, environment: dict[str, str], native: list[str], form: str
):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [SCRIPT, "run", "-C", project, *native, "--format", form, "hi"],
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
        )
    assert done.returncode == 1
    assert b"quarterdeck: cannot write the output: No space left" in done.stderr
    assert b"unexpected" not in done.stderr
    assert crash_files(environment) == []


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_closed_descriptors_are_no_error(
    project: Path, environment: dict[str, str], native: list[str], closed: str, form: str
):
    words = [str(SCRIPT), "run", "-C", str(project), *native, "--format", form, "hi"]
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$@" {closed}', "sh", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert b"rror" not in done.stderr
    assert crash_files(environment) == []


def test_a_reader_of_notices_that_leaves_costs_only_the_notices(
    project: Path, environment: dict[str, str]
):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [SCRIPT, "run", "-C", project, "-a", "fake", "tool look\necho done"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=write,
            env=environment,
            timeout=60,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stdout) == (0, b"done\n")


@pytest.mark.parametrize(
    "arguments",
    [["ps"], ["sessions"], ["search", "hi"], ["journal", "export", "--all"], ["agents"]],
)
def test_other_commands_are_as_quiet(environment: dict[str, str], arguments: list[str]):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [SCRIPT, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=write,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=60,
        )
    finally:
        os.close(write)
        subprocess.run([SCRIPT, "host", "stop"], env=environment, capture_output=True, timeout=60)
    assert b"BrokenPipe" not in done.stderr and b"unexpected" not in done.stderr
    assert crash_files(environment) == []


# Terminals


def on_terminal(words: list[str], environment: dict[str, str], *, errors_too: bool = True):
    """Run with standard output (and error) on a terminal; what it wrote, and the exit code."""
    main, child = pty.openpty()
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=child,
        stderr=child if errors_too else subprocess.DEVNULL,
        env=environment | {"TERM": "xterm"},
    )
    os.close(child)
    data = b""
    try:
        while select.select([main], [], [], 40)[0]:
            try:
                chunk = os.read(main, 65536)
            except OSError:  # Linux says EIO where others say end of file.
                break
            if not chunk:
                break
            data += chunk
    finally:
        os.close(main)
    return data.decode(), process.wait(30)


def test_a_terminal_gets_no_control_sequences(
    project: Path, environment: dict[str, str], native: list[str]
):
    words = [str(SCRIPT), "run", "-C", str(project), *native, "hi"]
    shown, code = on_terminal(words, environment)
    assert (shown, code) == (SHOWN + "\r\n", 0)


def test_a_pipe_gets_the_answer_as_it_is(
    project: Path, environment: dict[str, str], native: list[str]
):
    words = [SCRIPT, "run", "-C", project, *native, "hi"]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, timeout=60
    )
    assert (done.stdout, done.returncode) == ((HOSTILE + "\n").encode(), 0)


def test_a_terminal_gets_notices_and_errors_of_agents_as_text(
    project: Path, environment: dict[str, str]
):
    words = [str(SCRIPT), "run", "-C", str(project), "-a", "fake"]
    for prompt in (f"tool {HOSTILE}\necho done", f"notice {HOSTILE}\necho x", f"error 1 {HOSTILE}"):
        shown, _ = on_terminal([*words, prompt.replace("\r", "")], environment)
        assert "\x1b" not in shown and "\x9b" not in shown and "\u202e" not in shown
        assert "\x07" not in shown
        assert "\\x1b" in shown


def test_no_command_lets_foreign_text_act_on_a_terminal(project: Path, environment: dict[str, str]):
    """What an agent said, asked and was called; the title of an agent's file."""
    agents = Path(environment["QUARTERDECK_HOME"]) / "agents"
    odd = json.dumps("odd \x1b]0;x\x07 \u202e")
    (agents / "odd.toml").write_text(f'title = {odd}\n[transports.acp]\ncommand = ["no"]\n')
    said = HOSTILE.replace("\r", "")
    spawn = [SCRIPT, "spawn", "-a", "fake", "-n", "hostile", "-C", project, "--wait"]
    try:
        subprocess.run(
            [*spawn, f"echo {said}\ntool {said}\nask {said}"],
            env=environment,
            capture_output=True,
            timeout=60,
        )
        for arguments in (
            ["logs", "hostile"],
            ["logs", "hostile", "--json"],
            ["attach", "hostile"],
            ["ps"],
            ["inbox"],
            ["sessions"],
            ["search", "c"],
            ["journal", "export"],
            ["journal", "search", "a*"],
            ["agents"],
            ["agents", "odd"],
            ["agents", "--json"],
            ["doctor"],
        ):
            shown, _ = on_terminal([str(SCRIPT), *arguments], environment)
            assert not set("\x1b\x07\x9b\u202e") & set(shown), arguments
    finally:
        subprocess.run([SCRIPT, "host", "stop"], env=environment, capture_output=True, timeout=60)


# Nobody to ask


def test_what_was_refused_and_what_would_allow_it_is_told(run, native: list[str]):
    for who, prompt in ((native, "scene:command"), (["-a", "fake"], "ask pytest -q")):
        for form in (["-q"], ["--format", "json"], ["--format", "stream-json"]):
            done = run(*who, *form, prompt)
            assert done.returncode == 4, done.stderr
            assert "pytest -q" in done.stderr
            assert "--allow 'bash(pytest" in done.stderr


def test_the_rule_that_is_told_does_allow_it(run):
    first = run("-a", "fake", "ask make things")
    rule = first.stderr.partition("--allow '")[2].partition("'")[0]
    assert rule
    again = run("-a", "fake", "--allow", rule, "ask make things")
    assert again.returncode == 0, again.stderr


def test_json_has_what_was_refused(run):
    told = json.loads(run("-a", "fake", "--format", "json", "ask make things").stdout)
    assert told["refused"] == 1
    (refused,) = told["refusals"]
    assert refused["title"] == "make things"
    assert refused["allow"][0].startswith("bash(make")


def test_an_agent_that_ends_its_turn_at_a_refusal_is_exit_code_4_too(run):
    for stop in ("cancelled", "refusal"):
        done = run("-a", "fake", f"ask make things\nstop {stop}")
        assert done.returncode == 4, done.stderr


# Turns of nothing


def test_a_turn_of_nothing_is_no_success(run, native: list[str]):
    for who, prompt in (
        (native, "scene:empty"),
        (native, "scene:thinks"),
        (["-a", "fake"], "think hm"),
        (["-a", "fake"], "plan a,b"),
    ):
        done = run(*who, prompt)
        assert (done.returncode, done.stdout) == (1, ""), (prompt, done.stderr)
        assert "no message and no tool call" in done.stderr


def test_work_without_words_is_success(run, native: list[str]):
    for who, prompt in ((native, "scene:after"), (["-a", "fake"], "tool look")):
        done = run(*who, prompt)
        assert done.returncode == 0, done.stderr


# Interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_the_agent_starts_is_like_one_in_a_turn(
    project: Path, environment: dict[str, str], tmp_path: Path, number: signal.Signals
):
    process = subprocess.Popen(
        [SCRIPT, "run", "-C", project, "-a", "slow", "hi"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    pid = tmp_path / "slow.pid"
    for _ in range(600):
        if pid.exists() and pid.read_text().strip():
            break
        time.sleep(0.05)
    process.send_signal(number)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 5, errors
    assert output == b"" and b"Traceback" not in errors
    assert not is_running(int(pid.read_text()))
