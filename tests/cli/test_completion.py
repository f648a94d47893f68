"""Completion in real shells: names of a running host or of the log, quick, and never a message."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from quarterdeck.cli.completion import command
from quarterdeck.cli.root import root
from tests.support.deadlines import SOON
from tests.support.real_terminals import Pty, pty_of, soon

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
HOST = """
import asyncio, os
from quarterdeck.config.places import Places
from quarterdeck.fleet.host.process import run_host
from quarterdeck.fleet.local import LocalFleet
from tests.support.scripted_fleet import Casting
def opened(places, environment):
    return LocalFleet.open(places, environment, open_session=Casting())
ready = lambda: print("ready", flush=True)
asyncio.run(run_host(Places.find(), dict(os.environ), open_fleet=opened, ready=ready))
"""
ASK_BASH = """
eval "$(quarterdeck completion bash)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
_quarterdeck_complete "${1%% *}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
NEVER = ("textual", "quarterdeck.models", "quarterdeck.workbench", "quarterdeck.agent", "httpx2")
Complete = Callable[[str], list[str]]


@pytest.fixture
def environ(environ: dict[str, str]) -> dict[str, str]:
    return environ | {"PATH": f"{BIN}:{environ['PATH']}"}


@pytest.fixture
def host(environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOST], cwd=ROOT, env=environ, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    with child, child.stdout:
        yield child
        child.send_signal(signal.SIGCONT)
        child.terminate()
        child.wait(SOON)


@pytest.fixture
def complete(environ: dict[str, str], work: Path) -> Complete:
    """What bash offers for a line; nothing else may be written anywhere."""

    def ask_bash(line: str) -> list[str]:
        done = subprocess.run(
            ["bash", "--norc", "-c", ASK_BASH, "bash", line],
            cwd=work,
            env=environ,
            capture_output=True,
            text=True,
            timeout=50,
        )
        # Outside of an interactive completion ``compopt`` has nothing to change.
        notices = [one for one in done.stderr.splitlines() if "compopt" not in one]
        assert notices == []
        return done.stdout.split()

    return ask_bash


def test_commands_options_and_choices_are_completed(complete: Complete):
    assert complete("quarterdeck do") == ["doctor"]
    assert complete("qd worktrees dis") == ["discard"]
    assert complete("quarterdeck spawn --mod") == ["--model", "--mode"]
    assert complete("quarterdeck spawn --mode acc") == ["accept-edits"]
    assert complete("quarterdeck answer some d") == ["deny"]
    assert "testing" not in complete("quarterdeck ")


def test_described_agents_and_models_are_completed(complete: Complete, home: Path):
    own = home / ".config/quarterdeck"
    (own / "agents").mkdir(parents=True)
    (own / "agents" / "clever.toml").write_text("")
    (own / "config.toml").write_text('[models."ollama/mine:8b"]\nwindow = 1000\n')
    assert complete("quarterdeck spawn -a cl") == ["claude", "clever", "cline"]
    assert complete("quarterdeck login gem") == ["gemini"]
    assert "anthropic/claude-sonnet-5" in complete("quarterdeck run -m anthropic/")
    assert complete("quarterdeck run --model=scripted/d") == ["scripted/default"]
    # Readline replaces what follows the colon.
    assert complete("quarterdeck run -m ollama/mine:") == ["8b"]


def test_names_come_from_the_running_host(run, complete: Complete, host: object):
    assert run("spawn", "-a", "claude", "-n", "ann", "say hello").returncode == 0
    assert run("spawn", "-n", "bärbel", "ask").returncode == 0
    assert sorted(complete("quarterdeck logs ")) == ["ann", "bärbel"]
    assert complete("quarterdeck kill ann b") == ["bärbel"]
    assert complete("quarterdeck kill ann a") == []
    [request] = json.loads(run("inbox", "--json").stdout)["inbox"]
    assert complete("quarterdeck answer ") == [request["request"], "bärbel"]
    opened = run("terminal", "open", "-n", "shell", "--", "sleep", "600")
    assert complete("quarterdeck terminal attach s") == ["shell"]
    assert opened.stdout.strip() in complete("quarterdeck terminal close ")
    sessions = {one["session"] for one in json.loads(run("ps", "--json").stdout)["agents"]}
    assert set(complete("quarterdeck sessions turns ses_")) == sessions


def test_without_a_host_names_come_from_the_log_and_none_is_started(
    run, complete: Complete, host: subprocess.Popen[bytes]
):
    assert complete("quarterdeck logs ") == []
    assert run("spawn", "-a", "claude", "-n", "ann", "say hello").returncode == 0
    assert run("wait", "ann").returncode == 0
    host.terminate()
    host.wait(SOON)
    assert complete("quarterdeck logs a") == ["ann"]
    assert len(complete("quarterdeck sessions turns ses_")) == 1
    assert complete("quarterdeck terminal attach ") == []
    assert run("host", "status").returncode == 3


def test_a_host_that_hangs_costs_a_second_and_its_log_is_read(
    run, environ: dict[str, str], host: subprocess.Popen[bytes]
):
    assert run("spawn", "-a", "claude", "-n", "ann", "say hello").returncode == 0
    assert run("wait", "ann").returncode == 0
    host.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    done = run(_QUARTERDECK_COMPLETE="bash_complete", COMP_WORDS="quarterdeck logs a")
    assert (done.returncode, done.stdout, done.stderr) == (0, "plain,ann\n", "")
    assert time.monotonic() - begun < SOON


@pytest.mark.parametrize("line", ["quarterdeck logs ", "quarterdeck run -m ", "qd 'unfinished "])
def test_nothing_is_said_about_damage(run, home: Path, line: str):
    (home / ".local/state/quarterdeck").mkdir(parents=True)
    (home / ".local/state/quarterdeck/journal.db").write_bytes(b"not a log" * 1000)
    (home / ".config/quarterdeck").mkdir(parents=True)
    (home / ".config/quarterdeck/config.toml").write_text("= broken")
    for shell in command.SHELLS:
        done = run(_QUARTERDECK_COMPLETE=f"{shell}_complete", COMP_WORDS=line)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_unknown_shell_is_refused(run):
    assert run(_QUARTERDECK_COMPLETE="csh_complete", COMP_WORDS="quarterdeck ").returncode == 1
    refused = run("completion", "csh")
    assert refused.returncode == 2
    assert "'bash', 'zsh', 'fish'" in refused.stderr


@pytest.mark.parametrize("line", ["quarterdeck ", "quarterdeck logs ", "quarterdeck run -m "])
def test_completing_imports_neither_screens_nor_models(environ: dict[str, str], line: str):
    code = (
        "import sys\nfrom quarterdeck.cli.main import main\nmain([])\n"
        "sys.stdout.write('|'.join(sys.modules))"
    )
    asked = {"_QUARTERDECK_COMPLETE": "bash_complete", "COMP_WORDS": line}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environ | asked,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = done.stdout.rpartition("\n")[2].split("|")
    assert "click" in modules
    assert [one for one in modules if one.startswith(NEVER)] == []
    assert line != "quarterdeck " or "asyncio" not in modules


def test_other_shells_get_descriptions_and_whole_words(run):
    line = {"COMP_WORDS": "quarterdeck do"}
    zsh = run(_QUARTERDECK_COMPLETE="zsh_complete", **line).stdout
    assert zsh == "plain\ndoctor\nShow what is installed and what is missing.\n"
    fish = run(_QUARTERDECK_COMPLETE="fish_complete", **line).stdout
    assert fish == "plain,doctor\tShow what is installed and what is missing.\n"
    joined = run(
        _QUARTERDECK_COMPLETE="fish_complete", COMP_WORDS="quarterdeck run --model=scripted"
    )
    assert joined.stdout == "plain,--model=scripted/default\n"


@pytest.mark.parametrize("shell", command.SHELLS)
def test_the_script_is_valid(run, shell: str, tmp_path: Path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = tmp_path / "script"
    script.write_text(run("completion", shell).stdout)
    checked = subprocess.run([shell, "-n", script], capture_output=True, text=True, timeout=20)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_zsh_completes_a_command(environ: dict[str, str], tmp_path: Path):
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    shell = ["zsh", "-f", "-i"]
    with pty_of(shell, environ | {"TERM": "xterm", "PS1": "> "}, cwd=tmp_path) as terminal:
        terminal.write("source <(quarterdeck completion zsh); echo rea''dy\n")
        terminal.shows("ready\r\n")
        terminal.write("quarterdeck doct\t")
        terminal.shows("doctor")


def test_fish_completes_a_command(environ: dict[str, str], tmp_path: Path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    asked = "quarterdeck completion fish | source; complete -C 'quarterdeck doct'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.stdout == "doctor\tShow what is installed and what is missing.\n"


SHELLS = {
    "zsh": (("zsh", "-f", "-i"), "source <(quarterdeck completion zsh)"),
    # It wants a terminal that controls it.
    "fish": (("setsid", "-c", "fish", "--no-config", "-i"), "quarterdeck completion fish | source"),
}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tab_completes_commands_and_names_in_an_interactive_shell(
    shell: str, run, environ: dict[str, str], work: Path, home: Path, host: object
):
    if shutil.which(shell) is None or shutil.which(SHELLS[shell][0][0]) is None:
        pytest.skip(f"{shell} is not installed")
    own = home / ".config/quarterdeck"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('[models."ollama/mine:8b"]\nwindow = 1000\n')
    for name in ("ann", "bärbel"):
        assert run("spawn", "-a", "claude", "-n", name, "say hello").returncode == 0
    command, source = SHELLS[shell]
    seen = environ | {"TERM": "xterm", "PS1": "> ", "LANG": "C.UTF-8"}
    with pty_of(command, seen, cwd=work, size=(100, 30)) as terminal:
        terminal.write(f"{source}; echo rea''dy\r")
        terminal.shows("ready\r\n")
        for typed, whole in (
            ("quarterdeck sp\t", "quarterdeck spawn "),
            ("quarterdeck logs a\t", "quarterdeck logs ann "),
            ("qd kill ann b\t", "qd kill ann bärbel "),
            ("quarterdeck spawn -m ollama/mi\t", "quarterdeck spawn -m ollama/mine:8b "),
        ):
            terminal.write(f"\x15{typed}")
            _shows_line(terminal, whole)
        terminal.write("\x15quarterdeck logs \t")
        _shows_line(terminal, "bärbel")


def _shows_line(terminal: Pty, words: str) -> None:
    """Wait until words stand on the screen, spaces at the end of a line not counted."""
    soon(lambda: (terminal.read(), words.rstrip() in terminal.text())[1], what=words)


def test_a_tab_in_an_interactive_bash_completes(environ: dict[str, str], tmp_path: Path):
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with pty_of(shell, environ | {"TERM": "dumb", "PS1": "> "}, cwd=tmp_path) as terminal:
        terminal.write('eval "$(quarterdeck completion bash)"; echo rea""dy\n')
        terminal.shows("ready\r\n")
        terminal.write("echo a; quarterdeck spawn --model=scripted/d\t")
        terminal.shows("--model=scripted/default ")


def test_every_name_in_the_tables_is_a_parameter():
    found: set[tuple[type[click.Parameter], str]] = set()

    def walk(one: click.Command) -> None:
        found.update((type(param), param.name or "") for param in one.params)
        if isinstance(one, click.Group):
            context = click.Context(one)
            for name in one.list_commands(context):
                if (below := one.get_command(context, name)) is not None:
                    walk(below)

    walk(root)
    tables = vars(command)
    assert {name for kind, name in found if kind is click.Argument} >= set(tables["_ARGUMENTS"])
    assert {name for kind, name in found if kind is click.Option} >= set(tables["_OPTIONS"])


def test_a_closed_output_ends_it_quietly(environ: dict[str, str]):
    asked = {"_QUARTERDECK_COMPLETE": "bash_complete", "COMP_WORDS": "quarterdeck "}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [BIN / "quarterdeck"], env=environ | asked, stdout=write, stderr=subprocess.PIPE, timeout=30
    )
    os.close(write)
    assert done.stderr == b""
