"""``quarterdeck tutorial``: every step for real, in a home of its own, with nothing left behind."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.cli.tutorial.steps import STEPS
from tests.support.real_terminals import PROGRAM, Pty, clean_environment, pty_of

pytestmark = pytest.mark.timeout(180)
LONG = 60.0


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return clean_environment(tmp_path)


def play(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PROGRAM, "tutorial", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
    )


def files_of(environment: dict[str, str]) -> list[str]:
    root = Path(environment["QUARTERDECK_HOME"])
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture
def guide(environment: dict[str, str]) -> Iterator[Pty]:
    with pty_of([PROGRAM, "tutorial"], environment, size=(100, 40)) as terminal:
        yield terminal


def test_all_steps_have_their_effect_and_nothing_is_left(environment: dict[str, str]):
    environment["OPENAI_API_KEY"] = "not for the tutorial"
    done = play(environment, "--yes")
    assert (done.returncode, "everything it made is removed" in done.stdout) == (0, True), done
    for step in STEPS:
        assert f"✓ {step.title}" in done.stdout
    assert "bo landed on main" in done.stdout
    assert "No conflicts." in done.stdout
    assert files_of(environment) == []


def test_without_a_terminal_the_steps_are_printed_and_nothing_is_made(environment: dict[str, str]):
    done = play(environment)
    assert done.returncode == 0
    for step in STEPS:
        assert all(f"    $ {command}\n" in done.stdout for command in step.commands)
    listed = play(environment, "--list").stdout.splitlines()
    assert listed == [f"  {number}  {step.title}" for number, step in enumerate(STEPS, 1)]
    assert not Path(environment["QUARTERDECK_HOME"]).exists()


def test_a_person_runs_commands_quits_and_resumes(environment: dict[str, str], guide: Pty):
    guide.shows("1 of 7", LONG)
    guide.shows('$ quarterdeck spawn -n ann --wait "Add a docstring to greet()"')
    guide.write("\n")
    guide.shows("ann needs you", LONG)
    guide.shows("$ quarterdeck ps")
    guide.write("echo I am in $(basename $PWD), ${OPENAI_API_KEY:-no key}\n")
    guide.shows("I am in harbour, no key", LONG)
    guide.write("\n")
    guide.shows("2 of 7", LONG)
    guide.write("q\n")
    guide.shows("You are at step 2")
    assert guide.ends() == 0
    assert files_of(environment) == ["state/tutorial/lock", "state/tutorial/progress.json"]
    assert play(environment, "--list").stdout.startswith("✓ 1  Start an agent\n  2  Approve")
    with pty_of([PROGRAM, "tutorial"], environment, size=(100, 40)) as again:
        again.shows("2 of 7", LONG)
        again.write("s\n")
        again.shows("✓ Approve its first edit", LONG)
        again.shows("3 of 7", LONG)
        again.write("\x04")
        again.shows("You are at step 3", LONG)
        assert again.ends() == 0
    assert play(environment, "--end").returncode == 0
    assert files_of(environment) == []


@pytest.mark.stress
def test_a_step_that_went_wrong_is_named_and_can_be_started_again(environment: dict[str, str]):
    with pty_of([PROGRAM, "tutorial", "--step", "2"], environment, size=(100, 40)) as guide:
        guide.shows("2 of 7", LONG)
        guide.write("quarterdeck answer ann deny\n")
        guide.shows("$ quarterdeck inbox", LONG)
        guide.write("s\n")
        guide.shows("This step is not done: greeting.py has no docstring", LONG)
        guide.write("a\n")
        seen = len(guide.read())
        guide.shows("Preparing step 1 of 1", LONG)
        guide.shows("2 of 7", LONG)
        guide.write("s\n")
        guide.shows("✓ Approve its first edit", LONG)
        assert len(guide.read()) > seen
        guide.write("q\n")
        assert guide.ends() == 0


def test_two_tutorials_do_not_share_a_project(environment: dict[str, str], guide: Pty):
    guide.shows("1 of 7", LONG)
    second = play(environment, "--yes")
    assert second.returncode == 1
    assert "open in another terminal" in second.stderr
    guide.write("q\n")
    assert guide.ends() == 0


@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_tutorial_leaves_nothing_that_the_end_does_not_remove(
    environment: dict[str, str], guide: Pty, how: signal.Signals
):
    guide.shows("1 of 7", LONG)
    guide.write("\n")
    guide.shows("ann needs you", LONG)
    guide.kill(how)
    assert guide.ends(LONG) == (-9 if how is signal.SIGKILL else 128 + how)
    if how is signal.SIGKILL:
        assert play(environment, "--end").returncode == 0
    assert files_of(environment) == []


@pytest.mark.stress
def test_a_home_with_an_awkward_name_is_no_obstacle(tmp_path: Path):
    home = tmp_path / "a 'home' with ümläuts" / ("long" * 30)
    home.mkdir(parents=True)
    done = play(clean_environment(home), "--yes")
    assert done.returncode == 0, done.stderr
    assert files_of(clean_environment(home)) == []


def test_without_git_it_says_so(environment: dict[str, str], tmp_path: Path):
    done = play(environment | {"PATH": str(tmp_path)}, "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs git" in done.stderr
    assert files_of(environment) == []


def test_every_command_of_a_step_is_one_of_ours_or_git():
    commands = [command for step in STEPS for command in step.commands]
    assert [one for one in commands if not re.match(r"(quarterdeck|git) \w", one)] == []
