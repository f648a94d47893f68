"""The tests of the sandbox, once with each kind of it: ``make sandbox``.

A kind that this machine does not have is skipped, counted, and said with its reason. Words after
the command go to pytest.
"""

import os
import subprocess
import sys

__all__ = ["KINDS", "main"]

KINDS = ("bubblewrap", "landlock", "none")
_VARIABLE = "QUARTERDECK_SANDBOX"
_PROBE = """
import asyncio
from quarterdeck.system.sandbox import detect_sandbox
found = asyncio.run(detect_sandbox())
print(found.kind, found.reason, sep="\\n")
"""


def main(words: list[str]) -> int:
    """Run the turns; how many of them failed."""
    outcomes: dict[str, str] = {}
    for kind in KINDS:
        if reason := _missing(kind):
            outcomes[kind] = f"skipped: {reason}"
            continue
        print(f"\n=== sandbox: {kind} ===", flush=True)
        # Five: no test was chosen.
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-m", "sandbox and not stress and not long", *words],
            env={**os.environ, _VARIABLE: kind},
            check=False,
        ).returncode
        outcomes[kind] = "passed" if code in (0, 5) else f"failed with exit code {code}"
    print("\nThe tests of the sandbox, by its kind:")
    for kind, outcome in outcomes.items():
        print(f"  {kind}: {outcome}")
    return sum(outcome.startswith("failed") for outcome in outcomes.values())


def _missing(kind: str) -> str:
    """Why this machine cannot run a turn with this kind; empty if it can."""
    words = [sys.executable, "-c", _PROBE]
    told = subprocess.run(
        words, env={**os.environ, _VARIABLE: kind}, check=True, capture_output=True, text=True
    ).stdout
    found, _, reason = told.partition("\n")
    if found == kind:
        return ""
    return reason.strip() or f"this machine has {found}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
