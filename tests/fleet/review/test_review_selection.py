"""Chosen lines of a change, applied and reverted: the same as git does with a partial patch."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.review.comparison import Comparison
from quarterdeck.fleet.review.patch import PatchHunk, PatchLine
from quarterdeck.fleet.review.selection import (
    AcceptedContent,
    ChangedLines,
    accept_lines,
    changed_lines,
    find_line,
    reject_lines,
    select_hunks,
    split_lines,
    trace_lines,
)
from quarterdeck.system.git.object_store import ObjectStore
from tests.support.review_project import git

CONTENTS = st.builds(
    lambda lines, end: "".join(lines).encode() if end else "".join(lines).encode().rstrip(b"\n"),
    st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\r\n", "\n", "-- x\n", "+ y\n"]), max_size=12),
    st.booleans(),
)


def hunks_of(store: ObjectStore, old: bytes, new: bytes) -> list[PatchHunk]:
    compared = Comparison(
        store=store, alternates=(), old="", new="", root=b"/nonexistent", against=""
    )
    return compared.compare_contents(store.put_blob(old), store.put_blob(new))


def partial(hunks: Iterable[PatchHunk], chosen: ChangedLines, *, reverse: bool) -> str:
    """A patch with the chosen lines alone, as tools make one that stage single lines."""
    parts: list[str] = []
    shift = 0
    for hunk in hunks:
        lines: list[PatchLine] = []
        has_old = any(sign in " -" for sign, _ in hunk.lines)
        has_new = any(sign in " +" for sign, _ in hunk.lines)
        old, new = hunk.old + (not has_old), hunk.new + (not has_new)
        start = new if reverse else old
        is_dropped = False
        for sign, text in hunk.lines:
            if sign == "\\":
                lines += [] if is_dropped else [PatchLine(sign, text)]
                continue
            is_chosen = old in chosen.old if sign == "-" else new in chosen.new
            is_dropped = not is_chosen and sign == ("-" if reverse else "+")
            if is_chosen:
                lines.append(PatchLine(sign, text))
            elif not is_dropped:
                lines.append(PatchLine(" ", text))
            old += sign == "-"
            new += sign == "+"
        olds = sum(sign in " -" for sign, _ in lines)
        news = sum(sign in " +" for sign, _ in lines)
        if any(sign in "+-" for sign, _ in lines):
            other = start - shift if reverse else start + shift
            first, second = (other, start) if reverse else (start, other)
            head = f"@@ -{first - (not olds)},{olds} +{second - (not news)},{news} @@"
            parts.append("\n".join([head, *(sign + text for sign, text in lines)]) + "\n")
        shift += news - olds
    return "".join(parts)


def apply(where: Path, content: bytes, patch: str, *, reverse: bool) -> bytes | None:
    """What the real git makes of it; None: it refuses the patch."""
    (where / "f").write_bytes(content)
    words = ("apply", "--unidiff-zero", "--whitespace=nowarn", *(["-R"] if reverse else []))
    whole = f"--- a/f\n+++ b/f\n{patch}".encode("latin-1")
    git(where, *words, given=whole)
    return (where / "f").read_bytes()


def ends_inside(hunks: Iterable[PatchHunk]) -> bool:
    """Whether a line without an end is compared: partial patches of it mean nothing to git."""
    return any(sign == "\\" for hunk in hunks for sign, _ in hunk.lines)


@settings(deadline=None, max_examples=60)
@given(old=CONTENTS, new=CONTENTS, data=st.data())
def test_chosen_lines_are_what_git_makes_of_a_partial_patch(old: bytes, new: bytes, data):
    with tempfile.TemporaryDirectory() as directory:
        where = Path(directory)
        hunks = hunks_of(ObjectStore(where / "store"), old, new)
        there = changed_lines(hunks)
        chosen = ChangedLines(
            frozenset(n for n in sorted(there.old) if data.draw(st.booleans())),
            frozenset(n for n in sorted(there.new) if data.draw(st.booleans())),
        )
        olds, news = split_lines(old), split_lines(new)
        accepted = b"".join(accept_lines(olds, news, hunks, lambda n: n, chosen))
        rejected = b"".join(reject_lines(olds, news, hunks, chosen))
        if not chosen.old and not chosen.new:
            assert accepted == old and rejected == new
        elif chosen == there:
            assert accepted == new and rejected == old
        if ends_inside(hunks) or not (chosen.old or chosen.new):
            return
        assert accepted == apply(where, old, partial(hunks, chosen, reverse=False), reverse=False)
        assert rejected == apply(where, new, partial(hunks, chosen, reverse=True), reverse=True)


UNLIKE = st.lists(st.sampled_from("abcdefghij"), unique=True).map(
    lambda letters: "".join(f"{letter}\n" for letter in letters).encode()
)
"""No line twice: of two that are alike nobody can tell which one is gone."""


@settings(deadline=None, max_examples=40)
@given(old=UNLIKE, new=UNLIKE, data=st.data())
def test_accepting_in_steps_ends_at_the_new_content(old: bytes, new: bytes, data):
    with tempfile.TemporaryDirectory() as directory:
        store = ObjectStore(Path(directory) / "store")
        there = changed_lines(hunks_of(store, old, new))
        left = [("-", n) for n in sorted(there.old)] + [("+", n) for n in sorted(there.new)]
        left = data.draw(st.permutations(left))
        current = old
        middle = len(left) // 2
        for part in (left[:middle], left[middle:]):
            chosen = ChangedLines(
                frozenset(n for sign, n in part if sign == "-"),
                frozenset(n for sign, n in part if sign == "+"),
            )
            content = AcceptedContent(
                old=split_lines(old),
                new=split_lines(new),
                current=split_lines(current),
                change=hunks_of(store, old, new),
                done=hunks_of(store, old, current),
                left=hunks_of(store, current, new),
            )
            current = b"".join(content.with_lines(chosen))
        assert current == new


@settings(deadline=None, max_examples=40)
@given(old=CONTENTS, new=CONTENTS)
def test_lines_are_followed_through_a_change(old: bytes, new: bytes):
    with tempfile.TemporaryDirectory() as directory:
        hunks = hunks_of(ObjectStore(Path(directory) / "store"), old, new)
        olds, news = split_lines(old), split_lines(new)
        trace = trace_lines(hunks)
        for number, line in enumerate(olds, 1):
            place, is_there = find_line(hunks, number)
            assert 0 <= place <= len(news) + 1
            if is_there:
                assert news[place - 1] == line and trace(place) == number
        for number, line in enumerate(news, 1):
            origin = trace(number)
            assert origin is None or olds[origin - 1] == line


def test_hunks_are_a_selection_of_their_lines():
    lines = [PatchLine(" ", "a"), PatchLine("-", "b"), PatchLine("-", "c"), PatchLine("+", "d")]
    hunk = PatchHunk(old=4, new=7, lines=lines)
    found = select_hunks("x", [hunk], content="c")
    assert (found.old, found.new, found.content) == (((5, 6),), ((8, 8),), "c")
    empty = PatchHunk(old=0, new=1, lines=[PatchLine("+", "a"), PatchLine("+", "b")])
    assert select_hunks("x", [empty]).new == ((1, 2),)


def test_a_line_without_an_end_gets_one_when_others_follow():
    olds, news = split_lines(b"a"), split_lines(b"a\nb\n")
    hunk = PatchHunk(
        old=1, new=1, lines=[PatchLine("-", "a"), PatchLine("+", "a"), PatchLine("+", "b")]
    )
    chosen = ChangedLines(frozenset(), frozenset({2}))
    assert accept_lines(olds, news, [hunk], lambda n: n, chosen) == [b"a\n", b"b\n"]
