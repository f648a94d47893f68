"""Checks, tear-downs and set-ups run what agents wrote: in the sandbox, where there is one."""

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.fleet.landing.api import LandingOptions
from quarterdeck.fleet.local import LocalFleet
from quarterdeck.system.sandbox import SANDBOX_VARIABLE, detect_sandbox_now
from quarterdeck.wire.events import CommandRan
from quarterdeck.wire.worktrees import WorktreeOptions
from tests.support.deadlines import SOON
from tests.support.puppet_fleet import leading
from tests.support.scripted_fleet import Casting, events_of, fleet_of, new_agent
from tests.support.work_trees import git, new_repository, state_of, untouched

ATTACK = """
echo pwned > "$QUARTERDECK_REPOSITORY/pwned"
echo pwned >> "$QUARTERDECK_REPOSITORY/a.txt"
common=$(git rev-parse --path-format=absolute --git-common-dir)
echo pwned > "$common/hooks/pre-commit"
echo pwned > "$common/pwned"
echo pwned > "$(git rev-parse --path-format=absolute --git-dir)/config.worktree"
git update-ref refs/heads/pwned HEAD
git -c user.name=x -c user.email=x@x commit --allow-empty -qm pwned
git branch -f elsewhere HEAD
echo pwned > ../pwned
(exec 3<>/dev/tcp/127.0.0.1/PORT) && echo "connected"
[ -z "$A_TOKEN" ] || echo "has a token"
git rev-parse HEAD && echo built > built && echo kept > "${TMPDIR:-/tmp}/kept" && echo worked
exit CODE
"""


@pytest.fixture(params=["bubblewrap", "landlock", "none"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(SANDBOX_VARIABLE, request.param)
    found = detect_sandbox_now()
    if found.kind != request.param:
        pytest.skip(found.reason)
    return found.kind


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not below /tmp, which is another place inside."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-", dir="/var/tmp") as directory:
        path = Path(directory).resolve()
        new_repository(path / "project", {"a.txt": "a\n"})
        git(path / "project", "checkout", "-q", "-b", "elsewhere")
        yield path


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def attack(port: int, code: int = 0) -> str:
    return ATTACK.replace("PORT", str(port)).replace("CODE", str(code))


def settings(folder: Path, text: str) -> None:
    (folder / "home").mkdir(exist_ok=True)
    (folder / "home" / "config.toml").write_text(text)


async def start(fleet: LocalFleet, folder: Path, files: dict[str, str]) -> Path:
    options = WorktreeOptions(base="main")
    await fleet.spawn(
        new_agent(folder / "project", name="ann", prompt="say done", worktree=options)
    )
    await fleet.wait(["ann"], timeout=SOON)
    worktree = (await fleet.agent("ann")).worktree
    assert worktree is not None
    write(top := Path(worktree.path), files)
    return top


def write(top: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (top / name).write_text(text)


def traces_in(folder: Path) -> list[Path]:
    return list(folder.rglob("pwned"))


async def ran(fleet: LocalFleet, name: str) -> list[CommandRan]:
    return [one for one in await events_of(fleet, name) if isinstance(one, CommandRan)]


async def test_a_check_changes_nothing_but_its_own_files(
    kind: str, folder: Path, port: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("A_TOKEN", "secret")
    project = folder / "project"
    async with fleet_of(folder / "home", Casting()) as fleet:
        top = await start(fleet, folder, {"check.sh": attack(port, 1)})
        before = (untouched(project)[:-1], state_of(project), state_of(top))
        options = LandingOptions(check="bash check.sh")
        result = await fleet.land("ann", options)
        assert result.state == "check" and "worked" in result.output
        assert "has a token" not in result.output
        (command,) = await ran(fleet, "ann")
        assert ("it ran in the sandbox" in command.output) == (kind != "none")
        if kind == "none":
            assert (project / "pwned").exists()  # as the documentation says
            return
        assert "connected" not in result.output
        assert (untouched(project)[:-1], state_of(project), state_of(top)) == before
        assert not (project / ".git" / "hooks" / "pre-commit").exists()
        assert traces_in(folder) == []
        write(top, {"check.sh": attack(port, 0)})
        assert (await fleet.land("ann", options)).state == "landed"
        assert git(project, "ls-tree", "--name-only", "main") == "a.txt\ncheck.sh\n"
        assert "pwned" not in git(project, "for-each-ref")


async def test_the_network_and_other_directories_are_as_the_settings_say(
    kind: str, folder: Path, port: int
):
    (folder / "cache").mkdir()
    writable = f'[sandbox]\nnetwork = true\nwritable = ["{folder}/cache"]\n'
    settings(folder, writable)
    async with fleet_of(folder / "home", Casting()) as fleet:
        await start(fleet, folder, {"new.txt": "new\n"})
        line = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo x > {folder}/cache/x"
        result = await fleet.land("ann", LandingOptions(check=f"bash -c '{line}'"))
        assert (result.state, result.output) == ("landed", "")
        assert (folder / "cache" / "x").exists(), kind


async def test_a_person_can_let_checks_run_outside(kind: str, folder: Path):
    settings(folder, "[landing]\nsandbox = false\n")
    async with fleet_of(folder / "home", Casting()) as fleet:
        await start(fleet, folder, {"new.txt": "new\n"})
        result = await fleet.land("ann", LandingOptions(check=f"echo x > {folder}/outside"))
        assert result.state == "landed" and (folder / "outside").exists(), kind


async def test_a_sandbox_that_is_required_and_missing_fails_the_check(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(SANDBOX_VARIABLE, "none")
    settings(folder, "[sandbox]\nrequire = true\n")
    async with fleet_of(folder / "home", Casting()) as fleet:
        await start(fleet, folder, {"new.txt": "new\n"})
        result = await fleet.land("ann", LandingOptions(check=f"echo x > {folder}/outside"))
        assert result.state == "check" and "sandbox.require" in result.output
        assert not (folder / "outside").exists()


async def test_a_tear_down_runs_what_the_agent_wrote_and_is_contained(
    kind: str, folder: Path, port: int
):
    settings(folder, '[worktrees]\nteardown = ["bash clean.sh"]\n')
    project = folder / "project"
    async with fleet_of(folder / "home", Casting()) as fleet:
        top = await start(fleet, folder, {"clean.sh": attack(port)})
        await fleet.close("ann")
        before = git(project, "rev-parse", "elsewhere")
        await fleet.discard_worktree("ann")
        (command,) = await ran(fleet, "ann")
        assert "worked" in command.output and not top.exists()
        assert (project / "pwned").exists() == (kind == "none")
        if kind != "none":
            assert git(project, "rev-parse", "elsewhere") == before
            assert "connected" not in command.output


async def test_a_set_up_is_contained_for_the_child_of_an_agent_alone(
    kind: str, folder: Path, port: int
):
    settings(folder, '[worktrees]\nsetup = ["bash setup.sh; true"]\n')
    project = folder / "project"
    async with leading(folder) as led:
        await led.lead(cwd=str(project))
        # What an agent may do in its own workspace: commit a file.
        (project / "setup.sh").write_text(attack(port))
        await asyncio.to_thread(git, project, "add", "setup.sh")
        await asyncio.to_thread(git, project, "commit", "-qm", "work")
        said = await led.call("boss", "spawn_agent", name="kid", task="say done", worktree=True)
        assert not said.is_error, said.text
        await led.there("kid")
        (command,) = await ran(led.fleet, "kid")
        assert "worked" in command.output
        assert (project / "pwned").exists() == (kind == "none")
        (project / "pwned").unlink(missing_ok=True)
        await led.fleet.spawn(new_agent(project, name="own", worktree=WorktreeOptions()))
        await led.there("own")
        assert (project / "pwned").exists(), "what a person starts runs as the person"
