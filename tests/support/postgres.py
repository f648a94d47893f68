"""A Postgres of our own, on loopback, without anything that is worth keeping."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["run_postgres"]

_SETTINGS = ("fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=60")


def _find_programs() -> Path:
    found = shutil.which("initdb")
    if found is not None and (Path(found).parent / "postgres").exists():
        return Path(found).parent
    for place in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (place / "initdb").exists():
            return place
    pytest.skip("needs postgres")


def _as_ordinary_user(folder: Path) -> list[str]:
    """Postgres refuses to run as root."""
    if os.geteuid() != 0:
        return []
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    program = shutil.which("setpriv")
    if program is None:
        pytest.skip("postgres does not run as root, and setpriv is needed to be another user")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return [program, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _answers(port: int) -> bool:
    import psycopg

    try:
        psycopg.connect(f"postgresql://ann@127.0.0.1:{port}/postgres").close()
    except psycopg.OperationalError:
        return False
    return True


@contextmanager
def run_postgres() -> Generator[str]:
    """Run one; its URL without the database. Skips the test where there is none."""
    programs = _find_programs()
    folder = Path(tempfile.mkdtemp(prefix="quarterdeck-postgres-", dir="/tmp"))
    words = _as_ordinary_user(folder)
    data, environment = folder / "data", {"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": "/"}
    made = [*words, str(programs / "initdb"), "-A", "trust", "-U", "ann", "-N", "-D", str(data)]
    try:
        subprocess.run(made, check=True, capture_output=True, env=environment, cwd="/")
        port = _find_port()
        options = [word for one in _SETTINGS for word in ("-c", one)]
        server = subprocess.Popen(
            [
                *(*words, str(programs / "postgres"), "-D", str(data), "-h", "127.0.0.1"),
                *("-p", str(port), "-k", str(folder), *options),
            ],
            env=environment,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not _answers(port):
                assert server.poll() is None, "postgres ended"
                time.sleep(0.02)
            yield f"postgresql://ann@127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
