"""Adopted orphans are reaped, and nobody else's children."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux has subreapers")

# In a process of its own: adopting cannot be undone without consequences for the test run.
SCRIPT = """
import os, subprocess, time
from quarterdeck.system.process_exit import become_subreaper, reap_adopted
from quarterdeck.system.process_tree import list_processes

assert become_subreaper()
os.environ["PATH"] = "/usr/bin:/bin"
ours = subprocess.Popen(["true"])
leader = subprocess.Popen(["true"], start_new_session=True)
# The shell leaves at once; its child becomes ours and then ends.
subprocess.run(["sh", "-c", "sleep 0.1 & echo $!"], start_new_session=True, check=True)
reaped = []
deadline = time.monotonic() + 5
while not reaped and time.monotonic() < deadline:
    reaped += reap_adopted()
    time.sleep(0.01)
print(*reaped)
assert ours.wait() == 0 and leader.wait() == 0
assert not [o for o in list_processes().values() if o.parent == os.getpid()]
"""


def test_orphans_are_reaped_and_children_of_libraries_are_not():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, check=True
    )
    orphan, *reaped = done.stdout.split()
    assert reaped == [orphan]
