"""An agent of ten lines starts fast: the peer imports little."""

import subprocess
import sys

CODE = """
import sys, asyncio, msgspec, msgspec.json
before = set(sys.modules)
import quarterdeck.wire.rpc
print(*sorted(m for m in set(sys.modules) - before if not m.startswith("quarterdeck")))
print(*sorted(m for m in set(sys.modules) - before if m.startswith("quarterdeck")))
"""


def test_peer_imports_nothing_beyond_asyncio_and_msgspec():
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    foreign, ours = done.stdout.splitlines()
    assert set(foreign.split()) <= {"copy", "dataclasses"}
    rooms = {name.split(".")[1] for name in ours.split() if "." in name}
    assert rooms == {"version", "wire"}
    assert all(
        name.startswith(
            tuple(f"quarterdeck.wire.{name}" for name in ("rpc", "errors", "tasks", "decoders"))
        )
        for name in ours.split()
        if name.count(".") > 1
    )
