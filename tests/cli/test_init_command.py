"""``quarterdeck init``: four steps, each of which can be skipped."""

import json
from pathlib import Path

import pytest

from tests.support.real_terminals import PROGRAM, clean_environment, pty_of, soon, stop_host


@pytest.fixture
def project(work: Path) -> Path:
    (work / ".git").mkdir()
    (work / "AGENTS.md").write_text("Be kind.\n")
    return work


@pytest.fixture
def settings(home: Path) -> Path:
    return home / ".config/quarterdeck/config.toml"


def test_without_a_terminal_and_options_nothing_is_changed(run, project: Path, home: Path):
    done = run("init")
    assert (done.returncode, done.stderr) == (0, "")
    assert "no agent and no API key found" in done.stdout
    assert "AGENTS.md is sent to our own agent" in done.stdout
    assert "not trusted" in done.stdout
    assert "mode: ask (default)" in done.stdout
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_keys_are_named_and_never_shown(run, project: Path):
    done = run("init", OPENAI_API_KEY="sk-secret")
    assert "found OPENAI_API_KEY" in done.stdout
    assert "sk-secret" not in done.stdout + done.stderr


def test_options_decide_every_step(run, project: Path, settings: Path, environ: dict[str, str]):
    try:
        done = run(
            *("init", "--trust", "--mode", "accept-edits", "-m", "scripted/default"),
            *("--prompt", "scene:text"),
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert settings.read_text() == 'model = "scripted/default"\nmode = "accept-edits"\n'
        assert run("config", "trust", "--list").stdout == f"{project.resolve()}\n"
        assert done.stdout.splitlines()[-1] == "native-1"
        [agent] = json.loads(run("ps", "--json").stdout)["agents"]
        assert (agent["agent"], agent["cwd"]) == ("native", str(project.resolve()))
    finally:
        stop_host(environ)


def test_a_file_of_settings_keeps_its_form(run, project: Path, settings: Path):
    settings.parent.mkdir(parents=True)
    settings.write_text('# mine\nmode = "plan"  # for now\n\n[host]\nidle_minutes = 3\n')
    assert run("init", "--mode", "ask").returncode == 0
    assert settings.read_text() == '# mine\nmode = "ask"  # for now\n\n[host]\nidle_minutes = 3\n'


def test_a_higher_layer_is_named(run, project: Path):
    done = run("init", "--mode", "plan", QUARTERDECK_MODE="ask")
    assert "wrote mode = plan" in done.stdout
    assert "mode: ask (environment QUARTERDECK_MODE)" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-a", "clade"), "Did you mean 'claude'"),
        (("-m", "no-vendor"), "model"),
        (("--mode", "reckless"), "'reckless' is not one of"),
    ],
)
def test_a_wrong_option_is_an_error_and_nothing_is_written(
    run, project: Path, settings: Path, words: tuple[str, ...], message: str
):
    done = run("init", *words)
    assert done.returncode in (1, 2)
    assert message in done.stderr
    assert not settings.exists()


def test_a_damaged_file_stays_as_it_is(run, project: Path, settings: Path):
    settings.parent.mkdir(parents=True)
    settings.write_text("= broken")
    done = run("init", "--mode", "ask")
    assert done.returncode == 1
    assert str(settings) in done.stderr
    assert settings.read_text() == "= broken"


def test_a_person_is_asked_and_may_skip(tmp_path: Path, project: Path):
    environment = clean_environment(tmp_path)
    file = Path(environment["QUARTERDECK_HOME"]) / "config.toml"
    with pty_of([PROGRAM, "init"], environment, cwd=project, size=(100, 40)) as terminal:
        terminal.shows("Agent for the first prompt (native) [native], s skips: ")
        terminal.write("nonsense\n")
        terminal.shows("'nonsense' is not one of native")
        terminal.write("\n")
        terminal.shows("Trust this project, so that these take effect (y, n) [n], s skips: ")
        terminal.write("y\n")
        terminal.shows(f"trusted: {project.resolve()}")
        terminal.shows("Mode (read-only")
        terminal.write("plan\n")
        terminal.shows("mode: plan")
        terminal.shows("Prompt, s skips: ")
        terminal.write("s\n")
        terminal.shows("skipped; later: quarterdeck spawn -a native")
        assert terminal.ends() == 0
    assert file.read_text() == 'mode = "plan"\n'


def test_leaving_in_the_middle_changes_nothing_more(tmp_path: Path, project: Path):
    environment = clean_environment(tmp_path)
    with pty_of([PROGRAM, "init"], environment, cwd=project, size=(100, 40)) as terminal:
        terminal.shows("Agent for the first prompt")
        terminal.write("\x04")
        assert terminal.ends() == 130
    assert not Path(environment["QUARTERDECK_HOME"]).exists()


def test_a_person_follows_the_agent_of_the_first_prompt(tmp_path: Path, project: Path):
    environment = clean_environment(tmp_path)
    words = ["init", "-a", "native", "-m", "scripted/default", "--no-trust", "--mode", "ask"]
    with pty_of([PROGRAM, *words], environment, cwd=project, size=(100, 40)) as terminal:
        terminal.shows("Prompt, s skips: ")
        terminal.write("scene:text\n")
        terminal.shows("/help shows commands", 30)
        terminal.shows("> scene:text", 30)
        soon(lambda: terminal.read().count(b"\n") > 20, what="its answer")
        terminal.write("\x04")
        assert terminal.ends(30) == 0
