"""A real sshd on loopback, with keys, a configuration and a home of its own.

``ssh`` finds it by a program of the same name in front of PATH, which is the real one with another
configuration: OpenSSH takes the person's files from the password database, not from HOME.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from tests.support.deadlines import SOON

__all__ = ["PROGRAMS", "SshServer", "find_sshd", "missing_programs", "start_sshd"]

PROGRAMS = ("ssh", "ssh-keygen")
_SCRIPTS = Path(sys.executable).parent


def find_sshd() -> str | None:
    """Where the server is; it must be run by its whole path."""
    return shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def missing_programs() -> str:
    """The names of programs that are missing, for the reason of a skip."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    return ", ".join([*missing, *([] if find_sshd() else ["sshd"])])


@dataclass(kw_only=True)
class SshServer:
    """A server that runs, and what a client needs to reach it."""

    folder: Path
    port: int
    daemon: int = 0
    """The process that listens."""
    remote_home: Path
    """HOME and QUARTERDECK_HOME of who logs in."""

    @property
    def url(self) -> str:
        """For ``--host``."""
        return f"ssh://127.0.0.1:{self.port}"

    @property
    def programs(self) -> Path:
        """The folder with the ``ssh`` that knows this server; to be put in front of PATH."""
        return self.folder / "bin"

    @property
    def known_hosts(self) -> Path:
        """The keys of hosts that the client knows."""
        return self.folder / "known_hosts"

    def sessions(self) -> list[int]:
        """The processes of the server that have a connection each."""
        return _children(self.daemon)

    def drop(self) -> int:
        """Cut every connection as a network does; returns how many there were."""
        found = self.sessions()
        for pid in found:
            for below in (*_children(pid), pid):
                _kill(below)
        return len(found)

    def write_profile(self, path: str) -> None:
        """Let a login there have this PATH."""
        (self.remote_home / ".profile").write_text(f"PATH={path}; export PATH\n")


@contextmanager
def start_sshd(folder: Path, *options: str) -> Generator[SshServer]:
    """Run a server for this user until the end; ``options`` are lines of its configuration."""
    folder.mkdir(mode=0o700)
    home = folder / "there"
    home.mkdir(mode=0o700)
    for name in ("host_key", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # the package makes it at boot
    port = _free_port()
    server = SshServer(folder=folder, port=port, remote_home=home)
    (folder / "sshd_config").write_text(_server_config(server, options))
    _write_client(server)
    server.write_profile(f"{_SCRIPTS}:/usr/bin:/bin")
    sshd = find_sshd()
    assert sshd is not None
    with (
        (folder / "sshd.log").open("wb") as log,
        subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stderr=log,
        ) as daemon,
    ):
        server.daemon = daemon.pid
        try:
            _wait_for_port(port, daemon, folder / "sshd.log")
            yield server
        finally:
            server.drop()
            daemon.kill()


def _server_config(server: SshServer, options: tuple[str, ...]) -> str:
    home = server.remote_home
    return "\n".join(
        (
            *options,  # the first value counts
            f"Port {server.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {server.folder / 'host_key'}",
            f"AuthorizedKeysFile {server.folder / 'authorized_keys'}",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PasswordAuthentication no",
            "PermitRootLogin yes",
            f"SetEnv HOME={home} QUARTERDECK_HOME={home / 'qd'} LANG=C.UTF-8 PATH=/usr/bin:/bin",
            "",
        )
    )


def _write_client(server: SshServer) -> None:
    folder = server.folder
    key = (folder / "host_key.pub").read_text()
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {key}")
    user = pwd.getpwuid(os.getuid()).pw_name
    (folder / "ssh_config").write_text(
        f"User {user}\nIdentityFile {folder / 'key'}\nIdentitiesOnly yes\n"
        f"UserKnownHostsFile {server.known_hosts}\nGlobalKnownHostsFile none\n"
    )
    server.programs.mkdir()
    wrapper = server.programs / "ssh"
    real = shutil.which("ssh")
    wrapper.write_text(f'#!/bin/sh\nexec {real} -F {folder / "ssh_config"} "$@"\n')
    wrapper.chmod(0o755)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _wait_for_port(port: int, daemon: "subprocess.Popen[bytes]", log: Path) -> None:
    until = monotonic() + SOON
    while monotonic() < until:
        assert daemon.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            sleep(0.02)
        else:
            return
    raise AssertionError(log.read_text())


def _children(pid: int) -> list[int]:
    words = ["ps", "-A", "-o", "pid=,ppid="]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in text.splitlines()]
    return [child for child, parent in pairs if parent == pid]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
