"""What the tests with foreign clients share: a project, a home of its own, a recorded agent."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.recordings import Recording

RECORDER = Path(__file__).with_name("recorder.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("A project.\n")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    variables = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
        "QUARTERDECK_HOME": str(tmp_path / "home" / "quarterdeck"),
        "QUARTERDECK_MODEL": "scripted/default",
    }
    (tmp_path / "home").mkdir()
    if "PYTHONPATH" in os.environ:
        variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return variables


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path / "recording")


@pytest.fixture
def agent(recording: Recording) -> list[str]:
    """The command of ``quarterdeck acp`` with the recorder before it."""
    return [
        *(sys.executable, str(RECORDER), str(recording.folder)),
        *(sys.executable, "-m", "quarterdeck", "acp"),
    ]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was seen of agents and policy, where it was looked at."""
    from tests.interop.matrix import MATRIX, table

    if MATRIX:
        terminalreporter.write_sep("=", "agents and policy (r read, e edit, x run)")
        for line in table(MATRIX):
            terminalreporter.write_line(line)
