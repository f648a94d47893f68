"""Git runs no program that a repository names, whatever the repository is; and it is bounded."""

import ast
import os
import subprocess
import time
from pathlib import Path

import pytest

from quarterdeck.system.errors import GitError, GitUnsafeError, NotARepositoryError
from quarterdeck.system.git.command import GitPlaces, run_git
from quarterdeck.system.git.repository import (
    GitRepository,
    ask_git,
    expect_repository,
    find_repository,
)
from tests.support.hostile_repository import HostileRepository, make_hostile_repository
from tests.support.work_trees import git, new_repository, untouched

SOURCE = Path(__file__).parent.parent.parent / "src" / "quarterdeck"
QUESTIONS = (
    ["status", "--porcelain=v1", "-z"],
    ["status"],
    ["diff", "HEAD"],
    ["diff", "--stat"],
    ["diff-files", "--patch"],
    ["log", "-p", "--stat"],
    ["ls-files", "-co", "--exclude-standard", "-z"],
    ["ls-files", "--modified", "-z"],
    ["check-attr", "-a", "--", "a.txt"],
    ["rev-parse", "HEAD"],
    ["cat-file", "--batch-all-objects", "--batch"],
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileRepository:
    return make_hostile_repository(tmp_path_factory.mktemp("hostile"))


def test_the_fixture_is_as_hostile_as_it_says(tmp_path: Path):
    """Else no canary would mean nothing: git as people run it springs the traps."""
    made = make_hostile_repository(tmp_path / "own")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    for words in (["status"], ["diff", "HEAD", "--", "src"], ["add", "a.txt"], ["st"]):
        subprocess.run(
            ["git", *words], cwd=made.top, env=environment, capture_output=True, timeout=20
        )
    for where in ("sub", "nested", "worktree", "bare.git/below", "elsewhere"):
        subprocess.run(
            ["git", "status"],
            cwd=made.top / where,
            env=environment,
            capture_output=True,
            timeout=20,
        )
    assert {"top-fsmonitor", "top-alias-st"} <= set(made.ran())
    for part in ("filter", "diff-evil"):
        assert any(part in name for name in made.ran()), made.ran()
    assert {"sub-fsmonitor", "nested-fsmonitor", "bare-fsmonitor"} <= set(made.ran())


@pytest.mark.parametrize("words", QUESTIONS, ids=lambda words: " ".join(words))
def test_no_program_of_a_repository_runs(hostile: HostileRepository, words: list[str]):
    answered = 0
    for path in hostile.repositories.values():
        before = {name: name.read_bytes() for name in path.glob(".git/index*")}
        try:
            answered += bool(ask_git(str(path), words).data)
        except GitError as error:
            assert not isinstance(error, GitUnsafeError)
        assert {name: name.read_bytes() for name in path.glob(".git/index*")} == before
    assert answered >= 3
    assert hostile.ran() == []


def test_a_work_tree_is_where_git_was_found(hostile: HostileRepository):
    found = {name: find_repository(str(path)) for name, path in hostile.repositories.items()}
    tops = {name: None if one is None else one.top for name, one in found.items()}
    top = str(hostile.top)
    assert tops["astray"] == f"{top}/astray"  # core.worktree leads elsewhere
    assert tops["bare.git"] == tops["bare.git/below"] == tops["src"] == top
    assert tops["absorbed"] == f"{top}/absorbed" and tops["elsewhere"] == f"{top}/elsewhere"
    linked = expect_repository(f"{top}/worktree")
    assert linked.branch == "side" and linked.common_dir == f"{top}/.git"


def test_settings_that_appear_between_the_look_and_the_run_change_nothing(tmp_path: Path):
    made = make_hostile_repository(tmp_path / "own")
    repository = expect_repository(str(made.top))
    config = made.top / ".git" / "config"
    config.write_text(
        f'[filter "later"]\n\tclean = {made.trap("later")}\n\tprocess = {made.trap("later")}\n'
        f"[core]\n\tfsmonitor = {made.trap('later')}\n"
    )
    (made.top / ".gitattributes").write_text("* filter=later\n")
    assert b"a.txt" in repository.ask(["status", "--porcelain"]).data
    assert b"a.txt" in repository.ask(["diff", "HEAD"]).data
    assert made.ran() == []


def test_an_environment_meant_for_another_git_changes_nothing(
    hostile: HostileRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    trap = hostile.trap("environment")
    for name, value in {
        "GIT_DIR": str(hostile.top / "nested" / ".git"),
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": trap,
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={trap}'",
        "GIT_EXTERNAL_DIFF": trap,
        "GIT_PAGER": trap,
        "GIT_EXEC_PATH": str(tmp_path),
        "GIT_TRACE2_EVENT": str(tmp_path / "trace"),
        "GIT_TEMPLATE_DIR": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    assert ask_git(str(hostile.top), ["rev-parse", "--show-toplevel"]).data.decode().strip() == (
        str(hostile.top)
    )
    assert b"a.txt" in ask_git(str(hostile.top), ["diff", "HEAD"]).data
    assert hostile.ran() == [] and not (tmp_path / "trace").exists()


def test_a_git_that_lies_in_the_project_is_not_run(
    hostile: HostileRepository, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(hostile.top)
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", f".::{hostile.top}:{hostile.top / 'link-here'}:{path}")
    assert ask_git(str(hostile.top), ["rev-parse", "HEAD"]).data
    assert hostile.ran() == []
    monkeypatch.setenv("PATH", f".:{hostile.top}")
    with pytest.raises(GitError, match="outside the project"):
        expect_repository(str(hostile.top)).ask(["status"])
    assert hostile.ran() == []


def test_a_promised_object_is_not_fetched(tmp_path: Path):
    made = make_hostile_repository(tmp_path / "own")
    blob = git(made.top, "-c", "core.fsmonitor=false", "rev-parse", "HEAD:b.odd").strip()
    (made.top / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitError):
        ask_git(str(made.top), ["cat-file", "-p", blob])
    with pytest.raises(GitError):
        ask_git(str(made.top), ["diff", "HEAD"])
    assert made.ran() == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config", b"[core\n"),
        ("config", b"[core]\n\tbare = \\q\n"),
        ("config", b"\0\1\2"),
        ("config", b"[core]\n" + b"# " * 600_000),
        ("config", b"[core]\n\trepositoryFormatVersion = 7\n"),
        ("config", b"[extensions]\n\tfromTheFuture = true\n"),
        ("config", b"[extensions]\n\trefStorage = reftable\n"),
        ("config", b"[extensions]\n\tobjectFormat = md5\n"),
        ("HEAD", b"ref: ../../elsewhere\n"),
        ("HEAD", b"ref: refs/heads/a..b\n"),
        ("HEAD", b"ref: refs/heads/main\nref: refs/heads/other\n"),
        ("HEAD", b"ref: refs/heads/main other\n"),
        ("HEAD", b"\x1b[2J\n"),
        ("HEAD", b""),
        ("commondir", b"/dev/zero\n"),
    ],
)
def test_what_is_not_understood_whole_is_refused(tmp_path: Path, name: str, content: bytes):
    top = new_repository(tmp_path / "work", {"a": "a\n"})
    (top / ".git" / name).write_bytes(content)
    if name == "commondir":
        assert find_repository(str(top)) is None  # as for git: it is none
        return
    with pytest.raises(GitUnsafeError, match="git was not run"):
        ask_git(str(top), ["status"])


@pytest.mark.parametrize("name", ["config", "HEAD", "index", "packed-refs", "info/exclude"])
@pytest.mark.parametrize("kind", ["pipe", "device", "directory"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str, kind: str):
    top = new_repository(tmp_path / "work", {"a": "a\n"})
    path = top / ".git" / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    begun = time.monotonic()
    with pytest.raises(GitUnsafeError, match="git was not run"):
        ask_git(str(top), ["status"])
    assert time.monotonic() - begun < 10


def test_settings_that_cannot_be_read_are_refused(tmp_path: Path):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    top = new_repository(tmp_path / "work", {"a": "a\n"})
    config = top / ".git" / "config"
    config.chmod(0)
    try:
        with pytest.raises(GitUnsafeError, match="permission denied"):
            ask_git(str(top), ["status"])
    finally:
        config.chmod(0o644)


def test_how_files_are_compared_is_the_persons_to_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = tmp_path / "home"
    (home / "more").mkdir(parents=True)
    (home / ".gitconfig").write_text("[include]\n\tpath = more/settings\n")
    (home / "more" / "settings").write_text("[core]\n\texcludesFile = ~/ignored\n")
    (home / "ignored").write_text("*.own\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    top = new_repository(tmp_path / "work", {"run.sh": "x\n", "crlf.txt": "a\n"})
    git(top, "config", "core.autocrlf", "true")
    git(top, "config", "core.fileMode", "false")
    (top / "run.sh").chmod(0o755)
    (top / "crlf.txt").write_bytes(b"a\r\n")
    (top / "x.own").write_text("ignored\n")
    (top / "new").write_text("new\n")
    assert ask_git(str(top), ["status", "--porcelain", "--", ":!crlf.txt"]).data == b"?? new\n"
    assert ask_git(str(top), ["diff", "HEAD"]).data == b""


def test_a_person_without_settings_and_a_default_list_of_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    (tmp_path / "settings" / "git").mkdir(parents=True)
    (tmp_path / "settings" / "git" / "ignore").write_text("*.own\n")
    top = new_repository(tmp_path / "work", {"a": "a\n"})
    (top / "x.own").write_text("ignored\n")
    assert ask_git(str(top), ["status", "--porcelain"]).data == b""


def variants(tmp_path: Path) -> dict[str, Path]:
    """Repositories of every ordinary shape."""
    plain = new_repository(tmp_path / "plain", {"a": "a\n", "sub/b": "b\n"})
    split = new_repository(tmp_path / "split", {"a": "a\n"})
    git(split, "update-index", "--split-index")
    packed = new_repository(tmp_path / "packed", {"a": "a\n"})
    git(packed, "gc", "-q")
    git(packed, "pack-refs", "--all")
    detached = new_repository(tmp_path / "detached", {"a": "a\n"})
    git(detached, "checkout", "-q", "--detach")
    borrowed = tmp_path / "borrowed"
    git(tmp_path, "clone", "-q", "--shared", str(plain), str(borrowed))
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{plain}", str(shallow))
    long = tmp_path / "long"
    long.mkdir()
    git(long, "init", "-q", "--object-format=sha256")
    (long / "a").write_text("a\n")
    git(long, "add", "-A")
    git(long, "commit", "-q", "-m", "x")
    sparse = tmp_path / "sparse"
    git(tmp_path, "clone", "-q", "--shared", str(plain), str(sparse))
    git(sparse, "sparse-checkout", "set", "--cone", "--sparse-index", "nothing")
    odd = new_repository(tmp_path / "odd ä\n name", {"a": "a\n"})
    linked = tmp_path / "linked"
    git(plain, "worktree", "add", "-q", str(linked), "-b", "side")
    return {
        path.name: path
        for path in (plain, split, packed, detached, borrowed, shallow, long, sparse, odd, linked)
    }


def test_what_git_says_is_what_it_says_to_people(tmp_path: Path):
    for name, path in variants(tmp_path).items():
        (path / "a").write_text("changed\n")
        (path / "new").write_text("new\n")
        before = untouched(path)
        for words in (["status", "--porcelain"], ["diff", "HEAD"], ["rev-parse", "HEAD"]):
            ours = ask_git(str(path), words).data.decode("utf-8", "replace")
            assert ours == git(path, *words), (name, words)
        assert untouched(path) == before, name
        branch = git(path, "rev-parse", "--abbrev-ref", "HEAD").strip()
        if branch == "HEAD":
            branch = git(path, "rev-parse", "--short", "HEAD").strip()
        assert expect_repository(str(path)).branch == branch


def test_a_place_without_a_repository(tmp_path: Path):
    assert find_repository(str(tmp_path)) is None
    with pytest.raises(NotARepositoryError, match="is not in a git repository"):
        ask_git(str(tmp_path), ["status"])
    with pytest.raises(GitError, match="nowhere"):
        ask_git(str(tmp_path / "nowhere"), ["status"])
    (tmp_path / ".git").mkdir()
    assert find_repository(str(tmp_path)) is None
    (tmp_path / ".git").rmdir()
    (tmp_path / ".git").symlink_to(".git")
    assert find_repository(str(tmp_path)) is None


def test_a_broken_file_of_the_person_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / ".gitconfig").write_text("[broken\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    top = new_repository(tmp_path / "work", {"a": "a\n"})
    with pytest.raises(GitError, match=r"\.gitconfig"):
        ask_git(str(top), ["status"])


def test_output_is_bounded_and_errors_are_told(tmp_path: Path):
    top = new_repository(tmp_path / "work", {"a": "a\n" * 100_000})
    answer = ask_git(str(top), ["log", "-p"], most=10)
    assert len(answer.data) == 10 and answer.is_cut
    with pytest.raises(GitError, match="nowhere"):
        ask_git(str(top), ["log", "nowhere"])
    for option in ("--ext-diff", "--textc", "--ignore-submodules=none", "--submodule=diff"):
        with pytest.raises(ValueError, match="does not accept"):
            ask_git(str(top), ["diff", option, "HEAD"])
    for verb in ("st", "-c", "--exec-path=/tmp", "submodule", "fetch", "../evil"):
        with pytest.raises(ValueError, match="not among"):
            ask_git(str(top), [verb, "x"])


def test_a_git_that_hangs_is_ended_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program, note = tmp_path / "bin" / "git", tmp_path / "note"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > {note}\ncat >&2 /dev/zero\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(GitError, match=r"did not answer within 0\.5 s"):
        run_git(GitPlaces(git_dir=str(tmp_path)), ["status"], seconds=0.5)
    child = int(note.read_text())
    until = time.monotonic() + 10
    while _is_alive(child):
        assert time.monotonic() < until, "what git started still runs"
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    said = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True).stdout
    return bool(said.strip()) and not said.startswith(b"Z")


def test_one_module_runs_git():
    """Whoever needs git uses ``system/git``: it is what keeps a repository from running things."""
    offenders: list[str] = []
    for path in SOURCE.rglob("*.py"):
        if path.is_relative_to(SOURCE / "testing") or path == SOURCE / "system" / "git.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            given: list[ast.expr] = []
            if isinstance(node, ast.Call):
                given = [*node.args, *(word.value for word in node.keywords)]
            lists = [one for one in (node, *given) if isinstance(one, ast.List)]
            lists += [one for one in given if isinstance(one, ast.Tuple)]
            firsts = (one.elts[0] for one in lists if one.elts)
            if any(isinstance(one, ast.Constant) and one.value == "git" for one in firsts):
                offenders.append(f"{path}:{getattr(node, 'lineno', 0)}")
    assert offenders == []


def test_a_repository_is_a_value():
    repository = GitRepository(top="/a", git_dir="/a/.git", common_dir="/a/.git", head="0" * 40)
    assert repository.branch == "0000000" and not repository.is_on_branch
    assert repository.index == "/a/.git/index" and repository.objects == "/a/.git/objects"
