"""Children start without a copy of this process: nothing in the package asks for one.

Python's ``subprocess`` lends a child its memory until the program begins (vfork), unless it has to
run Python in between (``preexec_fn``) or change the user first. A fork of a process with threads
can also hang.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "quarterdeck"
COPYING_OPTIONS = {"preexec_fn", "user", "group", "extra_groups", "umask"}
FORKING_MODULES = ("multiprocessing", "pty")
STARTS = {"Popen", "run", "call", "check_call", "check_output", "create_subprocess_exec"}
COPYING_CALLS = {"fork", "forkpty", "ProcessPoolExecutor", "create_subprocess_shell"}


def find_copies(source: str) -> list[str]:
    """What would copy the process: options of a start, calls, and modules that fork."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(
            one.name == "multiprocessing" for one in node.names
        ):
            found.append("multiprocessing")
        elif isinstance(node, ast.ImportFrom) and node.module in FORKING_MODULES:
            found.append(node.module)
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            found += [name] if name in COPYING_CALLS and _is_of_os(node.func) else []
            if name in STARTS:
                found += [word.arg for word in node.keywords if word.arg in COPYING_OPTIONS]
    return found


def _is_of_os(function: ast.expr) -> bool:
    """``fork`` is also a method of ours."""
    if not isinstance(function, ast.Attribute):
        return True
    return isinstance(function.value, ast.Name) and function.value.id in ("os", "pty", "asyncio")


@pytest.mark.parametrize(
    "source",
    [
        "subprocess.Popen(words, preexec_fn=act)",
        "subprocess.run(words, user=1)",
        "os.fork()",
        "from os import fork\nfork()",
        "import multiprocessing",
    ],
)
def test_a_copy_would_be_found(source: str):
    assert find_copies(source)


def test_nothing_in_the_package_copies_the_process():
    found = {
        str(path.relative_to(SOURCE)): copies
        for path in SOURCE.rglob("*.py")
        if (text := path.read_text(encoding="utf-8"))
        and any(word in text for word in (*COPYING_OPTIONS, *COPYING_CALLS, *FORKING_MODULES))
        and (copies := find_copies(text))
    }
    assert not found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_python_lends_a_child_its_memory():
    """What the test above relies on: a copy of the tables of 100 MB would be seen in the faults."""
    code = (
        "import resource, subprocess\n"
        "held = bytearray(b'x') * (100 << 20)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "for _ in range(5): subprocess.run(['true'], start_new_session=True)\n"
        "for place in range(0, len(held), 4096): held[place] = 1\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert int(done.stdout) < 10_000  # after a fork each of the 25,600 pages is copied on a write
