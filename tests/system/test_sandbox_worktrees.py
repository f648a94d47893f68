"""Commands in a sandbox whose workspace is a linked worktree: they commit, and reach no further."""

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from quarterdeck.system.api import CommandSpec
from quarterdeck.system.sandbox import (
    Sandbox,
    SandboxedSystem,
    find_linked_directory,
    probe_bubblewrap,
    probe_landlock,
)

PROBES = {"bubblewrap": cache(probe_bubblewrap), "landlock": cache(probe_landlock)}
NAMED = "git -c user.name=Ann -c user.email=ann@example.org"


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    found = PROBES[request.param]()
    if not found.is_there:
        pytest.skip(found.reason)
    return found


@pytest.fixture(params=["/var/tmp", "/tmp"])
def place(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Below /tmp too, which is another place inside."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-", dir=request.param) as directory:
        yield Path(directory).resolve()


@pytest.fixture
def worktree(place: Path) -> Path:
    script = f"""
        git init -q -b main project && cd project
        {NAMED} commit -q --allow-empty -m first
        git worktree add -q -b quarterdeck/ann ../ann
        git worktree add -q -b quarterdeck/bob ../bob
        git update-ref refs/quarterdeck/trash/one HEAD
    """
    subprocess.run(["bash", "-ec", script], cwd=place, check=True, capture_output=True)
    return place / "ann"


async def run(sandbox: Sandbox, root: Path, script: str) -> tuple[int | None, str]:
    async with SandboxedSystem([root], sandbox) as system:
        terminal = await system.terminals.create(CommandSpec(argv=["/bin/bash", "-c", script]))
        left = await terminal.wait()
        return left.code, (await terminal.output()).text


async def test_a_command_commits_in_a_linked_worktree(sandbox: Sandbox, worktree: Path):
    script = f"echo x > a.txt && git add a.txt && {NAMED} commit -qm second && git status --short"
    assert await run(sandbox, worktree, script) == (0, "")
    log = ("git", "-C", str(worktree.parent / "project"), "log", "--format=%s", "quarterdeck/ann")
    done = await asyncio.to_thread(subprocess.run, log, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["second", "first"]


async def test_a_command_sees_the_settings_of_the_repository(sandbox: Sandbox, worktree: Path):
    project = worktree.parent / "project"
    script = """
        git config user.name Ann && git config user.email ann@example.org
        git pack-refs --all && echo '*.log' >> .git/info/exclude
    """
    await asyncio.to_thread(
        subprocess.run, ["bash", "-ec", script], cwd=project, check=True, capture_output=True
    )
    script = """
        echo x > a.txt && echo x > a.log && git add . && git commit -qm second
        git log --format='%an %s' && git rev-parse -q --verify main >&2 && git ls-files
    """
    code, printed = await run(sandbox, worktree, script)
    assert (code, printed.splitlines()[:2]) == (0, ["Ann second", "Ann first"])
    assert printed.splitlines()[-1] == "a.txt"


BEYOND = [
    "echo x > {git}/hooks/post-checkout",
    "echo x >> {git}/config",
    "echo x >> {git}/worktrees/bob/HEAD",
    "echo x > {git}/worktrees/new",
    "echo x > {git}/refs/quarterdeck/trash/two",
    "rm {git}/refs/quarterdeck/trash/one",
    "echo x > {git}/HEAD",
    "echo x > {place}/project/a.txt",
    "echo x > {place}/bob/a.txt",
]


def contents(place: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


async def test_and_changes_nothing_else_of_the_repository(sandbox: Sandbox, worktree: Path):
    git, place = worktree.parent / "project" / ".git", worktree.parent
    before = await asyncio.to_thread(contents, place)
    beyond = [line.format(git=git, place=place) for line in BEYOND]
    lines = [f"({line}) 2>/dev/null && echo '{line}'" for line in beyond]
    _, done = await run(sandbox, worktree, "\n".join([*lines, "true"]))
    # Beside the repository, /tmp is an empty one of the command's own.
    own = place.is_relative_to("/tmp") and sandbox.kind == "bubblewrap"
    assert [line for line in done.splitlines() if not own or str(git) in line] == []
    assert await asyncio.to_thread(contents, place) == before


async def test_the_link_to_the_repository_stays(worktree: Path):
    sandbox = PROBES["bubblewrap"]()
    if not sandbox.is_there:
        pytest.skip(sandbox.reason)
    own = worktree.parent / "project" / ".git" / "worktrees" / "ann"
    lines = [
        f"(echo x > {own / name}) 2>/dev/null && echo {name}" for name in ("commondir", "gitdir")
    ]
    lines += ["(echo x > .git) 2>/dev/null && echo .git"]
    assert (await run(sandbox, worktree, "\n".join([*lines, "true"])))[1] == ""


def forge(top: Path, victim: Path, back: Path) -> None:
    """A worktree whose file names a directory that somebody else owns."""
    top.mkdir()
    (top / ".git").write_text(f"gitdir: {victim}\n")
    victim.mkdir(parents=True, exist_ok=True)
    (victim / "gitdir").write_text(f"{back}\n")
    (victim / "commondir").write_text("../..\n")


def test_a_file_that_names_somebody_elses_directory_opens_nothing(worktree: Path, place: Path):
    git = place / "project" / ".git"
    found = find_linked_directory(str(worktree))
    assert found is not None and found.writable[0] == str(git / "worktrees" / "ann")
    liar = place / "liar"
    liar.mkdir()
    (liar / ".git").write_text(f"gitdir: {git}/worktrees/bob\n")
    assert find_linked_directory(str(liar)) is None
    (liar / ".git").write_text(f"gitdir: {place}\n")
    assert find_linked_directory(str(liar)) is None
    assert find_linked_directory(str(place / "project")) is None
    assert find_linked_directory(str(place)) is None


def test_a_git_directory_with_links_opens_nothing(place: Path):
    victim = place / "evil" / "worktrees" / "x"
    forge(place / "top", victim, place / "top" / ".git")
    (place / "keys").mkdir()
    (place / "evil" / "objects").symlink_to(place / "keys")
    assert find_linked_directory(str(place / "top")) is None
    (place / "evil" / "objects").unlink()
    assert find_linked_directory(str(place / "top")) is not None
    (victim / "commondir").write_text("../../../keys\n")
    assert find_linked_directory(str(place / "top")) is None
