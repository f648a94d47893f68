"""The man pages: made from the help texts, current, valid for roff, and part of the wheel."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from quarterdeck.cli.root import COMMANDS
from tools.generate_manual import DIRECTORY, escape_roff, make_pages

ROOT = Path(__file__).parents[2]


def show(page: str) -> str:
    """What a reader of a page sees."""
    done = subprocess.run(
        ["man", "-l", "-"],
        input=page,
        env={
            "PATH": os.environ["PATH"],
            "MANWIDTH": "100",
            "LANG": "C.UTF-8",
            "MAN_KEEP_FORMATTING": "",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout)


@pytest.fixture
def needs_man() -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man or groff is not installed")


def test_the_pages_are_current():
    pages = {path.name: path.read_text("ascii") for path in DIRECTORY.glob("*.1")}
    assert pages == make_pages(), "run .venv/bin/python -m tools.generate_manual"


def test_every_command_has_a_page():
    shown = {f"quarterdeck-{name}.1" for name, one in COMMANDS.items() if not one.hidden}
    assert set(make_pages()) == {"quarterdeck.1", *shown}


def test_the_pages_are_valid(needs_man: None):
    for name, page in make_pages().items():
        done = subprocess.run(
            # A line that is too long to be broken is shown whole.
            ["groff", "-man", "-Tutf8", "-z", "-ww", "-Wbreak"],
            input=page,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert (done.returncode, done.stderr) == (0, ""), name


def test_a_page_says_what_the_help_says(needs_man: None, run):
    shown = show(make_pages()["quarterdeck-spawn.1"])
    assert "quarterdeck-spawn - Start an agent on PROMPT\n" in shown
    assert "-a, --agent NAME" in shown
    assert "Allow calls, e.g. 'bash(git log:*)'." in shown
    named = set(re.findall(r"--[a-z][a-z-]+", run("spawn", "--help").stdout))
    assert named <= set(re.findall(r"--[a-z][a-z-]+", shown))
    group = show(make_pages()["quarterdeck-worktrees.1"])
    assert "quarterdeck worktrees discard [OPTIONS] NAME|AGENT|PATH" in group
    assert "quarterdeck-land(1)" in show(make_pages()["quarterdeck.1"])


@pytest.mark.parametrize(
    "text",
    [
        ".SH not a request",
        "'br not a request",
        r"a \fBbackslash\fR and \n",
        "--option 'quoted' `code` ~/x ^C",
        'a "quoted" word',
        "für ältere Möwen … ✓ 船",
    ],
)
def test_text_is_shown_as_it_is(needs_man: None, text: str):
    escaped = escape_roff(text)
    assert escaped.isascii()
    assert text in show(f".TH T 1\n.SH NAME\nt \\- x\n.SH DESCRIPTION\n{escaped}\n")


def test_the_wheel_installs_the_pages():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shared = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert {ROOT / source: target for source, target in shared.items()} == {
        DIRECTORY: "share/man/man1"
    }
