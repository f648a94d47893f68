"""Files that move with a session: the vendor's own, and the work tree; and who signed it all."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from quarterdeck.drivers.history.history import AgentHistory
from quarterdeck.fleet.capsule.errors import CapsuleRefusedError, SignatureError, WorkTreeError
from quarterdeck.fleet.capsule.reader import open_capsule
from tests.support.capsules import Machine, files_below, read_members, short_session, write_members
from tests.support.history_homes import CLAUDE, CLAUDE_SUB, CODEX, claude_lines, recorded_home
from tests.support.hostile_repository import make_hostile_repository
from tests.support.work_trees import git, new_repository, state_of

SECRET = "sk-abcdefghijklmnop1234"
GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
KEYGEN = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")


# The vendor's own files


def vendor_session(machine: Machine, lab: Path, agent: str, theirs: str) -> str:
    """A session of ours with a recorded one of a vendor's behind it."""
    recorded_home(machine.home, str(lab))
    entries = short_session(str(lab), "one", agent=agent, theirs=theirs)
    machine.record(entries)
    return entries[0][0]


@pytest.mark.parametrize(
    ("agent", "theirs"), [("claude", CLAUDE), ("claude", CLAUDE_SUB), ("codex", CODEX)]
)
def test_a_vendors_session_can_be_continued_in_another_directory_elsewhere(
    tmp_path: Path, agent: str, theirs: str
):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    lab, moved = tmp_path / "lab", tmp_path / "moved lab"
    for folder in (lab, moved):
        folder.mkdir()
    id_ = vendor_session(here, lab, agent, theirs)
    manifest = here.export(tmp_path / "c", id_)
    assert manifest.sessions[0].files
    report = there.take(tmp_path / "c", directory=moved)
    assert report.sessions[0].continues == "native"
    assert report.sessions[0].cwd == str(moved)
    past = asyncio.run(AgentHistory(there.homes).find(theirs, agent=agent))
    assert past.id == theirs
    if agent == "claude":  # where it looks for sessions of this directory
        slug = "".join(letter if letter.isalnum() else "-" for letter in str(moved))
        assert Path(past.path).parent.name == slug
    if theirs == CLAUDE_SUB:
        beside = Path(past.path).with_suffix("") / "subagents"
        assert [one.suffix for one in beside.iterdir()] == [".jsonl"]
    assert Path(past.path).stat().st_mode & 0o077 == 0


def claude_file(machine: Machine, lab: str, id_: str, *prompts: str) -> Path:
    slug = "".join(letter if letter.isalnum() else "-" for letter in lab)
    file = machine.home / ".claude/projects" / slug / f"{id_}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = claude_lines(*prompts, cwd=lab, id_=id_)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_a_vendors_files_are_masked_and_otherwise_the_same_bytes(tmp_path: Path):
    machine = Machine(tmp_path / "a")
    file = claude_file(machine, "/w", "grown", "hello", f"use {SECRET}")
    entries = short_session("/w", "x", agent="claude", theirs="grown")
    machine.record(entries)
    manifest = machine.export(tmp_path / "c", entries[0][0])
    before = file.read_bytes().splitlines()
    data = dict(read_members(tmp_path / "c"))
    after = data[f"parts/{manifest.sessions[0].files[0].sha256}"].splitlines()
    changed = [one for one, other in zip(before, after, strict=True) if one != other]
    assert 0 < len(changed) < len(before) and all(SECRET.encode() in one for one in changed)
    assert any(one.where == "claude file grown.jsonl" for one in manifest.masked)
    assert SECRET.encode() not in b"".join(data.values())


def test_a_vendors_file_that_is_there_stays_as_it_is(tmp_path: Path):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    claude_file(here, "/w", "grown", "hello")
    mine = claude_file(there, "/w", "grown", "something else")
    kept = mine.read_bytes()
    entries = short_session("/w", "x", agent="claude", theirs="grown")
    here.record(entries)
    here.export(tmp_path / "c", entries[0][0])
    report = there.take(tmp_path / "c")
    assert mine.read_bytes() == kept
    assert report.sessions[0].continues == "hand over"
    assert any("is there already" in one.why for one in report.omitted)
    assert there.read(report.sessions[0].id)


def test_a_form_that_is_not_known_is_said_and_the_transcript_comes_along(tmp_path: Path):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    file = claude_file(here, "/w", "grown", "hello")
    entries = short_session("/w", "x", agent="claude", theirs="grown")
    here.record(entries)
    manifest = here.export(tmp_path / "c", entries[0][0])
    strange = b'{"new":"form"}\n'
    import hashlib

    old, new = manifest.sessions[0].files[0].sha256, hashlib.sha256(strange).hexdigest()
    members = [
        (name.replace(old, new), strange if old in name else data)
        for name, data in read_members(tmp_path / "c")
    ]
    changed = json.loads(members[-1][1].decode().replace(old, new))
    next(one for one in changed["parts"] if one["sha256"] == new)["size"] = len(strange)
    members[-1] = (members[-1][0], json.dumps(changed).encode())
    report = there.take(write_members(tmp_path / "d", members))
    assert any("is not known here" in one.why for one in report.omitted)
    assert there.read(report.sessions[0].id)
    assert file.exists()


@pytest.mark.parametrize("agent", ["goose", "opencode", "gemini", "unheard-of"])
def test_files_that_cannot_come_along_are_named_with_the_reason(tmp_path: Path, agent: str):
    machine = Machine(tmp_path / "a")
    entries = short_session("/w", "x", agent=agent, theirs="1")
    machine.record(entries)
    manifest = machine.export(tmp_path / "c", entries[0][0])
    assert manifest.omitted[0].what == f"{agent} session files"
    report = Machine(tmp_path / "b").take(tmp_path / "c")
    assert report.sessions[0].continues == "hand over"
    assert any(one.what == f"{agent} session files" for one in report.omitted)


# The work tree


def worked(tmp_path: Path, top: Path) -> tuple[Machine, str]:
    """A session that works in a repository with changes of every kind."""
    new_repository(top, {"kept.txt": "kept\n", "changed.txt": "old\n", "gone.txt": "x\n"})
    (top / ".gitignore").write_text("ignored\n")
    (top / "changed.txt").write_text("new\n")
    (top / "gone.txt").unlink()
    (top / "sub").mkdir(exist_ok=True)
    (top / "sub" / "ünbekannt.txt").write_text("untracked\n")
    (top / "ignored").write_text("no one needs it\n")
    (top / "link").symlink_to("kept.txt")
    (top / "tool").write_text("#!/bin/sh\n")
    (top / "tool").chmod(0o755)
    machine = Machine(tmp_path / "a")
    entries = short_session(str(top / "sub"), "x")
    machine.record(entries)
    return machine, entries[0][0]


@GIT
def test_a_work_tree_comes_back_whole_in_a_new_directory(tmp_path: Path):
    top = tmp_path / "top"
    here, id_ = worked(tmp_path, top)
    before = (git(top, "status", "--porcelain"), git(top, "for-each-ref"))
    here.export(tmp_path / "c", id_)
    assert (git(top, "status", "--porcelain"), git(top, "for-each-ref")) == before
    target = tmp_path / "new place"
    report = Machine(tmp_path / "b").take(tmp_path / "c", directory=target)
    assert report.work_tree == (str(target),)
    assert report.sessions[0].cwd == str(target / "sub")
    (top / "ignored").unlink()
    assert state_of(target) == state_of(top)
    assert git(target, "rev-parse", "HEAD", "--abbrev-ref", "HEAD") == git(
        top, "rev-parse", "HEAD", "--abbrev-ref", "HEAD"
    )
    assert sorted(git(target, "status", "--porcelain", "-uall").splitlines()) == sorted(
        git(top, "status", "--porcelain", "-uall").splitlines()
    )
    git(target, "fsck", "--strict")
    assert not list(tmp_path.glob(".*part"))


@GIT
def test_a_repository_that_is_there_gets_the_commits_and_keeps_its_files(tmp_path: Path):
    here, id_ = worked(tmp_path, tmp_path / "top")
    here.export(tmp_path / "c", id_)
    other = new_repository(tmp_path / "other", {"own.txt": "own\n"})  # without the base commit
    before = state_of(other), git(other, "rev-parse", "HEAD"), git(other, "status", "--porcelain")
    report = Machine(tmp_path / "b").take(tmp_path / "c", directory=other)
    assert (
        state_of(other),
        git(other, "rev-parse", "HEAD"),
        git(other, "status", "--porcelain"),
    ) == (before)
    base, tree = report.work_tree[1:]
    assert tree == f"refs/quarterdeck/capsules/{id_}/tree"
    assert git(other, "show", f"{tree}:sub/ünbekannt.txt") == "untracked\n"
    assert git(other, "rev-parse", base) == git(tmp_path / "top", "rev-parse", "HEAD")


@GIT
def test_a_thin_one_needs_a_repository_with_the_base_commit(tmp_path: Path):
    top = tmp_path / "top"
    here, id_ = worked(tmp_path, top)
    git(top, "update-ref", "refs/remotes/origin/main", "HEAD")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--no-local", str(top), str(clone))
    manifest = here.export(tmp_path / "c", id_, is_thin=True)
    base = git(top, "rev-parse", "HEAD").strip()
    assert manifest.work_trees[0].needs == (base,)
    other = new_repository(tmp_path / "other", {"own.txt": "own\n"})
    there = Machine(tmp_path / "b")
    for directory, words in ((other, "lacks the commit"), (tmp_path / "new", "no history before")):
        with pytest.raises(WorkTreeError, match=f"{words} {base}"):
            there.take(tmp_path / "c", directory=directory)
    assert files_below(there.home) == set()
    assert not (tmp_path / "new").exists() and not git(other, "for-each-ref", "refs/quarterdeck")
    report = there.take(tmp_path / "c", directory=clone)
    assert git(clone, "show", f"{report.work_tree[2]}:changed.txt") == "new\n"


@GIT
def test_secrets_in_changed_files_are_masked_and_committed_ones_are_not(tmp_path: Path):
    top = new_repository(tmp_path / "top", {"old.txt": f"token={SECRET}\n", "same.txt": "x\n"})
    (top / "new.env").write_text(f"A=1\nAPI_KEY={SECRET}\n")
    machine = Machine(tmp_path / "a")
    entries = short_session(str(top), "x")
    machine.record(entries)
    manifest = machine.export(tmp_path / "c", entries[0][0])
    assert [(one.where, one.place) for one in manifest.masked] == [("new.env", "line 2")]
    target = tmp_path / "new"
    Machine(tmp_path / "b").take(tmp_path / "c", directory=target)
    assert (target / "new.env").read_text() == "A=1\nAPI_KEY=…\n"
    assert (target / "old.txt").read_text() == f"token={SECRET}\n"
    assert (top / "new.env").read_text().endswith(f"{SECRET}\n")
    machine.export(tmp_path / "d", entries[0][0], is_masked=False)
    Machine(tmp_path / "e").take(tmp_path / "d", directory=tmp_path / "kept")
    assert SECRET in (tmp_path / "kept" / "new.env").read_text()


@GIT
def test_nothing_that_a_repository_names_is_run(tmp_path: Path):
    hostile = make_hostile_repository(tmp_path / "hostile")
    machine = Machine(tmp_path / "a")
    entries = short_session(str(hostile.top), "x")
    machine.record(entries)
    manifest = machine.export(tmp_path / "c", entries[0][0])
    assert manifest.work_trees
    Machine(tmp_path / "b").take(tmp_path / "c", directory=tmp_path / "new")
    assert hostile.ran() == []
    assert (tmp_path / "new" / ".git").is_dir()


@GIT
def test_a_repository_without_a_commit_and_a_directory_that_cannot_be_used(tmp_path: Path):
    top = new_repository(tmp_path / "top")
    (top / "first.txt").write_text("first\n")
    machine = Machine(tmp_path / "a")
    entries = short_session(str(top), "x")
    machine.record(entries)
    manifest = machine.export(tmp_path / "c", entries[0][0])
    assert manifest.work_trees[0].base is None
    there = Machine(tmp_path / "b")
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("x")
    for directory, words in ((full, "neither empty nor"), (tmp_path / "no" / "where", "make it")):
        with pytest.raises(WorkTreeError, match=words):
            there.take(tmp_path / "c", directory=directory)
    assert files_below(there.home) == set()
    there.take(tmp_path / "c", directory=tmp_path / "new")
    assert (tmp_path / "new" / "first.txt").read_text() == "first\n"


@GIT
def test_without_a_directory_no_repository_is_touched(tmp_path: Path):
    here, id_ = worked(tmp_path, tmp_path / "top")
    here.export(tmp_path / "c", id_)
    report = Machine(tmp_path / "b").take(tmp_path / "c")
    assert report.work_tree == ()
    assert any("--directory" in one.why for one in report.omitted)


# Signatures


def make_key(folder: Path, name: str) -> Path:
    key = folder / name
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key)]
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    return key


def signers(folder: Path, name: str, key: Path) -> Path:
    file = folder / f"signers-{name}"
    public = key.with_suffix(".pub").read_text()
    file.write_text(f'{name}@example.org namespaces="capsule@quarterdeck" {public}')
    return file


@KEYGEN
def test_a_signature_says_who_signed(tmp_path: Path):
    here = Machine(tmp_path / "a")
    entries = short_session("/w", "x")
    here.record(entries)
    ada, eve = make_key(tmp_path, "ada"), make_key(tmp_path, "eve")
    here.export(tmp_path / "c", entries[0][0], key=ada)
    with open_capsule(tmp_path / "c") as opened:
        good = opened.check_signature(signers(tmp_path, "ada", ada))
        unknown = opened.check_signature(signers(tmp_path, "eve", eve))
        unlisted = opened.check_signature(None)
    assert (good.state, good.signer) == ("good", "ada@example.org")
    assert (unknown.state, unlisted.state) == ("unknown", "unknown")
    assert good.key == unknown.key and "SHA256:" in unknown.describe()
    report = Machine(tmp_path / "b").take(
        tmp_path / "c",
        needs_signature=True,
        allowed_signers=signers(tmp_path, "ada", ada),
    )
    assert report.signature.startswith("signed by ada@example.org")


@KEYGEN
def test_a_signature_of_another_manifest_is_refused(tmp_path: Path):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    entries = short_session("/w", "x")
    here.record(entries)
    ada = make_key(tmp_path, "ada")
    here.export(tmp_path / "c", entries[0][0], key=ada)
    *parts, (name, manifest), signature = read_members(tmp_path / "c")
    changed = manifest.replace(b'"is_masked": true', b'"is_masked": false')
    assert changed != manifest
    file = write_members(tmp_path / "d", [*parts, (name, changed), signature])
    with pytest.raises(CapsuleRefusedError) as caught:
        there.take(file)
    assert caught.value.reason == "bad signature"
    file = write_members(tmp_path / "d", [*parts, (name, manifest), (signature[0], b"none")])
    with pytest.raises(CapsuleRefusedError) as caught:
        there.take(file)
    assert caught.value.reason == "bad signature"
    assert files_below(there.home) == set()


@KEYGEN
def test_a_signature_can_be_required(tmp_path: Path):
    here, there = Machine(tmp_path / "a"), Machine(tmp_path / "b")
    entries = short_session("/w", "x")
    here.record(entries)
    ada, eve = make_key(tmp_path, "ada"), make_key(tmp_path, "eve")
    allowed = signers(tmp_path, "eve", eve)
    for key, reason in ((None, "not signed"), (ada, "unknown signer")):
        here.export(tmp_path / "c", entries[0][0], key=key)
        with pytest.raises(CapsuleRefusedError) as caught:
            there.take(tmp_path / "c", needs_signature=True, allowed_signers=allowed)
        assert caught.value.reason == reason
    assert files_below(there.home) == set()
    assert there.take(tmp_path / "c", allowed_signers=allowed).signature.startswith("signed by a")
    with pytest.raises(SignatureError, match="there is no key"):
        here.export(tmp_path / "c", entries[0][0], key=tmp_path / "missing")
