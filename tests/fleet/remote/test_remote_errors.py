"""What is in the way of a host on another machine, by a scripted ssh."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from quarterdeck import __version__
from quarterdeck.config.places import Places
from quarterdeck.fleet.errors import (
    HostError,
    HostUnreachableError,
    HostVersionError,
    NoHostError,
    RemoteHostError,
)
from quarterdeck.fleet.host.methods import PROTOCOL
from quarterdeck.fleet.remote.address import RemoteAddress, parse_address
from quarterdeck.fleet.remote.dialer import RemoteDialer
from quarterdeck.fleet.remote.ssh_client import SshClient
from quarterdeck.wire.rpc import ByteStream, serve_unix
from tests.support.scripted_ssh import ScriptedSsh

CHANGED = "@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@\n"
UNKNOWN = "No ED25519 host key is known for box and you have requested strict checking.\n"


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedSsh:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return ScriptedSsh(tmp_path / "bin")


@pytest.fixture
def dialer(ssh: ScriptedSsh) -> RemoteDialer:
    return RemoteDialer(parse_address("ssh://me@box:2200/srv/work"), Places.find())


@pytest.fixture
async def closing(tmp_path: Path) -> AsyncIterator[Path]:
    """A socket as a server shows it that forwards none: it accepts, and closes."""
    path = tmp_path / "closing.sock"

    async def close(stream: ByteStream) -> None:
        del stream

    async with serve_unix(path, close):
        yield path


@pytest.mark.parametrize(
    ("errors", "kind", "problem", "words"),
    [
        (
            "ssh: Could not resolve hostname box: Name or service not known\n",
            HostUnreachableError,
            None,
            "cannot reach .*Could not resolve",
        ),
        (
            "ssh: connect to host box port 22: Connection refused\n",
            HostUnreachableError,
            None,
            "Connection refused",
        ),
        (
            "ssh: connect to host box port 22: Connection timed out\n",
            HostUnreachableError,
            None,
            "timed out",
        ),
        (
            "kex_exchange_identification: read: Connection reset by peer\n",
            HostUnreachableError,
            None,
            "reset",
        ),
        ("", HostUnreachableError, None, "the connection ended"),
        (
            "me@box: Permission denied (publickey,password).\n",
            RemoteHostError,
            "login-refused",
            "ssh-add.*ssh -o BatchMode=yes me@box -p 2200",
        ),
        (
            "Received disconnect from box: 2: Too many authentication failures\n",
            RemoteHostError,
            "login-refused",
            "refuses your key",
        ),
        (
            f"{UNKNOWN}Host key verification failed.\n",
            RemoteHostError,
            "key-unknown",
            "`ssh me@box -p 2200` once",
        ),
        (
            f"{CHANGED}Host key verification failed.\n",
            RemoteHostError,
            "key-changed",
            "not the one that you know",
        ),
        ("Bad owner \x1b[31mor permissions\n", RemoteHostError, "failed", "ssh says: Bad owner"),
    ],
)
async def test_ssh_that_cannot_connect(
    ssh: ScriptedSsh,
    dialer: RemoteDialer,
    errors: str,
    kind: type[HostError],
    problem: str | None,
    words: str,
):
    ssh.step("report", errors=errors, code=255)
    with pytest.raises(kind, match=words) as caught:
        await dialer.dial()
    assert getattr(caught.value, "problem", None) == problem
    assert "\x1b" not in str(caught.value)


async def test_no_ssh_here(ssh: ScriptedSsh, dialer: RemoteDialer):
    (ssh.folder / "ssh").unlink()
    with pytest.raises(RemoteHostError, match="'ssh' is not installed") as caught:
        await dialer.dial()
    assert caught.value.problem == "ssh-missing"


async def test_no_quarterdeck_there(ssh: ScriptedSsh, dialer: RemoteDialer):
    ssh.step("report", errors="sh: 1: exec: quarterdeck: not found\n", code=127)
    with pytest.raises(RemoteHostError, match="no program 'quarterdeck' there") as caught:
        await dialer.dial()
    assert caught.value.problem == "program-missing"


async def test_a_program_that_is_older_than_remote_hosts(ssh: ScriptedSsh, dialer: RemoteDialer):
    ssh.step("report", errors="quarterdeck: No such command 'report'.\n", code=2)
    ssh.step("version", output="quarterdeck 0.0.7\n")
    with pytest.raises(HostVersionError, match=r"older than this one.*quarterdeck 0\.0\.7 there"):
        await dialer.ensure()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocol": PROTOCOL - 1, "quarterdeck": "0.0.9"}, "older .* update it on"),
        ({"protocol": PROTOCOL + 1, "quarterdeck": "9.9"}, "newer .* update it here"),
        ({"format": 2}, "newer .* update it here"),
    ],
)
async def test_another_protocol_there(
    ssh: ScriptedSsh, dialer: RemoteDialer, changes: dict[str, Any], words: str
):
    ssh.report("/run/there.sock", **changes)
    with pytest.raises(HostVersionError, match=words) as caught:
        await dialer.dial()
    assert __version__ in str(caught.value)


async def test_no_host_there(ssh: ScriptedSsh, dialer: RemoteDialer):
    with pytest.raises(NoHostError, match=r"no host is running on .*host start` starts one"):
        await dialer.dial()
    assert not any("--start" in call["words"][-1] for call in ssh.calls())


async def test_a_host_there_that_does_not_start(ssh: ScriptedSsh, dialer: RemoteDialer):
    ssh.step("report", errors="quarterdeck: the host exits right after it starts\n", code=1)
    with pytest.raises(RemoteHostError, match="exits right after"):
        await dialer.ensure()
    assert "host report --start" in ssh.calls()[-1]["words"][-1]


async def test_a_server_that_forwards_no_sockets(
    ssh: ScriptedSsh, dialer: RemoteDialer, closing: Path
):
    ssh.report(closing)
    with pytest.raises(RemoteHostError, match="AllowStreamLocalForwarding") as caught:
        await dialer.dial()
    assert caught.value.problem == "forwarding-refused"


async def test_ssh_that_refuses_to_forward(ssh: ScriptedSsh, dialer: RemoteDialer):
    ssh.report("/run/there.sock")
    ssh.step("forward", errors="mux_client_forward: forwarding request failed: no\r\n", code=255)
    with pytest.raises(RemoteHostError, match="does not forward Unix sockets"):
        await dialer.dial()


async def test_a_connection_that_ends_before_the_socket_is_forwarded(
    ssh: ScriptedSsh, dialer: RemoteDialer
):
    ssh.report("/run/there.sock")
    ssh.step("forward", errors="Control socket connect(/x): No such file\n", code=255)
    with pytest.raises(HostUnreachableError, match="ended: Control socket"):
        await dialer.dial()


@pytest.mark.parametrize("socket", ["/run/a:b", "/run/%h", "/run/${HOME}", "x", "/" + "x" * 200])
async def test_a_socket_that_ssh_cannot_be_given(
    ssh: ScriptedSsh, dialer: RemoteDialer, socket: str
):
    ssh.report(socket)
    with pytest.raises(RemoteHostError, match="a path that ssh cannot be given"):
        await dialer.dial()
    assert not any("-L" in call["words"] for call in ssh.calls())


async def test_ssh_that_hangs_is_ended(ssh: ScriptedSsh):
    ssh.step("report", seconds=600)
    client = SshClient(parse_address("ssh://box"), Places.find())
    with pytest.raises(HostUnreachableError, match="did not answer within"):
        await client.run("host", "report", seconds=0.5)


async def test_leaving_while_ssh_runs_ends_it(ssh: ScriptedSsh, dialer: RemoteDialer):
    ssh.step("report", seconds=600)
    dialing = asyncio.create_task(dialer.dial())
    while not ssh.calls():
        await asyncio.sleep(0.01)
    dialing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialing


async def test_a_shell_that_greets_is_understood(ssh: ScriptedSsh, dialer: RemoteDialer):
    ssh.report(None, noise="Welcome {to} box!\n")
    await dialer.prepare()
    assert dialer.resolve(None) == "/srv/work"
    assert dialer.resolve("x/../y") == "/srv/work/y"
    assert dialer.resolve("~/x") == "/home/there/x"
    assert dialer.resolve("/etc") == "/etc"


async def test_words_and_environment_of_ssh(
    ssh: ScriptedSsh, dialer: RemoteDialer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    monkeypatch.setenv("SOME_TOKEN", "secret")
    await dialer.prepare()
    (call,) = ssh.calls()
    words = call["words"]
    end = words.index("--")
    assert words[end - 2 : end + 2] == ["-p", "2200", "--", "me@box"]
    assert len(words) == end + 3
    for option in ("BatchMode=yes", "ConnectTimeout=10", "ForwardAgent=no", "RemoteCommand=none"):
        assert option in words
    assert call["environment"]["SSH_AUTH_SOCK"] == "/agent"
    assert "SOME_TOKEN" not in call["environment"]
    assert not any(name.startswith("QUARTERDECK") for name in call["environment"])


async def test_a_runtime_directory_that_ssh_would_interpret(ssh: ScriptedSsh, tmp_path: Path):
    odd = tmp_path / "a %h:b"
    places = Places.find({"QUARTERDECK_HOME": str(odd)})
    await RemoteDialer(RemoteAddress(name="box", host="box"), places).prepare()
    (path,) = [
        word.removeprefix("ControlPath=")
        for word in ssh.calls()[0]["words"]
        if word.startswith("ControlPath=")
    ]
    assert Path(path).parent.name == f"quarterdeck-{os.getuid()}"
    assert Path(path).parent.stat().st_mode & 0o777 == 0o700


async def test_stopping_a_host_there(ssh: ScriptedSsh, dialer: RemoteDialer):
    ssh.step("stop", output='{"stopped": true, "pid": 7}\n')
    assert await dialer.stop(seconds=5, force=True) == 7
    assert "host stop --json --timeout 5 --force" in ssh.calls()[-1]["words"][-1]
    ssh.step("stop", output='{"stopped": false}\n', code=3)
    with pytest.raises(NoHostError):
        await dialer.stop(seconds=5, force=False)
    ssh.step("stop", errors="quarterdeck: the host (process 7) has not ended\n", code=1)
    with pytest.raises(HostError, match="has not ended"):
        await dialer.stop(seconds=5, force=False)
