"""What an agent may put into commits, branches and attributes, and what a landing makes of it."""

import os
from contextlib import suppress
from pathlib import Path

import pytest

from quarterdeck.fleet.errors import LandingRefusedError
from quarterdeck.fleet.landing.api import LandingOptions
from tests.support.deadlines import SOON
from tests.support.review_project import ReviewedAgent, git, reviewed_agent
from tests.support.work_trees import state_of

METHODS = ("squash", "merge", "rebase")


def blob(tree: Path, data: bytes) -> str:
    return git(tree, "hash-object", "-w", "--stdin", given=data).decode().strip()


def make_tree(tree: Path, *entries: tuple[str, str, str, bytes]) -> str:
    """A tree object with entries that ``git add`` would refuse: mode, type, id, name."""
    lines = b"".join(
        f"{mode} {kind} {id_}\t".encode() + name + b"\0" for mode, kind, id_, name in entries
    )
    return git(tree, "mktree", "-z", "--missing", given=lines).decode().strip()


def commit_tree(ann: ReviewedAgent, tree: str) -> None:
    """Let a tree be what the agent's branch has."""
    words = ("commit-tree", "-p", "HEAD", "-m", "work", tree)
    commit = git(ann.tree, *words).decode().strip()
    git(ann.tree, "update-ref", "refs/heads/quarterdeck/ann", commit)


def hostile_tree(ann: ReviewedAgent, how: str, outside: Path) -> str:
    """A tree by which files would be written outside of the checkout or in its ``.git``."""
    top = ann.tree
    script = blob(top, b"#!/bin/sh\ntouch ran\n")
    hooks = make_tree(top, ("100755", "blob", script, b"post-checkout"))
    inner = make_tree(top, ("040000", "tree", hooks, b"hooks"))
    plain = ("100644", "blob", blob(top, b"a\n"), b"a.txt")
    link = blob(top, os.fsencode(outside))
    within = make_tree(top, ("100644", "blob", script, b"x"))
    entries = {
        "git directory": [("040000", "tree", inner, b".git")],
        "git file": [("100644", "blob", script, b".git")],
        "git in capitals": [("040000", "tree", inner, b".GIT")],
        "parent": [("040000", "tree", inner, b"..")],
        "self": [("040000", "tree", inner, b".")],
        "slash": [("100644", "blob", script, b"../evil")],
        "link and directory": [("120000", "blob", link, b"d"), ("040000", "tree", within, b"d")],
        "link as a directory": [("120000", "blob", link, b".git")],
    }
    return make_tree(top, plain, *entries[how])


TREES = (
    *("git directory", "git file", "parent", "self", "slash", "link and directory"),
    *("link as a directory", "git in capitals"),
)


@pytest.mark.parametrize("how", TREES)
async def test_trees_that_git_would_not_make_write_nothing_elsewhere(tmp_path: Path, how: str):
    outside = tmp_path / "outside"
    outside.mkdir()
    async with reviewed_agent(tmp_path, {b"a.txt": b"a\n"}) as ann:
        project = tmp_path / "project"
        try:
            commit_tree(ann, hostile_tree(ann, how, outside))
        except AssertionError:
            pytest.skip("this git makes no such tree")
        hooks = sorted((project / ".git" / "hooks").iterdir())
        head = (project / ".git" / "HEAD").read_bytes()
        config = (project / ".git" / "config").read_bytes()
        for method in METHODS:
            options = LandingOptions(into="main", method=method, checkout=True)
            await ann.fleet.land("ann", options)
        await ann.fleet.land("ann", LandingOptions(into="new"))
        assert sorted((project / ".git" / "hooks").iterdir()) == hooks
        assert (project / ".git" / "HEAD").read_bytes() == head
        assert (project / ".git" / "config").read_bytes() == config
    assert not list(outside.iterdir()) and not (tmp_path / "evil").exists()
    assert not (tmp_path / "hooks").exists() and not (project / "hooks").exists()


@pytest.mark.parametrize("method", METHODS)
async def test_attributes_of_an_agent_do_not_say_how_its_work_is_merged(
    tmp_path: Path, method: str
):
    async with reviewed_agent(tmp_path, {b"a.txt": b"one\ntwo\nthree\n"}) as ann:
        project = tmp_path / "project"
        (project / "a.txt").write_text("one\nmine\nthree\n")
        git(project, "commit", "-qam", "mine")
        ann.write(".gitattributes", "* merge=union\n")
        ann.write("a.txt", "one\ntheirs\nthree\n")
        git(ann.tree, "add", "-A")
        git(ann.tree, "commit", "-qm", "theirs")
        result = await ann.fleet.land("ann", LandingOptions(into="main", method=method))
        assert result.state == "conflict", result
        before = git(project, "for-each-ref"), state_of(project)
        options = LandingOptions(into="main", method=method, checkout=True)
        assert (await ann.fleet.land("ann", options)).state == "conflict"
        assert (git(project, "for-each-ref"), state_of(project)) == before


@pytest.mark.parametrize("attributes", ["merge=evil diff=evil", "merge=evil filter=evil diff=evil"])
async def test_no_driver_filter_or_helper_of_the_repository_runs(tmp_path: Path, attributes: str):
    mark = tmp_path / "ran"
    evil = f"touch {mark}; false"
    async with reviewed_agent(
        tmp_path, {b"a.txt": b"one\n", b".gitattributes": b"* -text\n"}
    ) as ann:
        project = tmp_path / "project"
        for name in (
            *("merge.evil.driver", "filter.evil.clean", "filter.evil.smudge", "diff.evil.command"),
            *("filter.evil.process", "diff.evil.textconv", "core.fsmonitor", "core.sshCommand"),
            *("gpg.program", "core.editor", "sequence.editor", "core.pager", "credential.helper"),
        ):
            git(project, "config", name, evil)
        hooks = tmp_path / "hooks"
        hooks.mkdir()
        for name in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change"):
            (hooks / name).write_text(f"#!/bin/sh\n{evil}\n")
            (hooks / name).chmod(0o755)
        git(project, "config", "core.hooksPath", str(hooks))
        git(project, "config", "commit.gpgSign", "true")
        ann.write(".gitattributes", f"* {attributes}\n")
        modules = (
            '[submodule "x"]\npath = x\nurl = "--upload-pack=touch ran"\nupdate = !touch ran\n'
        )
        ann.write(".gitmodules", modules)
        ann.write("a.txt", "two\n")
        info = project / ".git" / "info"
        info.mkdir(exist_ok=True)
        (info / "attributes").write_text(f"* {attributes}\n")
        for method in METHODS:
            options = LandingOptions(into="main", method=method, checkout=True)
            with suppress(LandingRefusedError):  # files behind a filter have to be committed
                await ann.fleet.preview_landing("ann", options)
            result = await ann.fleet.land("ann", options)
            assert result.state == ("refused" if "filter" in attributes else "landed")
            ann.write("a.txt", f"{method}\n")
        await ann.fleet.changes("ann")
        await ann.fleet.conflicts()
    assert not mark.exists() and not (project / "ran").exists() and not (ann.tree / "ran").exists()


NAMES = (
    *("HEAD", "-d", "--force", "@", "..", "main:evil", "refs/quarterdeck/trash/x", "refs/tags/x"),
    *("refs/heads/../../HEAD", "a..b", "main~1", "main^{tree}", "x.lock", "a b", "x\ny", "", "/"),
    *("refs/replace/x", "FETCH_HEAD/x/..", "-", "main@{1}"),
)


@pytest.mark.parametrize("name", NAMES)
async def test_a_name_that_is_no_branch_is_refused(tmp_path: Path, name: str):
    async with reviewed_agent(tmp_path, {b"a.txt": b"a\n"}) as ann:
        project = tmp_path / "project"
        ann.write("a.txt", "b\n")
        before = git(project, "for-each-ref"), (project / ".git" / "HEAD").read_bytes()
        result = await ann.fleet.land("ann", LandingOptions(into=name, checkout=True))
        after = git(project, "for-each-ref"), (project / ".git" / "HEAD").read_bytes()
        if name:  # an empty one is the base
            assert result.state == "refused" and after == before, result


async def test_a_branch_in_a_prompt_is_quoted_for_a_shell(tmp_path: Path):
    branch = "a;touch${IFS}ran|`touch${IFS}x`"
    async with reviewed_agent(tmp_path, {b"a.txt": b"one\n"}) as ann:
        project = tmp_path / "project"
        git(project, "checkout", "-q", "-b", branch)
        (project / "a.txt").write_text("mine\n")
        git(project, "commit", "-qam", "mine")
        ann.write("a.txt", "theirs\n")
        result = await ann.fleet.land("ann", LandingOptions(into=branch, hand_to="ann"))
        assert result.state == "conflict" and result.handed_to == "ann"
        await ann.fleet.wait(["ann"], timeout=SOON)
        told = [one for link in ann.casting.links for one in link.told]
        (prompt,) = [one for one in told if "could not be landed" in one]
    assert f"git merge '{branch}'" in prompt
