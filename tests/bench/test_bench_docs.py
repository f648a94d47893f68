"""The bench writes its tables between markers and leaves the rest of the page alone."""

from pathlib import Path

import pytest

from bench.docs import PAGE, MarkerError, describe_run, replace_block, write_docs
from bench.parts import PARTS
from bench.size import Size
from bench.table import Row, Table, format_markdown, format_text

TABLE = Table("Speed", [Row("ours", "5 ms"), Row("theirs", "9 | 10 ms", "1.8×", "≥ 2×", False)])


def test_only_what_is_between_the_markers_changes(tmp_path: Path):
    page = tmp_path / "bench.md"
    page.write_text("before\n<!-- bench:log -->\nold\n<!-- /bench:log -->\nafter\n")
    write_docs({"log": [TABLE]}, "*today*", page)
    text = page.read_text()
    assert text.startswith("before\n<!-- bench:log -->\n*today*\n\n**Speed**\n\n| ")
    assert text.endswith("|\n<!-- /bench:log -->\nafter\n")
    assert "old" not in text
    write_docs({"log": [TABLE]}, "*today*", page)
    assert page.read_text() == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<!-- bench:log -->",
        "<!-- /bench:log --><!-- bench:log -->",
        "<!-- bench:log --><!-- /bench:log --><!-- bench:log -->",
    ],
)
def test_a_page_without_proper_markers_is_refused(text: str):
    with pytest.raises(MarkerError, match="bench:log"):
        replace_block(text, "log", "new")


@pytest.mark.parametrize("name", PARTS)
def test_the_page_has_a_place_for_each_part(name: str):
    assert "\nnew\n" in replace_block(PAGE.read_text(), name, "new")


def test_a_table_says_which_goal_is_missed():
    assert format_markdown(TABLE).splitlines()[-1] == (
        "| theirs | 9 \\| 10 ms | 1.8× | ≥ 2×, **missed** |"
    )
    assert "MISSED" in format_text(TABLE)
    assert "MISSED" not in format_text(TABLE, judges=False)


def test_empty_columns_are_left_out():
    assert format_markdown(Table("Speed", [Row("ours", "5 ms")])).splitlines()[-1] == (
        "| ours | 5 ms |"
    )


def test_a_run_is_described_by_date_commit_and_machine(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bench.docs.describe_commit", lambda: "abc")
    assert " at commit abc, size quick: " in describe_run(Size.QUICK)
