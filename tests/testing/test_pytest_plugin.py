"""The pytest plugin: an example project's tests run with it, and importing it costs nothing."""

import ast
import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from quarterdeck.testing.event_sequence import assert_events, assert_in_order
from quarterdeck.wire.events import NoticePosted, TurnEnded, TurnStarted

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "agent-tests"
IS_INSTALLED = any(one.name == "quarterdeck" for one in entry_points(group="pytest11"))
PLUGIN = ("-p", "no:cacheprovider", *(() if IS_INSTALLED else ("-p", "quarterdeck.testing.pytest")))
"""A checkout that was installed before the plugin was there does not have its entry point."""
EVENTS = [
    TurnStarted(),
    NoticePosted(title="a"),
    NoticePosted(title="b"),
    TurnEnded(stop="end_turn"),
]


def run_python(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=given, capture_output=True, text=True
    )


def test_the_example_project_passes(tmp_path: Path):
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    done = run_python(tmp_path, "-m", "pytest", "-q", *PLUGIN, str(project))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout


def test_a_changed_recording_fails_the_example(tmp_path: Path):
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    recorded = project / "session.jsonl"
    recorded.write_text(
        recorded.read_text()
        .replace('"reason":null', '"reason":"x"', 1)
        .replace('"status":"completed"', '"status":"failed"', 1)
    )
    done = run_python(tmp_path, "-m", "pytest", "-q", *PLUGIN, str(project), "-k", "recorded")
    assert done.returncode == 1, done.stdout


def test_pytest_does_not_compile_our_modules_anew(tmp_path: Path):
    (tmp_path / "test_loader.py").write_text(
        "def test_loader():\n"
        "    import quarterdeck.wire.clock as ours\n"
        "    assert 'Rewriting' not in type(ours.__loader__).__name__\n"
    )
    done = run_python(tmp_path, "-m", "pytest", "-q", *PLUGIN, "test_loader.py")
    assert done.returncode == 0, done.stdout


def test_importing_the_plugin_imports_nothing_of_ours(tmp_path: Path):
    code = (
        "import sys, pytest, quarterdeck.testing.pytest\n"
        "print(sorted(m for m in sys.modules if m.startswith('quarterdeck')))"
    )
    done = run_python(tmp_path, "-c", code)
    allowed = {"quarterdeck", "quarterdeck.testing", "quarterdeck.testing.pytest"}
    allowed |= {"quarterdeck.version"}
    assert set(ast.literal_eval(done.stdout)) <= allowed, done.stdout


def test_events_are_matched_as_a_whole_or_in_order():
    assert_events(EVENTS, "turn_started", "notice", NoticePosted, TurnEnded(stop="end_turn"))
    assert_events(EVENTS, "turn_started", ..., lambda event: event.stop == "end_turn")
    assert_events([], ...)
    assert_events([])
    assert_in_order(EVENTS, lambda event: event.title == "b", "turn_ended")


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (("turn_started",), "notice    <- does not fit"),
        (("turn_started", ..., "prompted"), "the events end before"),
        (("turn_ended", ...), "turn_started    <- does not fit"),
        ((), "turn_started    <- does not fit"),
    ],
)
def test_what_does_not_fit_is_shown(expected: tuple[object, ...], message: str):
    with pytest.raises(AssertionError, match=message):
        assert_events(EVENTS, *expected)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        assert_in_order(EVENTS, "turn_ended", "turn_started")
