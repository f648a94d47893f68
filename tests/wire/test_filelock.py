"""Locks on files: one holder, shared looks, and nothing that a child inherits."""

import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.wire.filelock import hold_lock, open_lock, release_lock, try_lock

_TRY = """
import sys
from pathlib import Path
from quarterdeck.wire.filelock import open_lock, try_lock
print(try_lock(open_lock(Path(sys.argv[1]))))
"""


def tried_by_another(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _TRY, str(path)], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_one_process_has_a_lock_until_it_gives_it_back(tmp_path: Path):
    path = tmp_path / "lock"
    handle = open_lock(path)
    assert try_lock(handle) and path.stat().st_mode & 0o077 == 0
    assert tried_by_another(path) == "False"
    release_lock(handle)
    assert tried_by_another(path) == "True" and path.exists()


def test_shared_locks_exclude_only_the_other_kind(tmp_path: Path):
    path = tmp_path / "lock"
    one, two, three = open_lock(path), open_lock(path), open_lock(path)
    assert try_lock(one, shared=True) and try_lock(two, shared=True)
    assert not try_lock(three)
    release_lock(one)
    release_lock(two)
    four = open_lock(path)
    assert try_lock(three) and not try_lock(four, shared=True)
    release_lock(three)
    release_lock(four)


def test_a_child_does_not_inherit_it(tmp_path: Path):
    path = tmp_path / "lock"
    handle = open_lock(path)
    assert try_lock(handle)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False) as child:
        release_lock(handle)
        with hold_lock(path):
            assert tried_by_another(path) == "False"
        assert child.stdin is not None
        child.stdin.close()


def test_an_error_in_between_gives_it_back(tmp_path: Path):
    path = tmp_path / "lock"
    with pytest.raises(RuntimeError), hold_lock(path):
        raise RuntimeError
    assert tried_by_another(path) == "True"
    with pytest.raises(OSError, match="lock"), hold_lock(tmp_path / "no" / "lock"):
        pass
