"""What a tree of processes holds in memory, as the bench counts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.processes import measure_tree

MEGABYTE = 1024 * 1024
HOLDS = """
import os, sys
held = b"x" * (60 << 20)
print("ready", flush=True)
# The child opens the pipe before its program begins, and waits there for a writer.
wait = [(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)]
child = os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=wait)
os.waitpid(child, 0)
"""


@pytest.fixture
def holder(tmp_path: Path):
    """A process with 60 MB whose child has not begun its program."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(pipe)], stdout=subprocess.PIPE) as one:
        assert one.stdout is not None
        one.stdout.readline()
        children = Path(f"/proc/{one.pid}/task/{one.pid}/children")
        try:
            while not children.read_text():
                assert one.poll() is None
            yield one.pid
        finally:
            os.close(os.open(pipe, os.O_WRONLY))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_that_a_child_borrows_counts_once(holder: int):
    assert 60 * MEGABYTE < measure_tree(holder) < 100 * MEGABYTE


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_with_a_program_of_its_own_counts():
    with subprocess.Popen(
        [sys.executable, "-c", "import subprocess; subprocess.run(['cat'])"],
        stdin=subprocess.PIPE,
    ) as one:
        children = Path(f"/proc/{one.pid}/task/{one.pid}/children")
        while not (below := children.read_text().split()):
            assert one.poll() is None
        while not Path(f"/proc/{below[0]}/exe").readlink().name.endswith(("cat", "coreutils")):
            assert one.poll() is None
        assert measure_tree(one.pid) > measure_tree(int(below[0])) > 0
        assert one.stdin is not None
        one.stdin.close()


def test_a_process_that_is_gone_holds_nothing():
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert measure_tree(gone.pid) == 0
