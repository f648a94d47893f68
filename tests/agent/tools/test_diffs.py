"""Diffs say exactly what changed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.agent.tools import diffs
from quarterdeck.agent.tools.diffs import diff_content, hunks, unified

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "d", "e", "f", "g"]), max_size=30).map(
    "\n".join
)


def applied(old: str, new: str) -> str:
    """What the hunks make of the old text."""
    lines = old.splitlines(keepends=True)
    out: list[str] = []
    position = 0
    for hunk in hunks(old, new):
        out += lines[position : hunk.old_line - 1]
        before = hunk.side("-")
        position = hunk.old_line - 1 + len(before.splitlines())
        assert "".join(lines[hunk.old_line - 1 : position]) == before
        assert "".join(out).count("\n") == hunk.new_line - 1
        out.append(hunk.side("+"))
    return "".join(out + lines[position:])


@given(old=TEXTS, new=TEXTS)
@settings(deadline=None, max_examples=100)
def test_hunks_lead_from_old_to_new(old: str, new: str):
    assert applied(old, new) == new
    assert (unified(old, new) == "") == (old == new)


@given(old=TEXTS, new=TEXTS)
@settings(deadline=None, max_examples=100)
def test_hunks_of_large_regions_lead_there_too(old: str, new: str):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffs, "_COMPARED", 9)
        assert applied(old, new) == new


def test_far_changes_are_hunks_of_their_own():
    old = "".join(f"{n}\n" for n in range(100))
    new = old.replace("10\n", "x\n", 1).replace("80\n", "y\n")
    assert [hunk.old_line for hunk in hunks(old, new)] == [8, 78]
    assert unified(old, new).startswith("@@ -8,7 +8,7 @@\n 7\n 8\n 9\n-10\n+x\n 11")


def test_huge_change_takes_no_time_and_is_cut_with_a_count():
    old = "".join(f"a{n}\n" for n in range(20_000))
    new = "".join(f"b{n}\n" for n in range(20_000))
    told = unified(old, new)
    assert len(told) < 10_000
    assert told.endswith(" more lines of the diff]")
    assert len(diff_content("/a", old, new)) == 1


def test_new_file_is_shown_whole():
    (diff,) = diff_content("/a", None, "x\n")
    assert (diff.old_text, diff.new_text) == (None, "x\n")
