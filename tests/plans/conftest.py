"""A host of scripted agents in a process of its own, and ``quarterdeck plan`` beside it.

No wait has a limit of its own: a runner needs two seconds of a processor before its first step,
which on a busy machine is any time. The limit of the test ends what hangs.
"""

import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from quarterdeck.cli.main import main
from quarterdeck.plans.progress import RunProgress, read_entries
from tests.support.deadlines import SOON
from tests.support.work_trees import new_repository

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).parent / "quarterdeck"


def wait_until(is_true: Callable[[], bool], child: subprocess.Popen[str] | None = None) -> None:
    """Wait for a state; a child that ends before fails the test."""
    while not is_true():
        if child is not None and child.poll() is not None:
            assert is_true(), child.communicate()
            return
        time.sleep(0.02)


class PlanWorld:
    """A home, a trusted repository, and a host whose agents run their prompts as commands."""

    def __init__(self, home: Path, work: Path) -> None:
        self.work = work
        self.home = home
        self.environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "COUNT": str(work.parent / "count"),
        }
        self._host: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[str]] = []

    def start_host(self) -> None:
        words = [sys.executable, "-m", "tests.support.plan_host"]
        child = subprocess.Popen(words, cwd=ROOT, env=self.environ, stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        self._host = child

    def end_host(self, number: int = signal.SIGTERM) -> None:
        if self._host is not None:
            self._host.send_signal(number)
            self._host.wait(SOON)
            assert self._host.stdout is not None
            self._host.stdout.close()
            self._host = None

    def write(self, text: str, name: str = "work.toml") -> None:
        (self.work / name).write_text(text)

    def start(self, *words: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [str(SCRIPT), *words],
            cwd=self.work,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._started.append(child)
        return child

    def end_children(self) -> None:
        for child in self._started:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in this process: one that runs no plan."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = main(words)
            except SystemExit as error:
                code = int(error.code or 0)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def finish(self, child: subprocess.Popen[str]) -> str:
        """The output of a runner that comes to its end."""
        return child.communicate()[0]

    def counted(self) -> list[str]:
        """What prompts wrote to the file COUNT, in order."""
        path = Path(self.environ["COUNT"])
        return path.read_text().split() if path.exists() else []

    def progress_of(self, name: str) -> Path:
        state = self.home / ".local/state/quarterdeck"
        return state / "plans" / name / "progress.jsonl"

    def read(self, name: str = "work") -> RunProgress:
        """How far a run has come."""
        return RunProgress(read_entries(self.progress_of(name)))

    def has_entry(self, words: str, name: str = "work") -> Callable[[], bool]:
        """Whether the progress of a run has these words by now."""
        path = self.progress_of(name)
        return lambda: path.exists() and words in path.read_text()


@pytest.fixture
def world(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlanWorld]:
    if importlib.util.find_spec("dbos") is None:
        pytest.skip("needs dbos")
    work = tmp_path / "work"
    work.mkdir()
    new_repository(work, {"a.txt": "a\n"})
    made = PlanWorld(home, work.resolve())
    monkeypatch.delenv("QUARTERDECK_HOME")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("COUNT", made.environ["COUNT"])
    monkeypatch.chdir(made.work)
    assert made.run("config", "trust", ".").returncode == 0
    made.start_host()
    yield made
    made.end_children()
    made.end_host()
