"""Commands in a sandbox: what they can do, what they cannot, and that the port stays the port."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path

import pytest

from quarterdeck.system import landlock
from quarterdeck.system.api import CommandSpec, ProcessExit
from quarterdeck.system.errors import CommandNotFoundError, OutsideRootsError
from quarterdeck.system.process_tree import MARK_VARIABLE, ProcessTree, find_processes
from quarterdeck.system.sandbox import (
    SANDBOX_VARIABLE,
    NoSandboxError,
    Sandbox,
    SandboxedSystem,
    detect_sandbox,
    probe_bubblewrap,
    probe_landlock,
)
from tests.support.deadlines import SOON

PROBES = {"bubblewrap": cache(probe_bubblewrap), "landlock": cache(probe_landlock)}


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    found = PROBES[request.param]()
    if not found.is_there:
        pytest.skip(found.reason)
    return found


@pytest.fixture
async def system(root: Path, sandbox: Sandbox) -> AsyncIterator[SandboxedSystem]:
    async with SandboxedSystem([root], sandbox) as system:
        yield system


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory of somebody else, which is not below /tmp: that is another place inside."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-", dir="/var/tmp") as directory:
        (Path(directory) / "secret").write_text("secret")
        yield Path(directory)


@pytest.fixture
def server() -> Iterator[int]:
    """The port of somebody who listens on this machine."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


async def sh(system: SandboxedSystem, script: str, **more: str) -> tuple[ProcessExit, str]:
    terminal = await system.terminals.create(
        CommandSpec(argv=["/bin/bash", "-c", script], env=more)
    )
    try:
        return await terminal.wait(), (await terminal.output()).text
    finally:
        await terminal.release()


def connecting(port: int) -> str:
    return f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"


async def test_the_workspace_can_be_changed(system: SandboxedSystem, root: Path):
    script = (
        "mkdir -p a/b && echo x > a/b/c && mv a/b/c d && ln d e && rm e && : > d && echo y >> d"
    )
    left, text = await sh(system, script)
    assert (left, text) == (ProcessExit(code=0), "")
    assert await asyncio.to_thread((root / "d").read_text) == "y\n"


CHANGES = [
    "echo x > {outside}/new",
    "echo x >> {outside}/secret",
    ": > {outside}/secret",
    "truncate -s 0 {outside}/secret",
    "rm {outside}/secret",
    "mv {outside}/secret .",
    "mkdir {outside}/dir",
    "ln -s x {outside}/link",
    "ln {outside}/secret hard && echo x > hard",
    "ln -s {outside}/secret soft && echo x > soft",
    "chmod 777 {outside}/secret && echo x > {outside}/secret",
    "cp /etc/passwd /etc/quarterdeck-test",
]


async def test_nothing_outside_can_be_changed(system: SandboxedSystem, outside: Path):
    lines = [f"({line.format(outside=outside)}) 2>/dev/null && echo '{line}'" for line in CHANGES]
    _, text = await sh(system, f"cat {outside}/secret; echo;" + "\n".join(lines))
    assert text == "secret\n", "it can be seen, and none of the changes came to pass"
    assert sorted(os.listdir(outside)) == ["secret"]  # noqa: PTH208
    assert await asyncio.to_thread((outside / "secret").read_text) == "secret"


async def test_outside_can_be_read(system: SandboxedSystem, root: Path):
    left, text = await sh(system, "cat /etc/passwd | head -c 4; ls / > listing")
    assert (left, text) == (ProcessExit(code=0), "root")


async def test_temporary_files_work_and_last_for_the_session(system: SandboxedSystem):
    assert await sh(system, "f=$(mktemp) && echo kept > $f && cp $f $TMPDIR/known") == (
        ProcessExit(code=0),
        "",
    )
    assert await sh(system, "cat $TMPDIR/known") == (ProcessExit(code=0), "kept\n")
    assert not await asyncio.to_thread(os.path.exists, "/tmp/known")


async def test_the_network_is_out_of_reach(system: SandboxedSystem, server: int):
    left, text = await sh(system, connecting(server))
    assert not left.is_success
    assert "reached" not in text
    udp = "import socket; socket.socket(2, 2).sendto(b'x', ('192.0.2.1', 9)); print('sent')"
    left, text = await sh(system, f'{sys.executable} -I -c "{udp}"')
    assert not left.is_success
    assert "sent" not in text


async def test_the_network_can_be_allowed(root: Path, sandbox: Sandbox, server: int):
    async with SandboxedSystem([root], sandbox, network=True) as system:
        assert await sh(system, connecting(server)) == (ProcessExit(code=0), "reached\n")


async def test_daemons_cannot_be_asked(system: SandboxedSystem):
    """A local socket below /tmp, as multiplexers have, leads nowhere."""
    path = f"/tmp/quarterdeck-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(path)
        daemon.listen()
        code = f"import socket; socket.socket(1).connect('{path}'); print('reached')"
        try:
            left, text = await sh(system, f'{sys.executable} -I -c "{code}"')
        finally:
            await asyncio.to_thread(os.unlink, path)
    assert not left.is_success
    assert "reached" not in text


async def test_processes_outside_are_left_alone(system: SandboxedSystem):
    left, _ = await sh(system, f"kill -0 {os.getpid()}")
    assert not left.is_success


async def test_privileges_cannot_be_gained(system: SandboxedSystem):
    left, text = await sh(system, "grep NoNewPrivs /proc/self/status")
    assert (left, text) == (ProcessExit(code=0), "NoNewPrivs:\t1\n")


async def test_further_directories_can_be_changed(root: Path, sandbox: Sandbox):
    more = root.parent / "more"
    more.mkdir()
    async with SandboxedSystem([root], sandbox, writable=[more]) as system:
        left, _ = await sh(system, f"echo x > {more}/new")
        assert left == ProcessExit(code=0)


async def test_exit_codes_and_signals_pass_through(system: SandboxedSystem, sandbox: Sandbox):
    assert (await sh(system, "exit 37"))[0] == ProcessExit(code=37)
    left, _ = await sh(system, "kill -KILL $$")
    assert left == (
        ProcessExit(signal="SIGKILL")
        if sandbox.kind == "landlock"
        else ProcessExit(code=128 + signal.SIGKILL)
    )


async def test_directory_environment_and_descriptors(system: SandboxedSystem, root: Path):
    (root / "sub dir").mkdir()
    terminal = await system.terminals.create(
        CommandSpec(argv=["bash", "-c", "pwd; echo $WORD; cat"], cwd="sub dir", env={"WORD": "w x"})
    )
    assert await terminal.wait() == ProcessExit(code=0)
    assert (await terminal.output()).text == f"{root}/sub dir\nw x\n"
    await terminal.release()


async def test_a_kill_reaches_inside(system: SandboxedSystem):
    mark = ProcessTree(os.environ[MARK_VARIABLE])
    terminal = await system.terminals.create(
        CommandSpec(
            argv=["bash", "-c", "trap '' TERM; setsid sleep 60 & echo up; sleep 60; sleep 60"]
        )
    )
    async for text in terminal.follow():
        assert text == "up\n"
        break
    begun = time.monotonic()
    await terminal.kill()
    assert time.monotonic() - begun < SOON
    assert await asyncio.to_thread(find_processes, [mark]) == []
    await terminal.release()


async def test_the_whole_output_can_be_read_inside(system: SandboxedSystem, tmp_path: Path):
    spill = tmp_path / "spill" / "output"
    spill.parent.mkdir()
    terminal = await system.terminals.create(
        CommandSpec(argv=["bash", "-c", "seq 1000"]), tail=10, spill=spill
    )
    await terminal.wait()
    assert (await terminal.output()).is_truncated
    await terminal.release()
    assert await sh(system, f"head -n 2 {spill}") == (ProcessExit(code=0), "1\n2\n")


async def test_the_port_raises_as_ever(system: SandboxedSystem):
    with pytest.raises(CommandNotFoundError, match="no-such-program"):
        await system.terminals.create(CommandSpec(argv=["no-such-program"]))
    with pytest.raises(OutsideRootsError):
        await system.terminals.create(CommandSpec(argv=["true"], cwd=".."))


async def test_hooks_and_settings_stay_as_they_are_or_the_gap_is_told(root: Path, sandbox: Sandbox):
    if sandbox.kind == "landlock":
        assert any(".git/hooks" in gap for gap in sandbox.gaps)
        return
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    async with SandboxedSystem([root], sandbox) as system:
        assert not (await sh(system, "echo x > .git/hooks/pre-commit"))[0].is_success
        assert not (await sh(system, "echo x >> .git/config"))[0].is_success
        assert (await sh(system, "echo x > .git/HEAD"))[0].is_success


async def test_what_there_is_is_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(SANDBOX_VARIABLE, raising=False)
    found = await detect_sandbox()
    assert found == await detect_sandbox()
    if sys.platform == "linux" and shutil.which("bwrap") is None and landlock.landlock_abi():
        assert found.kind == "landlock"
        assert "not installed" in found.reason
    assert found.is_there == (found.kind != "none")


@pytest.mark.skipif(sys.platform != "linux", reason="there is none elsewhere")
async def test_the_person_can_name_the_one_to_use(monkeypatch: pytest.MonkeyPatch):
    for kind, probe in PROBES.items():
        monkeypatch.setenv(SANDBOX_VARIABLE, kind)
        assert (await detect_sandbox()).kind == probe().kind
    for value, reason in (("none", "says 'none'"), ("docker", "'docker'; write 'bubblewrap'")):
        monkeypatch.setenv(SANDBOX_VARIABLE, value)
        found = await detect_sandbox()
        assert (found.kind, found.seals) == ("none", False)
        assert reason in found.reason


@pytest.mark.skipif(sys.platform != "linux", reason="there is none elsewhere")
async def test_one_that_was_named_and_is_not_there_is_none(tmp_path: Path):
    """In a process of its own: what was found is remembered."""
    code = (
        "from quarterdeck.system.sandbox import detect_sandbox_now as look; f = look();"
        "print(f.kind, f.reason)"
    )
    environment = {
        "PATH": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
        SANDBOX_VARIABLE: "bubblewrap",
    }
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], env=environment, capture_output=True
    )
    assert done.stdout == b"none bubblewrap (bwrap) is not installed\n"


def test_without_a_sandbox_there_is_no_sandboxed_system(root: Path):
    with pytest.raises(NoSandboxError, match="because"):
        SandboxedSystem([root], Sandbox(kind="none", reason="because"))
