"""Tests leave nothing behind, and one that does is found."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.leftovers import Traces, left_processes


def test_a_changed_permission_is_found_and_put_back(tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    before = Traces.now([folder])
    folder.chmod(0o555)
    (line,) = before.changes(Traces.now([folder]))
    assert str(folder) in line
    before.restore()
    assert before.changes(Traces.now([folder])) == []


def test_a_changed_environment_and_handler_are_found(monkeypatch: pytest.MonkeyPatch):
    before = Traces.now([])
    monkeypatch.setenv("QUARTERDECK_TRACE", "left")
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        told = before.changes(Traces.now([]))
    finally:
        signal.signal(signal.SIGHUP, old)
    assert ["QUARTERDECK_TRACE" in told[0], "SIGHUP" in told[1], len(told)] == [True, True, 2]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
def test_a_process_that_is_left_behind_is_found_until_it_ends(tmp_path: Path):
    words = [sys.executable, "-c", "print('ready', flush=True); input()"]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "below")}
    with subprocess.Popen(
        words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        assert list(left_processes([tmp_path], within=0)) == [child.pid]
        child.communicate("\n")
    assert left_processes([tmp_path], within=15) == {}
