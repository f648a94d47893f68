"""What makes a search quick changes none of its answers."""

import asyncio
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.agent.tools.grep import GrepArguments, GrepTool
from quarterdeck.agent.tools.grep.prefilter import (
    LiteralFilter,
    find_candidates,
    make_literal_filter,
)
from quarterdeck.agent.tools.grep.search import GrepQuery, Searcher
from quarterdeck.agent.tools.workspace import ToolWorkspace
from quarterdeck.system.api import CommandSpec, DirectoryEntry, Process
from quarterdeck.system.local import LocalSystem
from tests.agent.tools.conftest import QuietLive, text_of

BUILD = Path(__file__).parents[3] / "build"
NEVER = 10**12


def find_ripgrep() -> Path | None:
    """The one on the path, or the one that an agent for the tests brings along."""
    if (found := shutil.which("rg")) is not None:
        return Path(found)
    return next(iter(sorted(BUILD.glob("*peers/node_modules/@openai/*/vendor/*/*/rg"))), None)


RIPGREP = find_ripgrep()
needs_ripgrep = pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed")


@pytest.fixture
def ripgrep(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RIPGREP is not None
    monkeypatch.setenv("PATH", str(RIPGREP.parent), prepend=":")


@pytest.mark.parametrize(
    ("pattern", "pieces"),
    [
        ("needle", ["needle"]),
        (r"\bneedle_(here|there)\b", ["needle_"]),
        (r"def \w+\(self", ["(self"]),
        (r"a\.b\.c", ["a.b.c"]),
        ("colou?r", ["colo"]),
        ("ab+cd", ["ab"]),
        ("xab*cde", ["cde"]),
        ("one|other", ["one", "other"]),
        ("one|[ab]", None),
        ("(one)", None),
        ("x{3}yes", ["yes"]),
        ("né?edle", ["edle"]),
        ("[a-z]+", None),
        ("(?i)needle", None),
        (r"\x41bcd", None),
        ("(?#note)needle", None),
        ("[]x]end", ["end"]),
        ("a", None),
    ],
)
def test_pieces_by_example(pattern: str, pieces: list[str] | None):
    found = make_literal_filter(GrepQuery(pattern))
    assert (found and [piece.decode() for piece in found.pieces]) == pieces


def test_letters_with_more_than_two_forms_are_left_out_when_case_is_ignored():
    assert make_literal_filter(GrepQuery("Function", ignore_case=True)) == LiteralFilter(
        (b"funct",), True
    )
    assert make_literal_filter(GrepQuery("kiss", ignore_case=True)) is None
    assert re.search("k", "\u212a", re.IGNORECASE)  # why


ATOMS = st.sampled_from(
    [
        r"a",
        r"b",
        r"ab",
        r"aB",
        r"k",
        r"i",
        r"é",
        r".",
        r"\.",
        r"[ab]",
        r"[^a]",
        r"\w",
        r"\s",
        r"^",
        r"$",
        r"{",
        r"(a|b)",
        r"(?:ab)",
        r"(?=a)",
        r"(?P<n>b)",
        r"\b",
        r"-",
        r"]",
    ]
)
REPEATS = st.sampled_from(
    ["", "", "", "*", "+", "?", "{2}", "{0,1}", "{,2}", "*?", "+?", "??", "{"]
)
PATTERNS = st.lists(
    st.lists(st.tuples(ATOMS, REPEATS).map("".join), min_size=1, max_size=4).map("".join),
    min_size=1,
    max_size=2,
).map("|".join)
TEXTS = st.lists(
    st.sampled_from(
        ["a", "b", "ab", "AB", "k", "\u212a", "ı", "é", ".", " ", "{", "-", "\n", "\r\n"]
    ),
    max_size=12,
).map("".join)


def is_valid(pattern: str) -> bool:
    try:
        Searcher(GrepQuery(pattern))
    except re.error:
        return False
    return True


@given(pattern=PATTERNS.filter(is_valid), text=TEXTS, case=st.booleans(), lines=st.booleans())
@settings(deadline=None, max_examples=300)
def test_what_matches_passes(pattern: str, text: str, case: bool, lines: bool):
    query = GrepQuery(pattern, ignore_case=case, multiline=lines)
    sieve = make_literal_filter(query)
    data = text.encode()
    if sieve is not None and Searcher(query).search(data).total:
        assert sieve.passes(data)


async def told(root: Path, worth: int, **arguments: Any) -> str:
    async with LocalSystem([root]) as system:
        workspace = ToolWorkspace(system=system)
        prepared = await GrepTool(worth=worth).prepare(GrepArguments(**arguments), workspace)
        return text_of(await prepared.run(QuietLive()))


CONTENTS = st.one_of(
    TEXTS.map(str.encode),
    st.sampled_from(
        [b"\0ab", b"\xff\xfeab", b"\xef\xbb\xbfab", "ab".encode("utf-16"), b"a\xffb ab"]
    ),
)
NAMES = st.sampled_from(["a.py", ".h", "-e", "d/b.txt", "d/e/c", "out/x", "é.txt", "d/ sp ace"])


@needs_ripgrep
@pytest.mark.usefixtures("ripgrep")
@given(
    tree=st.dictionaries(NAMES, CONTENTS, max_size=8),
    pattern=st.one_of(st.sampled_from(["ab", "ab|é-", "-a", "AB"]), PATTERNS.filter(is_valid)),
    ignore_case=st.booleans(),
    mode=st.sampled_from(["content", "count"]),
)
@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_answers_are_the_same_with_ripgrep_and_without(
    tmp_path_factory: pytest.TempPathFactory,
    tree: dict[str, bytes],
    pattern: str,
    ignore_case: bool,
    mode: str,
):
    root = tmp_path_factory.mktemp("tree")
    for name, data in {**tree, ".gitignore": b"out/\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    wanted: dict[str, Any] = {"pattern": pattern, "ignore_case": ignore_case, "mode": mode}
    assert await told(root, 0, **wanted) == await told(root, NEVER, **wanted)


@needs_ripgrep
@pytest.mark.usefixtures("ripgrep")
async def test_ripgrep_leaves_out_what_cannot_match(tmp_path: Path):
    names = [f"file-{number}" for number in range(30)]
    for name in names:
        (tmp_path / name).write_text("needle\n" if name.endswith("7") else "hay\n")
    entries = [DirectoryEntry(path=name, kind="file") for name in names]
    async with LocalSystem([tmp_path]) as system:
        sieve = LiteralFilter((b"needle",))
        found = await find_candidates(system, str(tmp_path), entries, sieve)
        gone = [*entries, DirectoryEntry(path="gone", kind="file")]
        unclear = await find_candidates(system, str(tmp_path), gone, sieve)
    assert found == {"file-7", "file-17", "file-27"}
    assert unclear is None, "a file that cannot be read has to be counted by whoever reads it"


class NoProgram:
    """Processes of a system on which there is no ripgrep, or on which it must not be asked."""

    def __init__(self, processes: Any) -> None:
        self.asked: list[str] = []
        self._processes = processes

    async def spawn(self, command: CommandSpec) -> Process:
        self.asked.append(command.argv[0])
        return await self._processes.spawn(CommandSpec(argv=("no-such-program-here",)))


@pytest.mark.parametrize("is_disk", [True, False])
async def test_a_search_needs_no_ripgrep(tmp_path: Path, is_disk: bool):
    """Nor is it asked where an editor's buffers are read: it would look at the disk."""
    (tmp_path / "a.txt").write_text("a needle\n")
    async with LocalSystem([tmp_path]) as local:
        local.files.is_disk = is_disk
        processes = NoProgram(local.processes)
        system: Any = SimpleNamespace(files=local.files, processes=processes, roots=local.roots)
        workspace = ToolWorkspace(system=system)
        prepared = await GrepTool(worth=0).prepare(GrepArguments(pattern="needle"), workspace)
        assert text_of(await prepared.run(QuietLive())) == "a.txt:1:a needle"
    asked = {name.rpartition("/")[2] for name in processes.asked}
    assert asked == ({"rg"} if is_disk and shutil.which("rg") else set())


async def test_a_ripgrep_that_lies_in_the_project_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    program, ran = tmp_path / "bin" / "rg", tmp_path.with_name("ran")
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n: > {ran}\n")
    program.chmod(0o755)
    (tmp_path / "a.txt").write_text("a needle\n")
    monkeypatch.setenv("PATH", f".:{program.parent}")
    monkeypatch.chdir(program.parent)
    assert await told(tmp_path, 0, pattern="needle") == "a.txt:1:a needle"
    assert not await asyncio.to_thread(ran.exists)
