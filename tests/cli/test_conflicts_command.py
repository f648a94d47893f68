"""``quarterdeck conflicts``: a matrix for people, JSON for programs, a code for scripts."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.cli.fleet.conflicts import format_report
from quarterdeck.fleet.radar.api import (
    BaseConflict,
    ConflictPair,
    ConflictReport,
    LandingProposal,
    RadarAgent,
    RepositoryConflicts,
)
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.worktrees import ChangeCounts, ConflictFile
from tests.support.deadlines import SOON
from tests.support.work_trees import git, new_repository

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).parent / "quarterdeck"
ANN, BOB, CY = (SessionId(f"ses_{name}") for name in ("ann", "bob", "cy"))
HOST = """
import asyncio, os, sys
from contextlib import asynccontextmanager
from pathlib import Path
from quarterdeck.config.places import Places
from quarterdeck.fleet.api import SpawnOptions
from quarterdeck.fleet.host.process import run_host
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.wire.events import WorktreeAssigned
from tests.support.agent_worktrees import add_worktree
from tests.support.scripted_fleet import Casting

@asynccontextmanager
async def open_played(places, environment, *rest, **more):
    async with LocalFleet.open(places, environment, open_session=Casting()) as fleet:
        for name in ("ann", "bob"):
            tree = await asyncio.to_thread(add_worktree, Path(sys.argv[1]), name)
            request = SpawnOptions.of(agent="claude", cwd=tree.path, name=name)
            info = await fleet.spawn(request)
            await fleet.journal.append(info.session, WorktreeAssigned(worktree=tree))
            await fleet.wait([name])
        yield fleet

ready = lambda: print("ready", flush=True)
asyncio.run(run_host(Places.find(), dict(os.environ), open_fleet=open_played, ready=ready))
"""


def agent(session: SessionId, name: str, **fields: object) -> RadarAgent:
    values = {"branch": f"quarterdeck/{name}", "base": "main", **fields}
    return RadarAgent(session=session, name=name, directory=f"/w/{name}", **values)  # type: ignore[arg-type]


def report() -> ConflictReport:
    files = (
        ConflictFile(path="tides.py", kind="text", symbols=("rise",)),
        ConflictFile(path="odd\x1b[2J\n.py", kind="symbol", symbols=("f", "g")),
    )
    counts = ChangeCounts(files=2, added=10, removed=3)
    return ConflictReport(
        repositories=(
            RepositoryConflicts(
                repository="/w/project",
                agents=(
                    agent(ANN, "ann", changes=counts),
                    agent(BOB, "bob", changes=counts),
                    agent(CY, "cy", changes=ChangeCounts(files=1, added=1)),
                ),
                pairs=(
                    ConflictPair(one=ANN, one_name="ann", other=BOB, other_name="bob", files=files),
                    ConflictPair(
                        one=BOB,
                        one_name="bob",
                        other=CY,
                        other_name="cy",
                        files=(ConflictFile(path="x.md", kind="file"),),
                        is_shared=True,
                    ),
                ),
                against_base=(BaseConflict(session=CY, name="cy", base="main", files=files[:1]),),
                landing_order=tuple(
                    LandingProposal(session=one, name=name, conflicts=1)
                    for one, name in ((ANN, "ann"), (BOB, "bob"))
                ),
            ),
        ),
        problems=("git is old.",),
    )


def test_a_report_is_a_matrix_with_the_files_below():
    assert "\n".join(format_report(report(), None)) == (
        "/w/project\n"
        "   AGENT  BRANCH           CHANGES         BASE  1  2   3\n"
        "1  ann    quarterdeck/ann  2 files +10 -3  ·        1   ·\n"
        "2  bob    quarterdeck/bob  2 files +10 -3  ·     1      ~1\n"
        "3  cy     quarterdeck/cy   1 file +1 -0    1     ·  ~1\n"
        "· none, 2 files that git cannot merge, ~2 files that both change\n"
        "\n"
        "ann and bob\n"
        "  cannot be merged  tides.py        rise\n"
        "  same symbol       odd\\x1b[2J .py  f, g\n"
        "\n"
        "bob and cy, in one directory\n"
        "  same file  x.md\n"
        "\n"
        "cy and its base main\n"
        "  cannot be merged  tides.py  rise\n"
        "\n"
        "Fewest conflicts in this order: ann, bob\n"
        "Note: git is old."
    )


def test_a_narrow_terminal_is_not_overrun():
    assert all(len(line) <= 70 for line in format_report(report(), 70))


def test_nothing_to_compare_is_said_with_what_to_do():
    (line,) = format_report(ConflictReport(), 80)
    assert line == "No agents with worktrees in this repository; --all shows all repositories."
    assert list(format_report(ConflictReport(), 80, everywhere=True)) == [
        "No agents with worktrees."
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "project", {"a.txt": "a\n"})


@pytest.fixture
def host(environ: dict[str, str], project: Path) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOST, str(project)], cwd=ROOT, env=environ, stdout=subprocess.PIPE
    )
    assert child.stdout is not None and child.stdout.readline() == b"ready\n"
    with child, child.stdout:
        yield child
        child.terminate()
        child.wait(SOON)


def ask(
    project: Path, environ: dict[str, str], *words: str, verb: str = "conflicts"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(SCRIPT), verb, *words],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
    )


def test_the_command_compares_what_is_in_the_files_now(host, project, environ, tmp_path):
    done = ask(project, environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("No conflicts.\n") and "quarterdeck/ann" in done.stdout
    for name in ("ann", "bob"):
        (tmp_path / f"project-{name}" / "a.txt").write_text(f"{name}\n")
    done = ask(project, environ)
    assert done.returncode == 7 and "ann and bob\n  cannot be merged  a.txt" in done.stdout
    done = ask(tmp_path / "project-bob", environ, "--json")  # any worktree is of the repository
    (found,) = json.loads(done.stdout)["repositories"]
    assert found["pairs"][0]["files"] == [{"path": "a.txt", "kind": "text"}]
    assert ask(tmp_path, environ).stdout.startswith("No agents with worktrees in this repository")
    assert ask(tmp_path, environ, "--all").returncode == 7
    git(project, "status")


def test_the_inbox_notes_conflicts_as_long_as_they_last(host, project, environ, tmp_path):
    assert ask(project, environ, verb="inbox").stdout == "No open requests.\n"
    for name in ("ann", "bob"):
        (tmp_path / f"project-{name}" / "a.txt").write_text(f"{name}\n")
    ask(project, environ)
    done = ask(project, environ, verb="inbox")
    assert done.returncode == 0  # nothing is asked
    assert done.stdout.startswith("No open requests.\n\n")
    assert done.stdout.count("change the same") == 1 and "\n  a.txt\n" in done.stdout
    found = json.loads(ask(project, environ, "--json", verb="inbox").stdout)
    (note,) = found["notes"]
    assert (found["inbox"], note["kind"]) == ([], "conflict")
    assert sorted(note["names"]) == ["ann", "bob"] and note["files"][0]["path"] == "a.txt"
    (tmp_path / "project-bob" / "a.txt").write_text("a\n")
    ask(project, environ)
    assert ask(project, environ, verb="inbox").stdout == "No open requests.\n"


def test_watching_shows_each_change(host, project, environ, tmp_path):
    words = [str(SCRIPT), "conflicts", "--watch", "--json"]
    child = subprocess.Popen(words, cwd=project, env=environ, stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child:
        first = json.loads(child.stdout.readline())
        assert first["repositories"][0].get("pairs", []) == []
        for name in ("ann", "bob"):
            (tmp_path / f"project-{name}" / "a.txt").write_text(f"{name}\n")
        subprocess.run(
            [str(SCRIPT), "send", "bob", "say done"], env=environ, check=True, timeout=SOON
        )
        end = time.monotonic() + SOON
        while time.monotonic() < end:
            found = json.loads(child.stdout.readline())["repositories"][0]
            if found.get("pairs"):
                break
        assert found["pairs"][0]["files"] == [{"path": "a.txt", "kind": "text"}]
        os.kill(child.pid, 2)
        assert child.wait(SOON) == 130
