"""Whatever happens, people see words and an exit code."""

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest

import quarterdeck

SCRIPT = Path(sys.executable).parent / "quarterdeck"


def config_file(environ: dict[str, str], text: str) -> Path:
    path = Path(environ["HOME"]) / ".config/quarterdeck/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_told(run, option: str):
    for program in (SCRIPT, SCRIPT.with_name("qd")):
        done = run(option, program=program)
        assert (done.returncode, done.stdout, done.stderr) == (
            0,
            f"quarterdeck {quarterdeck.__version__}\n",
            "",
        )
    assert run("--debug", option).stdout == f"quarterdeck {quarterdeck.__version__}\n"


def test_the_package_runs_as_a_module(run):
    done = run("-m", "quarterdeck", "--version", program=Path(sys.executable))
    assert done.stdout == f"quarterdeck {quarterdeck.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["doctor", "--help"], ["config", "-h"]])
def test_help_is_shown(run, arguments: list[str]):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: quarterdeck")


def test_help_uses_the_name_it_was_called_by(run):
    assert run("--help", program=SCRIPT.with_name("qd")).stdout.startswith("Usage: qd ")


def test_help_lists_commands_and_hides_those_for_tests(run):
    shown = run("--help").stdout
    assert "doctor" in shown
    assert "testing" not in shown
    assert run("testing", "--help").returncode == 0


def test_without_arguments_it_says_hello(run):
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "quarterdeck doctor" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["dcotor"], "quarterdeck: No such command 'dcotor'. Did you mean 'doctor'?"),
        (["--nope"], "quarterdeck: No such option '--nope'."),
        (["doctor", "more"], "quarterdeck: Got unexpected extra argument (more)"),
        (["config", "trust", "/missing"], "'/missing' does not exist"),
    ],
)
def test_wrong_usage_ends_with_two(run, arguments: list[str], told: str):
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "--help" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_of_ours_is_words_on_stderr(run, environ: dict[str, str]):
    path = config_file(environ, "modle = 'a/b'\nlimits.retries = 'x'\n")
    done = run("config", "show")
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"quarterdeck: {path}: modle: unknown key")
    assert lines[1].startswith(f"quarterdeck: {path}: limits.retries: expected")
    assert len(lines) == 2


def test_debug_shows_the_traceback_of_an_error_of_ours(run, environ: dict[str, str]):
    config_file(environ, "nope = 1\n")
    for done in (run("--debug", "config", "show"), run("config", "show", QUARTERDECK_DEBUG="1")):
        assert done.returncode == 1
        assert "Traceback (most recent call last)" in done.stderr
        assert "InvalidConfig" in done.stderr
    assert "Traceback" not in run("config", "show", QUARTERDECK_DEBUG="0").stderr


def test_what_nobody_expected_is_one_line_and_a_file(run_code, environ: dict[str, str]):
    done = run_code("raise RuntimeError('first\\nsecond')", "boom")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[0] == "quarterdeck: unexpected error: RuntimeError: first"
    assert lines[2] == "quarterdeck: to see them here, run: quarterdeck --debug boom"
    path = Path(lines[1].removeprefix("quarterdeck: details are in "))
    assert path.is_relative_to(Path(environ["HOME"]) / ".local/state/quarterdeck/logs")
    assert "RuntimeError: first\nsecond" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_debug_shows_what_nobody_expected(run_code):
    done = run_code("raise RuntimeError('boo')", "--debug", "boom")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_old_reports_go(run_code, environ: dict[str, str]):
    logs = Path(environ["HOME"]) / ".local/state/quarterdeck/logs"
    logs.mkdir(parents=True)
    for number in range(30):
        (logs / f"crash-20000101-0000{number:02}-1.log").write_text("")
    run_code("raise RuntimeError", "boom")
    kept = sorted(path.name for path in logs.iterdir())
    assert len(kept) == 20
    assert not kept[-1].startswith("crash-2000")


@pytest.mark.parametrize("home", ["/dev/null", "/proc/nothing"])
def test_a_home_that_cannot_be_written_loses_the_report_and_nothing_else(run_code, home: str):
    done = run_code("raise RuntimeError('boo')", "boom", HOME=home)
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "quarterdeck: unexpected error: RuntimeError: boo"
    assert "details are in" not in done.stderr


def test_an_interrupt_ends_with_130(run_code):
    done = run_code("os.kill(os.getpid(), signal.SIGINT); signal.pause()", "boom")
    assert done.returncode == 130
    assert done.stderr.strip() == ""


def test_a_broken_pipe_of_a_child_is_not_taken_for_our_output(run_code):
    body = "r, w = os.pipe(); os.close(r); os.write(w, b'x')"
    done = run_code(body, "boom")
    assert done.returncode == 1
    assert "unexpected error: BrokenPipeError" in done.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["config", "reference"], []])
def test_a_closed_pipe_is_quiet(arguments: list[str], environ: dict[str, str]):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [SCRIPT, *arguments], stdout=write, stderr=subprocess.PIPE, env=environ, timeout=50
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["config", "reference"]])
def test_a_full_disk_is_told(arguments: list[str], environ: dict[str, str]):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [SCRIPT, *arguments], stdout=full, stderr=subprocess.PIPE, env=environ, timeout=50
        )
    assert done.returncode == 1
    assert b"cannot write the output: No space left" in done.stderr


def test_no_output_at_all_is_no_error(environ: dict[str, str]):
    for arguments in ("--version", "config show"):
        done = subprocess.run(
            ["/bin/sh", "-c", f"exec '{SCRIPT}' {arguments} >&-"],
            stderr=subprocess.PIPE,
            env=environ,
            timeout=50,
        )
        assert (done.returncode, done.stderr) == (0, b"")


LOCALES = (
    {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LANG": "C"},
    {"LANG": None},
)


@pytest.mark.parametrize("locale", LOCALES)
def test_a_locale_without_utf_8_is_no_error(run, environ: dict[str, str], locale):
    config_file(environ, "permissions.deny = ['Grüße – 世界']\n")
    assert run(**locale).returncode == 0
    done = run("config", "show", **locale)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'permissions.deny[] = "Gr' in done.stdout


def test_a_path_that_is_no_text_can_be_shown(run):
    done = run("config", "path", QUARTERDECK_HOME="/tmp/\udcff")
    assert done.returncode == 0
    assert "\\udcff" in done.stdout


def test_without_home_everything_works(run):
    for arguments in ([], ["config", "path"], ["--version"]):
        assert run(*arguments, HOME=None).returncode == 0


def test_a_home_that_cannot_be_written_does_not_matter_for_looking(run):
    for arguments in ([], ["config", "show"], ["config", "path"], ["config", "check"]):
        done = run(*arguments, HOME="/dev/null")
        assert (done.returncode, done.stderr) == (0, "")


def test_a_home_that_cannot_be_written_is_told_when_it_matters(run, work: Path):
    done = run("config", "trust", str(work), QUARTERDECK_HOME="/dev/null/deck")
    assert done.returncode == 1
    assert "quarterdeck: cannot use the directory '/dev/null/deck/state'" in done.stderr


def test_a_current_directory_that_is_gone_is_told(environ: dict[str, str], work: Path):
    done = subprocess.run(
        ["/bin/sh", "-c", f"rmdir ../work && exec '{SCRIPT}' config show"],
        cwd=work,
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 1
    assert (
        done.stderr
        == "quarterdeck: the current directory no longer exists; change to another one\n"
    )


def read_terminal(arguments: list[str], environ: dict[str, str]) -> bytes:
    main, child = pty.openpty()
    process = subprocess.Popen(
        [SCRIPT, *arguments], stdin=child, stdout=child, stderr=child, env=environ
    )
    os.close(child)
    data = b""
    try:
        while select.select([main], [], [], 15)[0]:
            try:
                chunk = os.read(main, 65536)
            except OSError:  # Linux says EIO where others say end of file.
                break
            if not chunk:
                break
            data += chunk
    finally:
        os.close(main)
        process.kill() if process.poll() is None and not data else None
        process.wait(10)
    return data


def test_without_colours_a_terminal_gets_plain_text(environ: dict[str, str]):
    environ |= {"NO_COLOR": "1", "TERM": "xterm-256color"}
    for arguments in (["--help"], ["nope"]):
        shown = read_terminal(arguments, environ)
        assert shown
        assert b"\x1b" not in shown


def test_a_shell_can_ask_for_completions(run):
    done = run(_QUARTERDECK_COMPLETE="bash_complete", COMP_WORDS="quarterdeck do", COMP_CWORD="1")
    assert (done.returncode, done.stdout.strip()) == (0, "plain,doctor")
    assert "complete" in run(_QUARTERDECK_COMPLETE="bash_source").stdout
