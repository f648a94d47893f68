"""What starting costs: modules that must not be there, and CPU time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quarterdeck.cli.root import COMMANDS
from quarterdeck.cli.testing import FAKES

HEAVY = {
    "anthropic",
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "google.genai",
    "httpx2",
    "mcp",
    "msgspec",
    "openai",
    "quarterdeck.wire.acp",
    "quarterdeck.wire.rpc",
    "sqlite3",
    "subprocess",
    "textual",
    "tomllib",
    "tree_sitter",
}
OURS = {later.target.partition(":")[0] for later in COMMANDS.values()}


def imported(run_arguments: list[str]) -> set[str]:
    code = (
        "import sys\n"
        "from quarterdeck.cli.main import main\n"
        f"code = main({run_arguments!r})\n"
        "print('|'.join(['', *sys.modules]), file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
    )
    return set(done.stderr.strip().split("|"))


def test_the_version_imports_not_even_click():
    modules = imported(["--version"])
    assert "quarterdeck.cli.main" in modules
    assert not modules & (HEAVY | OURS | {"click", "inspect", "quarterdeck.wire"})


def test_help_imports_no_command_and_nothing_heavy():
    modules = imported(["--help"])
    assert "click" in modules
    assert not modules & (HEAVY | OURS)


def test_the_welcome_imports_no_command_and_nothing_heavy():
    assert not imported([]) & (HEAVY - {"subprocess"} | OURS)


def test_showing_paths_reads_no_settings():
    assert not imported(["config", "path"]) & (HEAVY - {"subprocess"})


def cpu(command: list[str]) -> float:
    """Seconds of user and system time: the least of several runs, so that load matters little."""

    def once() -> float:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        # os.times counts in hundredths of a second, which is what the interpreter itself takes.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        return usage.ru_utime + usage.ru_stime

    return min(once() for _ in range(7))


@pytest.mark.parametrize("name", ["quarterdeck", "qd"])
def test_the_version_costs_little_more_than_the_interpreter(name: str):
    script = Path(sys.executable).parent / name
    assert cpu([str(script), "--version"]) <= 2 * cpu([sys.executable, "-c", "pass"]) + 0.040


def test_every_command_can_be_imported_and_tells_the_same_line():
    for name, later in {**COMMANDS, **FAKES}.items():
        assert later.load().get_short_help_str(200).startswith(later.help.rstrip(".")), name


def test_garbage_is_not_searched_for_among_what_was_imported():
    program = (
        "import gc, io, sys\n"
        "from quarterdeck.cli.main import main\n"
        "class Output(io.StringIO):\n"
        "    searched, kept = [], []\n"
        "    def write(self, text):\n"
        "        gc.collect()\n"
        "        self.searched.append(len(gc.get_objects()))\n"
        "        self.kept.append(gc.get_freeze_count())\n"
        "        return super().write(text)\n"
        "sys.argv, sys.stdout = ['quarterdeck', '--help'], Output()\n"
        "assert main() == 0\n"
        "print(Output.kept[0], Output.kept[-1], max(Output.searched), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=50
    )
    first, last, most = map(int, done.stderr.split())
    assert first == last  # once, so that what is garbage later is found
    assert first > 10_000 > most
