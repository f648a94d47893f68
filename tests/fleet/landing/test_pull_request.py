"""Pull requests: pushed by git and opened by gh or glab, which are fakes here."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.config.trust import TrustStore
from quarterdeck.fleet.landing.api import PullRequestDraft
from quarterdeck.fleet.landing.pull_request import (
    OpenedPullRequest,
    PullRequestError,
    open_pull_request,
)
from tests.support.hostile_repository import make_hostile_repository
from tests.support.landing_cases import tip_of
from tests.support.work_trees import git, new_repository

FAKE = """#!/bin/sh
printf '%s\\n' "$@" > "$FAKE_LOG"
cat >> "$FAKE_LOG"
[ -n "$FAKE_SLEEP" ] && sleep "$FAKE_SLEEP"
[ -n "$FAKE_FAIL" ] && { echo not logged in >&2; exit 4; }
echo Creating pull request; echo https://example.org/pull/7
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = new_repository(tmp_path.resolve() / "project", {"a.txt": "a\n"})
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    git(top, "remote", "add", "origin", str(tmp_path / "remote.git"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return top


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    place = folder / "bin"
    place.mkdir()
    for name in names:
        (place / name).write_text(FAKE)
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")


def draft(project: Path) -> PullRequestDraft:
    return PullRequestDraft(
        repository=str(project),
        branch="quarterdeck/ann",
        commit=tip_of(project, "main"),
        base="main",
        title="Add ☃",
        body="It works.\n",
    )


async def open_one(project: Path, **options: Any) -> OpenedPullRequest:
    """Open one in a project that is trusted."""
    trust = TrustStore(project.parent / "trust.json")
    await asyncio.to_thread(trust.trust, project)
    return await open_pull_request(draft(project), trust, **options)


async def test_nothing_of_a_repository_that_is_not_trusted_runs(tmp_path, monkeypatch):
    hostile = make_hostile_repository(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "outside"))
    install(tmp_path, monkeypatch, "gh")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "remote.git"))
    with (hostile.top / ".git" / "config").open("a") as config:
        config.write(f'[remote "own"]\n\turl = {tmp_path / "remote.git"}\n')
    trust = TrustStore(tmp_path / "trust.json")
    asked = draft(hostile.top)
    before = hostile.ran()
    with pytest.raises(PullRequestError, match="quarterdeck config trust"):
        await open_pull_request(asked, trust, remote="own")
    assert before == hostile.ran() == [] and not (tmp_path / "log").exists()
    await asyncio.to_thread(trust.trust, hostile.top)
    with suppress(PullRequestError):
        await open_pull_request(asked, trust, remote="own")
    assert hostile.ran() != []  # so this repository would have run something


async def test_gh_gets_the_branch_the_title_and_the_body(project, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "gh")
    opened = await open_one(project)
    assert (opened.url, opened.program) == ("https://example.org/pull/7", "gh")
    assert tip_of(tmp_path / "remote.git", "quarterdeck/ann") == tip_of(project, "main")
    assert (tmp_path / "log").read_text().splitlines() == [
        *("pr", "create", "--base", "main", "--head", "quarterdeck/ann"),
        *("--title", "Add ☃", "--body-file", "-", "It works."),
    ]


async def test_glab_is_used_for_gitlab_or_where_there_is_no_gh(project, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "glab")
    opened = await open_one(project)
    assert opened.program == "glab"
    assert (tmp_path / "log").read_text().startswith("mr\ncreate\n--target-branch\nmain\n")


async def test_programs_that_are_missing_fail_or_hang_are_named(project, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch)
    inside = project / "gh"
    inside.write_text(FAKE)
    inside.chmod(0o755)
    monkeypatch.setenv("PATH", f"{project}:{os.environ['PATH']}")
    with pytest.raises(PullRequestError, match="neither gh nor glab"):
        await open_one(project)
    (tmp_path / "bin" / "gh").write_text(FAKE)
    (tmp_path / "bin" / "gh").chmod(0o755)
    monkeypatch.setenv("FAKE_FAIL", "1")
    with pytest.raises(PullRequestError, match=r"gh pr create.*exit code 4.*not logged in"):
        await open_one(project)
    monkeypatch.setenv("FAKE_SLEEP", "100")
    with pytest.raises(PullRequestError, match="no end within 1 s"):
        await open_one(project, seconds=1)


async def test_the_remote_must_be_clear(project, tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "gh")
    with pytest.raises(PullRequestError, match="no remote 'fork'"):
        await open_one(project, remote="fork")
    git(project, "remote", "rename", "origin", "one")
    assert (await open_one(project)).remote == "one"
    git(project, "remote", "add", "two", "/nowhere")
    with pytest.raises(PullRequestError, match="--remote: one, two"):
        await open_one(project)
    git(project, "remote", "remove", "one")
    with pytest.raises(PullRequestError, match=r"git push.*nowhere"):
        await open_one(project)
