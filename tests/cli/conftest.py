"""The real console script in a child with a clean environment."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(sys.executable).parent / "quarterdeck"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    """What the child sees: no more than a fresh shell has."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LANG": "C.UTF-8"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The directory in which the child runs."""
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def run(environ: dict[str, str], work: Path) -> Run:
    """Run ``quarterdeck`` with arguments; keywords change the environment, None removes."""

    def run_script(*arguments: str, program: Path = SCRIPT, **changes: str | None):
        changed = {**environ, **changes}
        return subprocess.run(
            [str(program), *arguments],
            cwd=work,
            env={name: text for name, text in changed.items() if text is not None},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=50,
        )

    return run_script


@pytest.fixture
def run_code(environ: dict[str, str], work: Path) -> Run:
    """Run ``main`` in a child that has one more command, ``boom``, with the given body."""

    def run_body(body: str, *arguments: str, **changes: str):
        module = "import click, os, signal\n@click.command()\ndef boom():\n    " + body + "\n"
        (work / "extra.py").write_text(module)
        code = (
            "import sys; sys.path.insert(0, '.')\n"
            "from quarterdeck.cli.lazy_group import LazyCommand\n"
            "from quarterdeck.cli.root import COMMANDS\n"
            "from quarterdeck.cli.main import main\n"
            "COMMANDS['boom'] = LazyCommand('extra:boom', 'Fail.')\n"
            "sys.exit(main(sys.argv[1:]))\n"
        )
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=work,
            env={**environ, **changes},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
        )

    return run_body
