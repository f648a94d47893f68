"""``quarterdeck login``."""

import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).with_name("quarterdeck")
FAKE = [sys.executable, "-m", "quarterdeck.testing.acp_agent", "--needs-login"]


@pytest.fixture
def environment(home: Path, tmp_path: Path) -> dict[str, str]:
    agents = home / "quarterdeck" / "agents"
    agents.mkdir(parents=True)
    many = [*FAKE, "--terminal-login", "--more-logins", "--login-file", str(tmp_path / "done")]
    for name, command in (("one", FAKE), ("many", many)):
        (agents / f"{name}.toml").write_text(f"[transports.acp]\ncommand = {json.dumps(command)}\n")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "quarterdeck"),
        "LANG": "C.UTF-8",
        "TERM": "xterm",
    }


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path):
    def run(*arguments: str):
        return subprocess.run(
            [SCRIPT, "login", *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=50,
        )

    return run


def type_in(
    words: list[str], environment: dict[str, str], cwd: Path, typed: bytes
) -> tuple[str, int]:
    """Run on a terminal and type at the first question."""
    main, child = pty.openpty()
    process = subprocess.Popen(
        [str(word) for word in words],
        cwd=cwd,
        stdin=child,
        stdout=child,
        stderr=child,
        env=environment,
        start_new_session=True,
    )
    os.close(child)
    data, is_typed = b"", False
    while select.select([main], [], [], 40)[0]:
        try:
            chunk = os.read(main, 65536)
        except OSError:
            break
        if not chunk:
            break
        data += chunk
        if b"Which" in data and not is_typed:
            is_typed = True
            os.write(main, typed)
    os.close(main)
    return data.decode(), process.wait(30)


def test_the_only_way_is_taken(run):
    done = run("one")
    assert (done.returncode, done.stdout) == (0, "Logged in to one with Pretend to log in.\n")


def test_ways_are_listed_and_must_be_named_where_nobody_can_choose(run):
    listed = run("many", "--list")
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[0] == "pretend  Pretend to log in"
    assert "needs: FAKE_AGENT_KEY" in listed.stdout
    told = json.loads(run("many", "--json").stdout)
    assert [method["id"] for method in told["methods"]][:2] == ["pretend", "type"]
    done = run("many")
    assert done.returncode == 1 and "choose one: pretend, type" in done.stderr
    assert run("many", "--method", "pretend").returncode == 0
    assert run("many", "--method", "charm").returncode == 1


def test_failures_are_told(run):
    done = run("many", "--method", "refused")
    assert done.returncode == 1 and "the account is closed" in done.stderr
    done = run("many", "--method", "type")
    assert done.returncode == 2 and "needs a terminal" in done.stderr
    done = run("nobody")
    assert done.returncode == 1 and "there is no agent 'nobody'" in done.stderr
    assert "Traceback" not in done.stderr


def test_on_a_terminal_the_person_chooses_and_a_program_may_have_it(
    environment: dict[str, str], tmp_path: Path
):
    shown, code = type_in([SCRIPT, "login", "many"], environment, tmp_path, b"2\n")
    assert code == 0, shown
    assert "2. type  Type it" in shown and "Logged in to many with Type it." in shown
    assert (tmp_path / "done").read_text() == "1"
