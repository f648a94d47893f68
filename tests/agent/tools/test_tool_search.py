"""``ls``, ``glob`` and ``grep``: what is found, in which order, and what is said to be missing."""

import asyncio
import fnmatch
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarterdeck.agent.tools.file_tree import list_tree
from quarterdeck.agent.tools.grep import open_engine
from quarterdeck.agent.tools.grep.search import GrepQuery, Searcher, is_quick
from quarterdeck.system.api import CommandSpec, Process
from quarterdeck.system.errors import CommandNotFoundError
from quarterdeck.wire.errors import QuarterdeckError


def plant(root: Path, tree: Mapping[str, str | bytes]) -> None:
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


async def test_ls_shows_everything_sorted(call, root: Path):
    plant(root, {"b.txt": "12345", ".hidden": "", "d/x": "", ".gitignore": "b.txt"})
    (root / "link").symlink_to("b.txt")
    os.mkfifo(root / "pipe")
    told = await call("ls")
    assert told == ".gitignore  5\n.hidden  0\nb.txt  5\nd/\nlink@\npipe  (pipe)"
    assert await call("ls", path="d") == "x  0"


async def test_ls_says_what_is_missing(call, root: Path):
    assert await call("ls") == ". is empty."
    for n in range(1005):
        (root / f"{n:04}").touch()
    told = await call("ls")
    assert told.endswith("0999  0\n(1000 of 1005 entries; use glob to narrow the list)")
    assert "not a directory; use read" in await call.refused("ls", path="0000")
    assert "does not exist" in await call.refused("ls", path="nothing")
    assert "outside" in await call.refused("ls", path="..")


async def test_glob_finds_sorted_paths(call, root: Path):
    plant(root, {"b.py": "", "a/c.py": "", "a/.d.py": "", "a-b/c.py": "", "e.txt": ""})
    assert await call("glob", pattern="**/*.py") == "a-b/c.py\na/.d.py\na/c.py\nb.py"
    assert await call("glob", pattern="*.py", path="a") == "a/.d.py\na/c.py"
    assert await call("glob", pattern=f"{root}/a/*.py") == "a/.d.py\na/c.py"
    assert await call("glob", pattern="*.rs") == "No file in . matches '*.rs'."


async def test_glob_honours_ignore_files_also_nested(call, root: Path):
    plant(
        root,
        {
            ".gitignore": "*.log\nnode_modules/\n/out\n",
            "a.log": "",
            "out/x": "",
            "d/out/x": "",
            "d/.gitignore": "!keep.log\nsecret*\n",
            "d/keep.log": "",
            "d/other.log": "",
            "d/secret.txt": "",
            "node_modules/m/i.js": "",
            ".git/config": "",
            ".git/info/exclude": "private\n",
            "private": "",
        },
    )
    assert await call("glob", pattern="**") == ".gitignore\nd/.gitignore\nd/keep.log\nd/out/x"
    assert await call("glob", pattern="**", path="node_modules") == "node_modules/m/i.js"
    assert await call("glob", pattern="**", path="d") == "d/.gitignore\nd/keep.log\nd/out/x"


async def test_glob_states_the_total(call, root: Path):
    for n in range(510):
        (root / f"{n:04}.py").touch()
    told = await call("glob", pattern="*.py")
    assert told.endswith("0499.py\n(500 of 510 files; give a narrower pattern or path)")


async def test_glob_refuses_what_it_cannot_do(call, root: Path):
    (root / "a").touch()
    assert "cannot contain '..'" in await call.refused("glob", pattern="../*")
    assert "not valid" in await call.refused("glob", pattern="[a")
    assert "is not a directory" in await call.refused("glob", pattern="*", path="a")
    assert "outside" in await call.refused("glob", pattern="/etc/*")
    assert "does not exist" in await call.refused("glob", pattern="*", path="b")


async def test_symlinks_are_named_and_not_followed(call, root: Path):
    plant(root, {"d/a": "text"})
    (root / "loop").symlink_to(".")
    (root / "out").symlink_to(root.parent / "outside")
    assert await call("glob", pattern="**") == "d/a\nloop\nout"
    assert await call("grep", pattern="text|secret", mode="files") == "d/a"


async def test_survey_stops_at_its_limit_and_says_so(call, root: Path):
    plant(root, {f"d{n:02}/f{m}": "" for n in range(20) for m in range(5)})
    tree = await list_tree(call.workspace.system.files, str(root), limit=50)
    assert tree.is_cut
    assert 0 < len(tree.files) < 100
    assert "more than" in tree.notes[0]
    assert (await list_tree(call.workspace.system.files, str(root), limit=50)) == tree


async def test_unreadable_directory_is_counted(call, root: Path):
    if os.geteuid() == 0:
        pytest.skip("the superuser reads everything")
    plant(root, {"d/a": "", "b": ""})
    (root / "d").chmod(0)
    try:
        assert await call("glob", pattern="**") == "b\n(1 directories could not be read)"
    finally:
        (root / "d").chmod(0o700)


async def test_grep_modes(call, root: Path):
    plant(root, {"a.py": "x = 1\ny = 2\nx = 3\n", "d/b.py": "x = 4", "c.txt": "x = 5\n"})
    assert await call("grep", pattern="x = ") == (
        "a.py:1:x = 1\na.py:3:x = 3\nc.txt:1:x = 5\nd/b.py:1:x = 4"
    )
    assert await call("grep", pattern="x = ", glob="*.py", mode="files") == "a.py\nd/b.py"
    assert await call("grep", pattern="x = ", mode="count") == (
        "a.py:2\nc.txt:1\nd/b.py:1\n(4 matching lines in 3 files)"
    )
    assert await call("grep", pattern="X", path="a.py") == "Nothing in a.py matches 'X'."
    assert await call("grep", pattern="X", path="a.py", ignore_case=True, limit=1) == (
        "a.py:1:x = 1\n(2 matching lines in 1 file; only the first 1 are shown: "
        "narrow the search with path, glob or pattern)"
    )
    assert await call("grep", pattern="4", path="d") == "d/b.py:1:x = 4"


async def test_grep_context(call, root: Path):
    plant(root, {"a": "1\n2\nhit\n4\n5\n6\nhit\nhit\n9\n", "b": "hit\n"})
    assert await call("grep", pattern="hit", context=1) == (
        "a-2-2\na:3:hit\na-4-4\n--\na-6-6\na:7:hit\na:8:hit\na-9-9\n--\nb:1:hit"
    )
    told = await call("grep", pattern="hit", context=1, limit=2)
    assert told.startswith("a-2-2\na:3:hit\na-4-4\n--\na-6-6\na:7:hit\na-8-hit\n(4 matching lines")


async def test_grep_multiline(call, root: Path):
    plant(root, {"a": "def f(\n  x,\n):\n  pass\ndef g():\n"})
    assert await call("grep", pattern=r"def f\(.*?\)", multiline=True) == (
        "a:1:def f(\na:2:  x,\na:3:):"
    )
    assert await call("grep", pattern=r"f\(\n") == r"Nothing in . matches 'f\\(\\n'."
    assert await call("grep", pattern="^def", multiline=True, mode="count") == (
        "a:2\n(2 matches in 1 file)"
    )


async def test_grep_skips_what_is_no_text_and_says_what_is_too_large(call, root: Path):
    plant(root, {"bin": b"hit\0hit", "text": "hit\r\n", "latin": "hit é".encode("latin-1")})
    with (root / "large").open("wb") as file:
        file.truncate(17 * 1_048_576)
    assert await call("grep", pattern="hit$|hit ") == (
        "latin:1:hit �\ntext:1:hit\n(1 files are larger than 16777216 bytes and were not searched)"
    )


async def test_grep_honours_ignore_files(call, root: Path):
    plant(root, {".gitignore": "x/\n", "x/a": "hit", "y/a": "hit", ".env": "hit"})
    assert await call("grep", pattern="hit", mode="files") == ".env\ny/a"
    assert await call("grep", pattern="hit", path="x") == "x/a:1:hit"
    assert await call("grep", pattern="hit", path="x/a") == "x/a:1:hit"


async def test_long_line_is_cut_around_the_match(call, root: Path):
    plant(root, {"a": "x" * 5000 + "hit" + "y" * 5000})
    told = await call("grep", pattern="hit")
    assert told == (
        "a:1:[4920 characters …] " + "x" * 80 + "hit" + "y" * 317 + " [… 4683 characters]"
    )


async def test_large_result_is_cut_and_counted(call, root: Path):
    plant(root, {"a": ("hit" + "z" * 300 + "\n") * 1000})
    told = await call("grep", pattern="hit", limit=1000)
    assert len(told) < 51_000
    assert "(1000 matching lines in 1 file; only the first 16" in told


async def test_grep_refuses_what_it_cannot_do(call, root: Path):
    assert "is not valid: missing )" in await call.refused("grep", pattern="(a")
    assert "does not exist" in await call.refused("grep", pattern="a", path="b")
    assert "longer than" in await call.refused("grep", pattern="a" * 2001)
    os.mkfifo(root / "pipe")
    assert "neither" in await call.refused("grep", pattern="a", path="pipe")


async def test_endless_pattern_blocks_nobody_and_can_be_stopped(call, root: Path):
    plant(root, {"a": "a" * 40 + "!"})
    prepared = await call.prepare("grep", pattern="(a+)+$")
    assert prepared.timeout
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await call.finish(prepared)
    assert time.monotonic() - began < 5


SOURCES = st.sampled_from(
    [
        "a",
        "b+",
        "^a",
        "b$",
        "a.b",
        "[ab]c",
        r"\bc",
        r"a\s",
        "(?i)A",
        "a|c",
        "(a)|b",
        r"(?<!a)b",
        r"a(?!\s)",
        r"\Ac",
        r"c\Z",
        "^$",
        "",
        "x*",
        "a\n",
        "é",
        r"\w+ \w+",
    ]
)
BODY = st.text("abcA \n\r\té\0", max_size=30)


@given(pattern=SOURCES, text=BODY, ignore_case=st.booleans())
@settings(deadline=None, max_examples=100)
def test_lines_found_are_those_that_match(pattern: str, text: str, ignore_case: bool):
    found = Searcher(GrepQuery(pattern, ignore_case, rows=1000)).search(text.encode())
    if "\0" in text:
        assert found.is_binary
        return
    lines = re.sub("\r\n", "\n", text).removesuffix("\n").split("\n") if text else []
    flags = re.IGNORECASE if ignore_case else 0
    expected = [n for n, line in enumerate(lines, 1) if re.search(pattern, line, flags)]
    assert [row.number for row in found.rows if row.match] == expected
    assert found.total == len(expected)


@given(
    pattern=SOURCES,
    texts=st.lists(BODY, max_size=5),
    multiline=st.booleans(),
    context=st.integers(0, 2),
)
@settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_process_and_thread_find_the_same(
    call, pattern: str, texts: list[str], multiline: bool, context: int
):
    query = GrepQuery(
        f"(?:{pattern})" if "(?i)" not in pattern else pattern, False, multiline, context, 9
    )
    assert not is_quick(query.pattern)
    batch = [text.encode() for text in texts]
    async with open_engine(query, call.workspace.system) as engine:
        assert await engine.search(batch) == [Searcher(query).search(data) for data in batch]


class NoProcesses:
    async def spawn(self, command: CommandSpec) -> Process:
        raise CommandNotFoundError(command.argv[0], "")


async def test_search_works_where_no_process_can_be_started():
    system = SimpleNamespace(processes=NoProcesses())
    async with open_engine(GrepQuery("a+", rows=1), system) as engine:
        assert [found.total for found in await engine.search([b"aa\nb\na", b"b"])] == [2, 0]


class DyingProcesses:
    def __init__(self, system) -> None:
        self._system = system

    async def spawn(self, command: CommandSpec) -> Process:
        return await self._system.processes.spawn(CommandSpec(argv=("sh", "-c", "echo no >&2")))


async def test_search_that_breaks_down_says_so(call):
    system = SimpleNamespace(processes=DyingProcesses(call.workspace.system))
    with pytest.raises(QuarterdeckError):
        async with open_engine(GrepQuery("a+", rows=1), system) as engine:
            await engine.search([b"a" * 1_000_000])


NAMES = st.sampled_from(["a.py", "b.txt", ".h.py", "c"])
TREES = st.dictionaries(
    st.lists(st.sampled_from(["d", "e.x", ".f"]), max_size=2).flatmap(
        lambda parents: NAMES.map(lambda name: "/".join([*parents, name]))
    ),
    st.sampled_from(["hit\n", "miss\n", "a\nhit\nb\nhit", "\0hit"]),
    max_size=8,
)


@given(tree=TREES, pattern=st.sampled_from(["*.py", "*", "c", ".*", "?.*"]))
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_generated_trees(open_calls, tmp_path_factory, tree: dict[str, str], pattern: str):
    root = tmp_path_factory.mktemp("tree")
    plant(root, tree)
    call = await open_calls(root)
    names = sorted(path for path in tree if fnmatch.fnmatchcase(Path(path).name, pattern))
    told = await call("glob", pattern=pattern)
    assert told == "\n".join(names or [f"No file in . matches {pattern!r}."])
    rows = [
        f"{path}:{number}:{line}"
        for path in names
        for number, line in enumerate(tree[path].split("\n"), 1)
        if "hit" in line and "\0" not in tree[path]
    ]
    told = await call("grep", pattern="hit", glob=pattern)
    assert told == "\n".join(rows or ["Nothing in . matches 'hit'."])
