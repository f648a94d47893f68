"""Trees, notebooks, links and figures, without a screen."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.workbench.panels import tree_model as tree_model
from quarterdeck.workbench.panels.markdown import find_links, resolve_link
from quarterdeck.workbench.panels.notebook import NotebookError, cell_lines, parse_notebook
from quarterdeck.workbench.panels.paths import shorten_path
from quarterdeck.workbench.panels.system import (
    MachineProcess,
    MachineSampler,
    format_bytes,
    group_processes,
    parse_cpu_times,
    parse_memory,
    parse_ps,
    parse_vm_stat,
    system_lines,
)
from quarterdeck.workbench.panels.tree_model import FileTree, TreeEntry, find_paths, read_directory
from quarterdeck.workbench.rendering.lines import text_of, width_of
from quarterdeck.workbench.sanitize import sanitize_text
from tests.support.hostile_text import hostile_strings

# Trees


def filled(tree: FileTree) -> FileTree:
    while wanted := tree.wanted():
        for path in wanted:
            tree.take(path, *read_directory(path))
    return tree


def test_a_tree_shows_what_is_open_and_git_letters(tmp_path: Path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "inner.txt").touch()
    (tmp_path / "a.txt").touch()
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "broken").symlink_to("nowhere")
    tree = filled(FileTree(str(tmp_path)))
    assert [row.name for row in tree.rows()] == ["b", "loop → .", "a.txt", "broken → nowhere"]
    tree.toggle(f"{tmp_path}/b")
    tree.take_marks({f"{tmp_path}/b/inner.txt": "M", f"{tmp_path}/loop": "?"})
    rows = {row.name: row for row in filled(tree).rows()}
    assert rows["inner.txt"].mark == "M" and rows["b"].mark == "•" and rows["a.txt"].mark == " "
    assert rows["inner.txt"].depth == 1 and rows["b"].is_open
    path = str(tmp_path)
    for _ in range(30):  # a link to its own directory can be opened again and again
        path += "/loop"
        tree.toggle(path)
    assert len(filled(tree).rows()) < 300


def test_huge_unreadable_and_empty_directories_say_so(tmp_path: Path):
    tree = FileTree("/r")
    assert [row.name for row in tree.rows()] == ["loading …"]
    tree.take("/r", [TreeEntry(f"f{n}", "file") for n in range(tree_model.MOST + 7)])
    assert tree.rows()[-1].name.startswith("… 7 more") and len(tree.rows()) == tree_model.MOST + 1
    tree.more("/r")
    assert len(tree.rows()) == tree_model.MOST + 7
    tree.take("/r", [], "Permission denied")
    assert tree.rows()[0].name == "✗ Permission denied"
    tree.take("/r", [])
    assert tree.rows()[0].name == "(empty)"
    assert read_directory(str(tmp_path / "none"))[1]


def test_hostile_names_are_literal_and_lead_to_their_files(tmp_path: Path):
    made = 0
    for hostile in hostile_strings(150):
        name = hostile.replace("/", "∕").replace("\0", "")[:60]
        try:
            (tmp_path / name).touch()
            made += 1
        except (OSError, ValueError):
            continue
    (tmp_path / os.fsdecode(b"bad-\xff")).touch()
    rows = filled(FileTree(str(tmp_path))).rows()
    assert made > 50 and any("\\udcff" in row.name for row in rows)
    for row in rows:
        assert sanitize_text(row.name) == row.name and "\n" not in row.name
        assert os.path.lexists(row.path)


def test_the_filter_finds_files_by_parts_of_their_names(tmp_path: Path):
    for path in ("src/app/main.py", "src/main_test.py", "node_modules/x/main.py", "docs/a.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "loop").symlink_to(".")
    found = find_paths(str(tmp_path), lambda: None)
    assert found.matching("MAIN py")[0] == ["src/app/main.py", "src/main_test.py"]
    assert found.matching("app")[0] == ["src/app/main.py"]
    assert found.matching("", 1) == (["docs/a.md"], 2)
    assert find_paths("/", lambda: ["a", "b"], 1).is_cut


# Notebooks and Markdown

NOTEBOOK = {
    "metadata": {"language_info": {"name": "python"}},
    "cells": [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {
            "cell_type": "code", "source": "print(1)", "execution_count": 3,
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"image/png": "aGVsbG8="}},
                {"output_type": "execute_result", "data": {"text/plain": "42"}},
                {"output_type": "error", "traceback": ["\u001b[31mBoom\u001b[0m"]},
            ],
        },
    ],
}  # fmt: skip


def test_a_notebook_shows_cells_and_outputs():
    book = parse_notebook(json.dumps(NOTEBOOK).encode())
    lines = [text_of(line) for cell in book.cells for line in cell_lines(cell, "python", 60)]
    for wanted in ("── markdown ", "Title", "── [3] code ", "print(1)", "│ 1", "│ 42", "│ Boom"):
        assert wanted in lines
    assert any("image/png" in line and "not shown" in line for line in lines)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"cells": 3}', b"\xff", b"[" * 100_000])
def test_a_broken_notebook_says_so(data: bytes):
    with pytest.raises(NotebookError):
        parse_notebook(data)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["cell_type", "source", "outputs", "output_type", "data", "text"]),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=150)
@given(cells=st.lists(JSON, max_size=4))
def test_any_cells_can_be_shown(cells: list[object]):
    for cell in parse_notebook(json.dumps({"cells": cells}).encode()).cells:
        list(cell_lines(cell, "python", 20))


def test_hostile_notebooks_stay_literal():
    for hostile in hostile_strings(200):
        text = hostile.encode("utf-8", "replace").decode()
        outputs = [{"output_type": "stream", "text": text}, {"data": {text: text}}]
        cells = [
            {"cell_type": kind, "source": text, "outputs": outputs}
            for kind in ("markdown", "code", text)
        ]
        for cell in parse_notebook(json.dumps({"cells": cells}).encode()).cells:
            for line in cell_lines(cell, "python", 40):
                shown = text_of(line)
                assert sanitize_text(shown) == shown and "\n" not in shown


def test_links_lead_to_files_and_nowhere_else():
    source = "[a](b.md) ![p](p.png) [`c`](../x%20y.md#part) <http://e> [w](http://w/x.md)"
    links = find_links(source)
    assert [(link.text, link.target) for link in links][:2] == [
        ("a", "b.md"),
        ("c", "../x%20y.md#part"),
    ]
    found = [resolve_link("/d/e/page.md", link.target) for link in links]
    assert found == ["/d/e/b.md", "/d/x y.md", None, None]
    for odd in ("#here", "", "mailto:a@b", "javascript:x", "//host/x.md", "a%00b.md"):
        assert resolve_link("/d/page.md", odd) is None


# Figures


def test_a_long_path_loses_whole_directories_first():
    assert shorten_path("src/parser.py", 13) == "src/parser.py"
    assert shorten_path("src/parser.py", 12) == "…/parser.py"
    assert shorten_path("a/src/parser.py", 13) == "…/parser.py"
    assert shorten_path("src/parser.py", 7) == "…ser.py" and shorten_path("src/x", 1) == "…"
    assert shorten_path("src/docs/", 4) == "…cs/"


def test_processes_are_added_up_below_the_host():
    table = {
        1: MachineProcess(0, 0, 1, "init"),
        10: MachineProcess(1, 0, 1, "host"),
        11: MachineProcess(10, 1.5, 100, "a"),
        12: MachineProcess(11, 0.5, 50, "b"),
        13: MachineProcess(10, 3.0, 10, "c"),
        14: MachineProcess(1, 9, 9, "x"),
    }
    groups = group_processes(10, table, lambda _, one: one.cpu, lambda pid: f"/{pid}")
    found = [(group.name, group.count, group.cpu, group.memory) for group in groups]
    assert found == [("c", 1, 3.0, 10), ("a", 2, 2.0, 150)]


def test_what_the_systems_say_is_understood():
    assert parse_cpu_times("cpu  10 0 10 70 10 0 0 0 0 0\ncpu0 1") == (20, 100)
    assert parse_cpu_times("x") is None
    assert parse_memory("MemTotal:  100 kB\nMemAvailable: 40 kB") == (60 * 1024, 100 * 1024)
    assert parse_memory("") is None
    found = parse_ps("  1  0 2048 12,5 /sbin/launchd\n 7 1 10 0.0 /Applications/A b\njunk\n")
    assert found[1] == MachineProcess(0, 0.125, 2048 * 1024, "launchd") and found[7].name == "A b"
    text = "Mach Virtual Memory Statistics: (page size of 4096 bytes)\nPages free:  10.\n"
    assert parse_vm_stat(text + "Pages inactive:   5.\n", 100 * 4096) == (85 * 4096, 100 * 4096)
    assert parse_vm_stat("", 5) is None
    assert [format_bytes(n) for n in (5, 1_500, 12_340_000, 5 * 10**12)] == [
        "5 B",
        "2 kB",
        "12.3 MB",
        "5.0 TB",
    ]


def test_this_machine_can_be_looked_at(tmp_path: Path):
    ticks = iter([0.0, 2.0])
    sampler = MachineSampler(clock=lambda: next(ticks))
    sampler.sample(os.getppid(), str(tmp_path))
    sample = sampler.sample(os.getppid(), str(tmp_path))
    assert sample.memory is not None and 0 < sample.memory[0] < sample.memory[1]
    assert sample.disk is not None and sample.groups
    for width in (18, 80):
        for line in system_lines(sample, lambda _: "a\nb", width):
            assert width_of(line) <= width and sanitize_text(text_of(line)) == text_of(line)
    unknown = MachineSampler(tmp_path, "linux").sample(1, str(tmp_path / "none"))
    assert unknown.groups is None and unknown.memory is None and unknown.disk is None
    assert "–" in text_of(system_lines(unknown, lambda _: None, 60)[1])
