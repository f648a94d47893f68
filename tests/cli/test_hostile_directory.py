"""Nothing that a repository names runs because agents work in it, short of a person's leave."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from quarterdeck.agent.checkpoints.restore import FileRestorer
from quarterdeck.agent.checkpoints.snapshot import TurnSnapshots
from quarterdeck.policy.modes import Mode
from quarterdeck.wire.events import Checkpointed, Rewound
from quarterdeck.wire.ids import TurnId
from tests.support.hostile_repository import HostileRepository, make_hostile_repository
from tests.support.native_agents import call, deck, says

SCRIPT = Path(sys.executable).with_name("quarterdeck")
MODES: tuple[Mode, ...] = ("read-only", "ask", "accept-edits", "plan", "deny-all")
COMMANDS = (
    ("doctor",), ("agents",), ("ps",), ("history",), ("sessions",), ("hooks", "list"),
    ("hooks", "test", "before_tool"), ("mcp-servers", "list"), ("mcp-servers", "test"),
    ("permissions", "list"), ("config", "check"), ("config", "show"), ("journal", "check"),
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> HostileRepository:
    """As ``work`` in the test's own directory."""
    return make_hostile_repository(tmp_path)


@pytest.fixture
def environment(home: Path) -> Iterator[dict[str, str]]:
    """A home in which a fake agent is one of the user's own; a host that is started there ends."""
    agents = home / "quarterdeck" / "agents"
    agents.mkdir(parents=True)
    command = [sys.executable, "-m", "quarterdeck.testing.acp_agent"]
    (agents / "fake-acp.toml").write_text(
        f'title = "Fake"\ninstall = "x"\n[transports.acp]\ncommand = {json.dumps(command)}\n'
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "QUARTERDECK_HOME": str(home / "quarterdeck"),
        "LANG": "C.UTF-8",
    }
    yield environment
    subprocess.run([SCRIPT, "host", "stop"], env=environment, capture_output=True, timeout=50)


def quarterdeck(
    hostile: HostileRepository, environment: dict[str, str], *words: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [SCRIPT, *words],
        cwd=hostile.top,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=50,
    )


def test_commands_that_only_look(hostile: HostileRepository, environment: dict[str, str]):
    for words in COMMANDS:
        done = quarterdeck(hostile, environment, *words)
        assert "unexpected error" not in done.stderr, (words, done.stderr)
    assert hostile.ran() == []


def test_our_own_agent_on_the_command_line(hostile: HostileRepository, environment: dict[str, str]):
    done = quarterdeck(hostile, environment, "run", "-m", "scripted/default", "hello")
    assert done.returncode == 0, done.stderr
    session = quarterdeck(hostile, environment, "sessions", "--json").stdout
    assert session
    for words in (("sessions", "turns"), ("sessions", "diff"), ("journal", "export")):
        quarterdeck(hostile, environment, *words)
    assert hostile.ran() == []


def test_agents_of_others(hostile: HostileRepository, environment: dict[str, str]):
    """Fakes: a real agent reads settings of its own there, which is beyond our reach."""
    done = quarterdeck(hostile, environment, "run", "-a", "fake-acp", "echo hello")
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    done = quarterdeck(hostile, environment, "run", "-a", "fake-acp", "ask make things")
    assert done.returncode == 4
    assert hostile.ran() == []


async def look_around(tmp_path: Path, mode: Mode, *commands: str) -> str:
    """What the model is told of reading everywhere and of some commands."""
    replies = [
        says(
            call("ls", path="."),
            call("read", path="link-zero"),
            call("read", path="pipe"),
            call("read", path="link-file"),
            call("read", path="link-root/etc/passwd"),
            call("read", path="link-up/outside/secret.txt"),
            call("read", path="AGENTS.md"),
            call("grep", pattern="x", path="."),
            call("glob", pattern="**/*"),
        ),
        says(call("write", path="made.txt", content="made\n")),
        *(says(call("bash", command=command)) for command in commands),
        "done",
    ]
    flags = {"permissions": {"patience": 0.2}}
    async with asyncio.timeout(50), deck(tmp_path, *replies, mode=mode, flags=flags) as ship:
        await ship.prompt("look around")
        if mode == "accept-edits":
            await ship.session.checkpoints.undo(conversation=False)
            assert not await asyncio.to_thread((tmp_path / "work" / "made.txt").exists)
        return "".join(str(request.messages) for request in ship.requests)


@pytest.mark.parametrize("mode", MODES)
async def test_our_agent_in_every_mode_short_of_a_grant(
    hostile: HostileRepository, tmp_path: Path, mode: Mode
):
    trap = hostile.trap("agent")
    commands = (trap, "./git status; make; ls", f"ls && {trap}", f"ls; [[ a == $({trap}) ]]")
    said = await look_around(tmp_path, mode, *commands)
    assert "root:x:" not in said and "secret\\n" not in said
    assert await asyncio.to_thread(hostile.ran) == []


@pytest.mark.parametrize("mode", MODES[:-1])
async def test_git_that_the_agent_runs_unasked(
    hostile: HostileRepository, tmp_path: Path, mode: Mode
):
    await look_around(tmp_path, mode, "git status", "git diff", "git log -p | head")
    assert await asyncio.to_thread(hostile.ran) == []


def test_checkpoints_bring_everything_back_to_the_byte(hostile: HostileRepository, tmp_path: Path):
    top, turn = hostile.top, TurnId("trn_1")
    changed = ("a.txt", "src/kept.py", "b.odd", "c.inc", ".gitattributes", "odd/-rf")
    before = {name: (top / name).read_bytes() for name in changed}
    secret = (hostile.outside / "secret.txt").read_bytes()
    keeping = TurnSnapshots(tmp_path / "state", "ses_" + "0" * 26, (str(top), str(top / "sub")))
    pending = keeping.begin(turn)
    assert pending.problems == []
    keeping.keep(pending, os.fsencode(top / "hard-link.txt"))
    for name in changed:
        (top / name).write_bytes(b"agent\r\n$Id$\n")
    (top / "hard-link.txt").unlink()
    (top / "new.txt").write_bytes(b"new\r\n")
    (top / "sub" / "s.txt").write_bytes(b"agent\r\n")
    (checkpoint,) = keeping.finish(pending)
    assert isinstance(checkpoint, Checkpointed)
    manifest = keeping.blobs.get_manifest(checkpoint.manifest)
    restoring = FileRestorer(keeping.directory, keeping.blobs, keeping.root)
    plan = restoring.plan([change.reversed for change in manifest.changes])
    restoring.carry_out(plan, Rewound(to=turn))
    restoring.done()
    assert {name: (top / name).read_bytes() for name in changed} == before
    assert (top / "hard-link.txt").read_bytes() == secret and not (top / "new.txt").exists()
    assert (hostile.outside / "secret.txt").read_bytes() == secret
    assert hostile.ran() == []


def test_every_repository_in_it_can_be_written_down(hostile: HostileRepository, tmp_path: Path):
    for number, (name, path) in enumerate(hostile.repositories.items()):
        keeping = TurnSnapshots(tmp_path / "state", f"ses_{number:026}", (str(path),))
        pending = keeping.begin(TurnId("trn_1"))
        assert (pending.problems, len(pending.snapshots)) == ([], 1), name
        keeping.finish(pending)
        assert hostile.ran() == [], name
