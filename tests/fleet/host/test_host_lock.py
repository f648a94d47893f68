"""One host for each home, found wherever it listens."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from quarterdeck.config.errors import UnusablePlaceError
from quarterdeck.config.places import Places
from quarterdeck.fleet.host.lock import (
    LONGEST_PATH,
    HostLock,
    HostRunningError,
    LockHolder,
    holder,
    make_socket_directory,
    socket_path,
)

HOLDER = LockHolder(pid=os.getpid(), socket="/run/s", version="1", started=5)


def test_a_second_host_is_refused_and_told_who_is_first(tmp_path: Path):
    path = tmp_path / "state" / "host.lock"
    first = HostLock.acquire(path)
    assert holder(path) == (True, None)
    first.sign(HOLDER)
    assert holder(path) == (True, HOLDER)
    with pytest.raises(HostRunningError, match=str(os.getpid())) as caught:
        HostLock.acquire(path)
    assert caught.value.pid == os.getpid()
    first.release()
    first.release()
    assert holder(path) == (False, None)
    HostLock.acquire(path).release()


def test_a_file_without_its_process_is_no_host(tmp_path: Path):
    path = tmp_path / "host.lock"
    code = (
        "import os, sys; from pathlib import Path; from quarterdeck.fleet.host.lock import *;"
        "HostLock.acquire(Path(sys.argv[1])).sign("
        "LockHolder(pid=os.getpid(), socket='/s', version='1', started=1)); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], timeout=50)
    assert b"/s" in path.read_bytes()
    assert holder(path) == (False, None)
    HostLock.acquire(path).release()


def test_who_only_looks_is_no_obstacle(tmp_path: Path):
    path = tmp_path / "host.lock"
    HostLock.acquire(path).release()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            holder(path)

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(50):
            HostLock.acquire(path).release()
    finally:
        done.set()
        for looker in lookers:
            looker.join()


def test_a_damaged_lock_file_is_still_a_lock(tmp_path: Path):
    path = tmp_path / "host.lock"
    path.write_bytes(b"\xff{")
    lock = HostLock.acquire(path)
    path.write_bytes(b"\xff{")
    assert holder(path) == (True, None)
    lock.release()


def test_a_lock_that_cannot_be_made_is_told(tmp_path: Path):
    (tmp_path / "host.lock").mkdir()
    with pytest.raises(UnusablePlaceError, match="QUARTERDECK_HOME"):
        HostLock.acquire(tmp_path / "host.lock")


def places(root: Path, runtime: Path | None = None) -> Places:
    return Places(
        config=root, state=root / "state", cache=root / "cache", runtime=runtime or root / "run"
    )


def test_homes_that_share_a_runtime_directory_have_their_own_sockets(tmp_path: Path):
    one, two = places(tmp_path / "1", tmp_path), places(tmp_path / "2", tmp_path)
    assert socket_path(one).parent == socket_path(two).parent == tmp_path
    assert socket_path(one) != socket_path(two)


def test_a_path_that_no_socket_can_have_becomes_a_short_one(tmp_path: Path):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    path = socket_path(places(deep))
    assert len(os.fsencode(path)) <= LONGEST_PATH
    assert path == socket_path(places(deep))
    assert path != socket_path(places(deep / "other"))
    assert path.parent.name == f"quarterdeck-{os.getuid()}"


def test_a_directory_that_others_could_enter_is_closed(tmp_path: Path):
    directory = tmp_path / "run"
    directory.mkdir(mode=0o777)
    directory.chmod(0o777)
    make_socket_directory(directory / "s")
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "theirs")
    with pytest.raises(UnusablePlaceError, match="not a directory that you own"):
        make_socket_directory(tmp_path / "run" / "s")
