"""Lines that run unasked have no effect: real shells are the judges.

``QUARTERDECK_FUZZ_LINES`` sets how many lines the long version makes in all.
"""

import os
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from quarterdeck.policy import Allow, Call, SandboxState, decide
from quarterdeck.policy.shell.plain_grammar import read_plain
from quarterdeck.policy.shell.readonly_table import COMMANDS
from quarterdeck.testing.installed_programs import INSTALLED
from tests.policy.shell_lines import EFFECT, LineMaker
from tests.policy.shell_oracle import ShellOracle

SHORT = 3_000
LONG = int(os.environ.get("QUARTERDECK_FUZZ_LINES", "1000000"))
SEEDS = 8
BATCH = 400
LEAST_ACCEPTED = 0.2
SEALS = (SandboxState(seals=True), SandboxState())
SHELLS = tuple(name for name in ("bash", "dash", "zsh") if shutil.which(name))

BUILTINS = frozenset(
    (
        *(".", "alias", "bg", "bind", "builtin", "caller", "compgen", "complete", "compopt"),
        *("declare", "dirs", "disown", "enable", "eval", "exec", "export", "fc", "fg", "getopts"),
        *("hash", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "pushd"),
        *("read", "readarray", "readonly", "shift", "shopt", "source", "suspend", "times", "trap"),
        *("typeset", "ulimit", "umask", "unalias", "unset", "wait", "command", "set", "cd", "test"),
        *("[", "printf", "time"),
    )
)
"""What bash runs itself, with effects of its own."""

PROGRAMS = tuple(
    sorted({*COMMANDS, "find", "sed", "awk", "jq", "xxd", "date", "ps"} - {"sleep", "exit"})
)

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash as the judge")


def is_unasked(line: str, cwd: str) -> bool:
    """Say whether a line runs unasked in the strictest mode that runs anything."""
    call = Call(
        tool="bash",
        kind="execute",
        command=line,
        cwd=cwd,
        roots=(cwd,),
        home="/home/nobody",
        programs=INSTALLED,
    )
    return any(isinstance(decide(call, "read-only", sandbox=each), Allow) for each in SEALS)


class Fuzz:
    """One run: makes lines, has policy decide, and lets the shells run what passed."""

    def __init__(self, scratch: Path, seed: int) -> None:
        self.maker = LineMaker(seed)
        self.judges = {name: ShellOracle(scratch / name, name) for name in SHELLS}
        self.real = ShellOracle(scratch / "real", "bash", real_programs=True)
        self.cwd = str(self.judges["bash"].work)
        self.made = self.accepted = self.planted = self.batches = 0
        self.bad: list[str] = []

    def run(self, count: int) -> None:
        """Make ``count`` lines and judge them in batches."""
        passed = self._passed(count)
        while batch := list(islice(passed, BATCH)):
            self._judge(batch)

    def _passed(self, count: int) -> Iterator[str]:
        for _ in range(count):
            line = self.maker.line()
            self.made += 1
            if is_unasked(line, self.cwd):
                self.accepted += 1
                self.planted += EFFECT in line or "canary" in line
                yield line

    def _judge(self, batch: list[str]) -> None:
        self.batches += 1
        for name, judge in self.judges.items():
            if name == "zsh" and self.batches % 4 != 1:
                continue
            self.bad.extend(f"{name}: {line!r}" for line in judge.effects_of(batch))
            if name == "bash" and not self.bad:
                self.bad.extend(_misread(batch, judge.words_run()))
        # Real programs take long; a part of the lines shows what their options do.
        if self.batches % 4 == 1:
            self.bad.extend(f"real: {line!r}" for line in self.real.effects_of(batch[:100]))


def _misread(batch: list[str], ran: list[list[tuple[str, ...]]]) -> Iterator[str]:
    """Yield where bash ran other words than those that were read."""
    assert len(ran) == len(batch)
    for line, programs in zip(batch, ran, strict=True):
        known = list(_expected(line))
        for words in programs:
            if not any(_fits(each, words) for each in known):
                yield f"bash ran {words!r} in {line!r}"


def _expected(line: str) -> Iterator[tuple[str | None, ...]]:
    """Return the words of each command; None for those that the shell makes from patterns."""
    for command in read_plain(line) or ():
        words = tuple(None if w.exact is None else w.exact for w in command.words)
        yield words
        # These are no programs, and what they run is missed by itself.
        while words and words[0] in ("time", "command") and len(words) > 1:
            words = words[2:] if words[1] in ("-p", "--") else words[1:]
            yield words


def _fits(expected: tuple[str | None, ...], words: tuple[str, ...]) -> bool:
    if None in expected:
        return expected[0] == words[0]
    return expected == words


@needs_bash
def test_bash_reads_every_line_of_the_grammar_as_we_do(tmp_path: Path):
    check_words(tmp_path, seed=2, count=SHORT)


@pytest.mark.stress
@needs_bash
@pytest.mark.timeout(3600)
def test_bash_reads_very_many_lines_of_the_grammar_as_we_do(tmp_path: Path):
    check_words(tmp_path, seed=50, count=LONG // 10)


def check_words(scratch: Path, seed: int, count: int) -> None:
    """Compare words alone: no table of commands and no second reader stands behind the grammar."""
    judge = ShellOracle(scratch, "bash", no_programs=True)
    maker = LineMaker(seed)
    lines = (maker.line() for _ in range(count))
    passed = (line for line in lines if _can_be_compared(line))
    judged = 0
    while batch := list(islice(passed, BATCH)):
        judged += len(batch)
        assert judge.effects_of(batch) == []
        assert list(_misread(batch, judge.words_run())) == []
    assert judged >= LEAST_ACCEPTED * count


def _can_be_compared(line: str) -> bool:
    """Say whether a line is of the grammar and only runs what bash has to look for."""
    commands = read_plain(line)
    return commands is not None and not any(c.words[0].raw in BUILTINS for c in commands)


@needs_bash
def test_options_of_programs_that_run_unasked_write_nothing(tmp_path: Path):
    check_options(tmp_path, seed=3, count=1_500)


@pytest.mark.stress
@needs_bash
@pytest.mark.timeout(3600)
def test_very_many_options_of_programs_that_run_unasked_write_nothing(tmp_path: Path):
    check_options(tmp_path, seed=60, count=LONG // 10)


def check_options(scratch: Path, seed: int, count: int) -> None:
    """Give real programs options at random, and let those run that policy lets pass."""
    judge = ShellOracle(scratch, "bash", real_programs=True)
    maker = LineMaker(seed)
    cwd = str(judge.work)
    lines = (maker.optioned(maker.dice.choice(PROGRAMS)) for _ in range(count))
    passed = (line for line in lines if is_unasked(line, cwd))
    judged = 0
    while batch := list(islice(passed, 100)):
        judged += len(batch)
        assert judge.effects_of(batch) == []
    assert judged >= 0.1 * count


def check(run: Fuzz) -> None:
    assert run.bad == []
    assert run.accepted >= LEAST_ACCEPTED * run.made, f"{run.accepted} of {run.made} were judged"
    assert run.planted >= 0.3 * run.accepted, f"{run.planted} of {run.accepted} had a plant"


@needs_bash
def test_lines_that_run_unasked_have_no_effect(tmp_path: Path):
    run = Fuzz(tmp_path, seed=1)
    run.run(SHORT)
    check(run)


@pytest.mark.stress
@needs_bash
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 100 + SEEDS))
def test_a_million_lines_that_run_unasked_have_no_effect(tmp_path: Path, seed: int):
    run = Fuzz(tmp_path, seed)
    run.run(LONG // SEEDS)
    check(run)


@needs_bash
@pytest.mark.parametrize("shell", SHELLS)
def test_the_judges_see_effects(tmp_path: Path, shell: str):
    judge = ShellOracle(tmp_path, shell)
    lines = [
        "echo x",
        "effect",
        "echo 'effect'",
        "echo $(effect)",
        ": >canary",
        "./effect",
        "cd src",
    ]
    assert judge.effects_of(lines) == ["effect", "echo $(effect)", ": >canary", "./effect"]


@needs_bash
def test_the_judge_sees_the_words_that_bash_runs(tmp_path: Path):
    judge = ShellOracle(tmp_path, "bash")
    assert judge.effects_of(["a 'b c' | d", "echo e", "time f"]) == []
    # The programs of a pipeline begin in any order.
    assert [sorted(ran) for ran in judge.words_run()] == [[("a", "b c"), ("d",)], [], [("f",)]]


@needs_bash
def test_the_judge_of_real_programs_sees_what_options_write(tmp_path: Path):
    judge = ShellOracle(tmp_path, "bash", real_programs=True)
    assert judge.effects_of(["sort a", "sort -o canary a", "cat a"]) == ["sort -o canary a"]
