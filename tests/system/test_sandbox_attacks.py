"""A hostile command in each kind of sandbox, with a writable workspace and sealed."""

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path

import pytest

from quarterdeck.system.api import CommandSpec, ProcessExit
from quarterdeck.system.errors import SpawnError
from quarterdeck.system.local import LocalSystem
from quarterdeck.system.local_terminals import LocalTerminals
from quarterdeck.system.process_guard import shared_guard
from quarterdeck.system.sandbox import Sandbox, SandboxedSystem, probe_bubblewrap, probe_landlock
from quarterdeck.system.seccomp import has_seccomp, install_seccomp, seccomp_program
from quarterdeck.system.spawn import Confinement, start_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are for Linux")

PROBES = {"bubblewrap": cache(probe_bubblewrap), "landlock": cache(probe_landlock)}
PRELUDE = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, deed):
    try:
        found = deed()
    except OSError:
        return
    print(name, "came through:", found)
def call(name, *arguments):
    def deed():
        if libc.syscall(*arguments) < 0:
            raise OSError(ctypes.get_errno(), name)
    attempt(name, deed)
"""


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    found = PROBES[request.param]()
    if not found.is_there:
        pytest.skip(f"no {request.param} here: {found.reason}")
    if not found.seals:
        pytest.skip(f"{request.param} has gaps here: {'; '.join(found.gaps)}")
    return found


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that is not below /tmp, which is another place inside."""
    with tempfile.TemporaryDirectory(prefix="quarterdeck-", dir="/var/tmp") as directory:
        yield Path(directory).resolve()


@pytest.fixture
def project(place: Path) -> Path:
    (place / "project").mkdir()
    (place / "project" / "file").write_text("mine")
    return place / "project"


@pytest.fixture(params=["workspace", "sealed"])
async def system(
    request: pytest.FixtureRequest, project: Path, sandbox: Sandbox
) -> AsyncIterator[SandboxedSystem]:
    sealed = request.param == "sealed"
    async with SandboxedSystem([project], sandbox, sealed=sealed) as system:
        yield system


@pytest.fixture
async def workspace(project: Path, sandbox: Sandbox) -> AsyncIterator[SandboxedSystem]:
    async with SandboxedSystem([project], sandbox) as system:
        yield system


@pytest.fixture
async def sealed(project: Path, sandbox: Sandbox) -> AsyncIterator[SandboxedSystem]:
    async with SandboxedSystem([project], sandbox, sealed=True, network=True) as system:
        yield system


async def run(system: SandboxedSystem | LocalSystem, *argv: str) -> tuple[ProcessExit, str]:
    terminal = await system.terminals.create(CommandSpec(argv=argv))
    try:
        return await terminal.wait(), (await terminal.output()).text
    finally:
        await terminal.release()


async def sh(system: SandboxedSystem | LocalSystem, script: str) -> tuple[ProcessExit, str]:
    return await run(system, "/bin/bash", "-c", script)


async def python(system: SandboxedSystem, script: str) -> str:
    """What a program prints; it prints what came through."""
    left, text = await run(system, sys.executable, "-I", "-c", PRELUDE + script)
    assert left == ProcessExit(code=0), text
    return text


def content(place: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file below a directory: its permissions, its time, its content."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in sorted(place.rglob("*")):
        seen = path.lstat()
        data = path.read_bytes() if path.is_file() else b""
        found[str(path)] = seen.st_mode, seen.st_mtime_ns, data
    return found


SEALED_AGAINST = [
    "echo x > file",
    "echo x >> file",
    ": > file",
    "truncate -s 0 file",
    "echo x > new",
    "mkdir new",
    "rm -f file",
    "mv file other",
    "ln file other",
    "ln -s file other",
    "mkfifo other",
    "chmod 777 file",
    "chmod 777 .",
    "touch -d @0 file",
    "touch file",
    "cp /etc/passwd file",
    "git init .",
    "dd if=/dev/zero of=file count=1",
    "setfattr -n user.x -v y file",
    "chattr +A file",
    "exec 3<>file && echo x >&3",
]


async def test_a_sealed_command_changes_nothing(sealed: SandboxedSystem, project: Path):
    before = content(project)
    lines = [f"({line}) >/dev/null 2>&1 && echo '{line}'" for line in SEALED_AGAINST]
    _, text = await sh(sealed, "cat file; echo; " + "\n".join(lines))
    assert text == "mine\n", "it can be read, and none of the changes came to pass"
    assert content(project) == before


async def test_a_sealed_command_has_temporary_files_of_its_own(
    sealed: SandboxedSystem, workspace: SandboxedSystem
):
    assert await sh(sealed, "f=$(mktemp) && echo kept > $f && cat $f") == (
        ProcessExit(code=0),
        "kept\n",
    )
    await sh(sealed, "echo planted > $TMPDIR/known")
    assert (await sh(workspace, "cat $TMPDIR/known"))[0] != ProcessExit(code=0)


async def test_what_only_looks_works_when_sealed(sealed: SandboxedSystem, project: Path):
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    name = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "file"), (*name, "commit", "-qm", "first")):
        await asyncio.to_thread(
            subprocess.run, ["git", *words], cwd=project, check=True, env={"PATH": os.defpath}
        )
    (project / "file").write_text("changed")
    script = (
        "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'\n"
        "git status --short && git log --format=%s && git diff --stat | tail -n 1"
        " && ls | sort | wc -l && find . -name file && timeout 5 cat file && grep -c changed file"
    )
    left, text = await sh(sealed, script)
    assert left == ProcessExit(code=0), text
    assert text.splitlines()[:2] == [" M file", "first"]
    assert text.endswith("./file\nchanged1\n")


async def test_sockets_of_no_other_family_can_be_made(system: SandboxedSystem, sandbox: Sandbox):
    script = """
for family in range(1, 47):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
        try:
            socket.socket(family, kind).close()
        except OSError:
            continue
        print(family)
        break
"""
    # With bubblewrap the network is one of its own: nobody is there.
    expected = {"2", "10", "16"} if sandbox.kind == "bubblewrap" else set[str]()
    assert set((await python(system, script)).split()) <= expected


@pytest.fixture
def listeners(place: Path) -> Iterator[tuple[str, str, str, int]]:
    """Who listens outside: a stream and datagrams by path, an abstract name, a port."""
    stream, datagram = str(place / "stream.sock"), str(place / "datagram.sock")
    abstract = f"\0quarterdeck-{os.getpid()}"
    with (
        socket.socket(socket.AF_UNIX) as one,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as two,
        socket.socket(socket.AF_UNIX) as three,
        socket.socket() as four,
    ):
        for listening, address in ((one, stream), (two, datagram), (three, abstract)):
            listening.bind(address)
        four.bind(("127.0.0.1", 0))
        for listening in (one, three, four):
            listening.listen()
        yield stream, datagram, abstract, four.getsockname()[1]


@pytest.mark.parametrize("network", [False, True])
async def test_nobody_outside_can_be_talked_to(
    project: Path, sandbox: Sandbox, listeners: tuple[str, str, str, int], network: bool
):
    """The host's socket is one of these, wherever it lies; so are those of other agents."""
    stream, datagram, abstract, port = listeners
    script = f"""
stream, datagram, abstract, port = {stream!r}, {datagram!r}, {abstract!r}, {port}
attempt("stream", lambda: socket.socket(1).connect(stream))
attempt("datagram", lambda: socket.socket(1, 2).sendto(b"x", datagram))
attempt("abstract", lambda: socket.socket(1).connect(abstract))
attempt("pair", lambda: socket.socketpair(1, 2)[0].sendto(b"x", datagram))
attempt("raw pair", lambda: socket.socketpair(1, 3)[0].sendto(b"x", datagram))
attempt("stream pair", lambda: socket.socketpair(1, 1)[0].connect(stream))
attempt("pair again", lambda: socket.socketpair(1, 5)[0].connect(stream))
attempt("machine", lambda: socket.socket(40).connect((1, 1)))
a, b = socket.socketpair()
a.send(b"x")
assert b.recv(1) == b"x"
if not {network}:
    attempt("tcp", lambda: socket.create_connection(("127.0.0.1", port)))
"""
    async with SandboxedSystem([project], sandbox, network=network) as system:
        assert await python(system, script) == ""


async def test_ways_into_the_kernel_are_shut(system: SandboxedSystem):
    script = """
import fcntl, platform
if platform.machine() == "x86_64":
    numbers = dict(add_key=248, keyctl=250, bpf=321, userfaultfd=323, perf=298, mount=165,
                   setns=308, unshare=272, syslog=103, chroot=161, shmget=29)
else:
    numbers = dict(add_key=217, keyctl=219, bpf=280, userfaultfd=282, perf=241, mount=40,
                   setns=268, unshare=97, syslog=116, chroot=51, shmget=194)
data = ctypes.create_string_buffer(512)
call("io_uring", 425, 1, data)
call("keyctl", numbers["keyctl"], 0, -3, 1)
call("add_key", numbers["add_key"], b"user", b"quarterdeck", b"x", 1, -3)
call("bpf", numbers["bpf"], 0, data, 48)
call("userfaultfd", numbers["userfaultfd"], 1)
call("user name space", numbers["unshare"], 0x10000000)
call("mount", numbers["mount"], b"none", b"/tmp", b"tmpfs", 0, None)
call("log of the kernel", numbers["syslog"], 10, None, 0)
call("chroot", numbers["chroot"], b"/")
call("fsopen", 430, b"tmpfs", 0)
try:
    fcntl.ioctl(0, 0x5412, b"x")
except OSError as error:
    assert error.errno == 1, error
"""
    assert await python(system, script) == ""


async def test_processes_outside_are_out_of_reach(system: SandboxedSystem):
    script = f"""
import platform, resource, signal
pid = {os.getpid()}
x = platform.machine() == "x86_64"
attempt("signal", lambda: os.kill(pid, 0))
attempt("group", lambda: os.killpg(pid, 0))
attempt("memory", lambda: open(f"/proc/{{pid}}/mem", "r+b"))
attempt("environment", lambda: open(f"/proc/{{pid}}/environ", "rb").read(10))
attempt("root", lambda: os.listdir(f"/proc/{{pid}}/root"))
attempt("descriptors", lambda: os.readlink(f"/proc/{{pid}}/fd/0"))
attempt("limits", lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)))
call("ptrace", 101 if x else 117, 0x4206, pid, 0, 0)
handle = libc.syscall(434, pid, 0)
if handle >= 0:
    call("descriptor", 438, handle, 0, 0)
    attempt("signal by handle", lambda: signal.pidfd_send_signal(handle, 0))
data = ctypes.create_string_buffer(16)
import struct
vector = struct.pack("PN", ctypes.addressof(data), 16)
call("read memory", 310 if x else 270, pid, vector, 1, vector, 1, 0)
call("write memory", 311 if x else 271, pid, vector, 1, vector, 1, 0)
"""
    assert await python(system, script) == ""


async def test_shared_memory_of_others_is_out_of_reach(system: SandboxedSystem):
    there = Path("/dev/shm") / f"quarterdeck-test-{os.getpid()}"
    key = 0x51D0000 | os.getpid() & 0xFFFF
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(key, 4096, 0o600 | 0o1000)
    try:
        script = f"""
attempt("segment", lambda: None if libc.shmget({key}, 0, 0o600) >= 0 else os.stat("/nowhere"))
try:
    open({str(there)!r}, "w").write("theirs")
except OSError:
    pass
"""
        assert await python(system, script) == ""
        assert not there.exists()
    finally:
        there.unlink(missing_ok=True)
        libc.shmctl(segment, 0, None)


async def test_no_device_can_be_made(system: SandboxedSystem, project: Path):
    await sh(system, "mknod disk b 1 0; mknod memory c 1 1")
    assert not (project / "disk").exists()
    assert not (project / "memory").exists()


def git_directory(project: Path) -> Path:
    git = project / ".git"
    for name in ("objects", "refs/heads"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    return git


GIT_ATTACKS = [
    "mv .git elsewhere",
    "mv .git elsewhere && mkdir -p .git/hooks && echo x > .git/hooks/post-checkout",
    "rm -rf .git && mkdir .git",
    "rmdir .git",
    "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
    "mv .git/hooks .git/other && mkdir .git/hooks",
    "echo x >> .git/config",
    "mv .git/config .git/other && echo x > .git/config",
    "rm -f .git/config",
    "echo x > .git/config.worktree",
    "echo x > .git/modules/sub/config",
    "echo x > .git/worktrees/tree/commondir",
    "rm -rf .quarterdeck",
    "mv .quarterdeck other",
    "echo x > .quarterdeck/config.toml",
    "echo x > .mcp.json",
]


async def test_the_repository_cannot_be_replaced_or_the_gap_is_told(
    project: Path, sandbox: Sandbox
):
    if sandbox.kind == "landlock":
        assert any(".git/hooks" in gap for gap in sandbox.gaps)
        return
    git = git_directory(project)
    for directory in ("modules/sub", "worktrees/tree"):
        (git / directory).mkdir(parents=True)
    (git / "config.worktree").write_text("")
    (project / ".quarterdeck").mkdir()
    (project / ".mcp.json").write_text("{}")
    async with SandboxedSystem([project], sandbox) as system:
        assert (await sh(system, "echo x > .git/index && mkdir .git/objects/aa"))[0].is_success
        lines = [f"({line}) 2>/dev/null && echo '{line}'" for line in GIT_ATTACKS]
        assert (await sh(system, "\n".join(lines)))[1] == ""
    assert (git / "config").read_text() == ""
    assert not list((git / "hooks").iterdir())
    assert (project / ".quarterdeck").is_dir()
    assert (project / ".mcp.json").read_text() == "{}"


async def test_settings_of_ours_cannot_be_planted(project: Path, sandbox: Sandbox):
    """A trusted workspace's settings name programs that run outside, when a session begins."""
    if sandbox.kind == "landlock":
        assert any("settings" in gap for gap in sandbox.gaps)
        return
    async with SandboxedSystem([project], sandbox) as system:
        await sh(system, "mkdir -p .quarterdeck; echo x > .quarterdeck/config.toml")
        await sh(system, "rm -rf .quarterdeck; mv .quarterdeck x; mkdir .quarterdeck")
        assert not list((project / ".quarterdeck").iterdir())
    assert await asyncio.to_thread(os.listdir, project) == ["file"]


async def test_the_file_of_a_worktree_cannot_be_replaced(project: Path, sandbox: Sandbox):
    if sandbox.kind == "landlock":
        pytest.skip("Landlock has no rules against changes within the workspace")
    (project / ".git").write_text("gitdir: /elsewhere\n")
    async with SandboxedSystem([project], sandbox) as system:
        await sh(system, "echo x > .git; rm -f .git; mv .git other; git init")
    assert (project / ".git").read_text() == "gitdir: /elsewhere\n"


@pytest.mark.parametrize("inside", [True, False])
async def test_our_own_state_is_not_seen_or_the_gap_is_known(
    place: Path, project: Path, sandbox: Sandbox, inside: bool
):
    if sandbox.kind == "landlock":
        pytest.skip("Landlock cannot hide what is readable")
    state = (project if inside else place) / "state"
    state.mkdir()
    (state / "journal.db").write_text("secret")
    for sealed in (False, True):
        async with SandboxedSystem([project], sandbox, hidden=[state], sealed=sealed) as system:
            left, text = await sh(system, f"ls -A {state}; cat {state}/journal.db")
            assert not left.is_success
            assert "secret" not in text
            assert "journal.db\n" not in text.splitlines(keepends=True)


async def test_a_workspace_within_our_state_is_seen(place: Path, sandbox: Sandbox):
    tree = place / "state" / "trees" / "one"
    tree.mkdir(parents=True)
    async with SandboxedSystem([tree], sandbox, hidden=[place / "state"]) as system:
        assert await sh(system, "echo x > file && cat file") == (ProcessExit(code=0), "x\n")
    assert (tree / "file").read_text() == "x\n"


async def test_only_the_command_is_restricted(system: SandboxedSystem, place: Path):
    """A restricted thread starts it under Landlock; no other of ours may be restricted by that."""

    def restrictions() -> set[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        for task in Path("/proc/self/task").iterdir():
            try:
                lines = (task / "status").read_text().splitlines()
            except OSError:  # it has ended meanwhile
                continue
            wanted = ("NoNewPrivs:", "Seccomp:", "CapEff:")
            found.add(tuple(line for line in lines if line.startswith(wanted)))
        return found

    before = await asyncio.to_thread(restrictions)
    assert len(before) == 1
    for _ in range(3):
        _, text = await sh(system, "grep -E '^(NoNewPrivs|Seccomp|CapEff):' /proc/self/status")
        assert "NoNewPrivs:\t1\nSeccomp:\t2\n" in text
    assert await asyncio.to_thread(restrictions) == before
    async with LocalSystem([place]) as bare:
        assert await sh(bare, "echo x > outside && cat outside") == (ProcessExit(code=0), "x\n")
    with socket.socket(socket.AF_UNIX):
        pass


async def test_threads_and_children_work_inside(system: SandboxedSystem):
    script = """
import subprocess, threading
threads = [threading.Thread(target=print, args=("thread",)) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(subprocess.run(["echo", "child"], capture_output=True, text=True).stdout.strip())
"""
    left, text = await run(system, sys.executable, "-I", "-c", script)
    assert (left, text.split()) == (ProcessExit(code=0), ["thread", "thread", "child"])


async def test_many_at_once(system: SandboxedSystem):
    done = await asyncio.gather(*(sh(system, f"exit {number}") for number in range(8)))
    assert [left.code for left, _ in done] == list(range(8))


async def test_what_cannot_be_restricted_is_not_started(project: Path):
    def fail() -> None:
        raise OSError(95, "not supported")

    command = CommandSpec(argv=["/bin/sh", "-c", "echo x > made"], cwd=str(project))
    with pytest.raises(SpawnError, match="the sandbox could not be set up"):
        await asyncio.to_thread(
            start_child, command, None, shared_guard(), confinement=Confinement(restrict=fail)
        )
    assert not (project / "made").exists()


async def test_where_signals_cannot_be_kept_inside_none_are_sent(project: Path):
    """Kernels before 6.12; the filter alone, as a thread loads it."""
    if not has_seccomp():
        pytest.skip("system calls cannot be refused on this kind of machine")

    def restrict() -> None:
        ctypes.CDLL(None).prctl(38, *map(ctypes.c_ulong, (1, 0, 0, 0)))
        install_seccomp(
            seccomp_program(internet=False, shared_memory=False, sealed=True, signals=False)
        )

    script = f"kill -0 {os.getpid()}; echo $?; cat file | head -c 2; exit 3"
    command = CommandSpec(argv=["/bin/bash", "-c", script], cwd=str(project))
    terminals = LocalTerminals()
    terminal = await terminals.create(command, confinement=Confinement(restrict=restrict))
    assert await terminal.wait() == ProcessExit(code=3)
    assert (await terminal.output()).text.endswith("1\nmi")
    await terminals.close()
