"""The tests of the sandbox, once with each kind of it: ``make sandbox``.

A kind that this machine does not have is skipped, counted, and said with its reason. With
``--others`` the kind that every test run uses here has no turn of its own: for after ``make test``.
Other words after the command go to pytest.
"""

import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path, PurePath

__all__ = ["KINDS", "is_sandboxed", "main"]

KINDS = ("bubblewrap", "landlock", "none")
_SANDBOXED = (
    "tests/*sandbox*.py",
    "tests/agent/children/test_children.py",
    "tests/agent/test_permissions.py",
    "tests/agent/test_session.py",
    "tests/agent/test_turn*.py",
    "tests/agent/tools/test_bash*.py",
    "tests/cli/test_headless*.py",
    "tests/fleet/landing/test_contained_commands.py",
    "tests/policy/test_policy_decision.py",
    "tests/serve/test_serve_delegat*.py",
)
_ROOT = Path(__file__).parent.parent
_VARIABLE = "QUARTERDECK_SANDBOX"
_OTHERS = "--others"
_PROBE = """
import asyncio
from quarterdeck.system.sandbox import detect_sandbox
found = asyncio.run(detect_sandbox())
print(found.kind, found.reason, sep="\\n")
"""


def main(words: list[str]) -> int:
    """Run the turns; how many of them failed."""
    outcomes: dict[str, str] = {}
    usual = _probe({})[0] if _OTHERS in words else ""
    words = [word for word in words if word != _OTHERS]
    paths = (path.relative_to(_ROOT) for path in sorted((_ROOT / "tests").rglob("test_*.py")))
    files = [str(path) for path in paths if is_sandboxed(path)]
    chosen = ["-m", "sandbox and not stress and not long", *words, *files]
    for kind in KINDS:
        if kind == usual:
            outcomes[kind] = "as in every test run"
            continue
        if reason := _missing(kind):
            outcomes[kind] = f"skipped: {reason}"
            continue
        print(f"\n=== sandbox: {kind} ===", flush=True)
        # Five: no test was chosen.
        code = subprocess.run(
            [sys.executable, "-m", "pytest", *chosen],
            cwd=_ROOT,
            env={**os.environ, _VARIABLE: kind},
            check=False,
        ).returncode
        outcomes[kind] = "passed" if code in (0, 5) else f"failed with exit code {code}"
    print("\nThe tests of the sandbox, by its kind:")
    for kind, outcome in outcomes.items():
        print(f"  {kind}: {outcome}")
    return sum(outcome.startswith("failed") for outcome in outcomes.values())


def is_sandboxed(path: PurePath) -> bool:
    """Whether the tests of a file depend on which sandbox there is."""
    return any(fnmatch(path.as_posix(), pattern) for pattern in _SANDBOXED)


def _missing(kind: str) -> str:
    """Why this machine cannot run a turn with this kind; empty if it can."""
    found, reason = _probe({_VARIABLE: kind})
    if found == kind:
        return ""
    return reason or f"this machine has {found}"


def _probe(forced: dict[str, str]) -> tuple[str, str]:
    """The kind of sandbox that is found, and why it is no other."""
    words = [sys.executable, "-c", _PROBE]
    environment = {**os.environ, **forced}
    done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
    found, _, reason = done.stdout.partition("\n")
    return found, reason.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
