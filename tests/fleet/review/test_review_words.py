"""Words that changed in a line, and lines side by side."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.review.patch import PatchHunk, PatchLine
from quarterdeck.fleet.review.words import find_changed_words, pair_lines, split_words


def marked(line: str, spans: list[tuple[int, int]]) -> list[str]:
    return [line[start:end] for start, end in spans]


def test_the_words_that_changed():
    old, new = "    return total + 1", "    return count + 1"
    olds, news = find_changed_words(old, new)
    assert (marked(old, olds), marked(new, news)) == (["total"], ["count"])
    old, new = "call(a, b)", "call(a, b, c)"
    olds, news = find_changed_words(old, new)
    assert (marked(old, olds), marked(new, news)) == ([], [", c"])
    assert find_changed_words("same", "same") == ([], [])
    assert find_changed_words("import os", "xyz = 17 * f(q)") == ([], [])


@settings(deadline=None, max_examples=100)
@given(old=st.text(max_size=60), new=st.text(max_size=60))
def test_what_is_not_marked_is_the_same(old: str, new: str):
    assert "".join(split_words(old)) == old
    olds, news = find_changed_words(old, new)
    if not olds and not news:
        return
    assert all(0 <= start < end <= len(old) for start, end in olds)
    assert _without(old, olds) == _without(new, news)


def _without(line: str, spans: list[tuple[int, int]]) -> str:
    kept, at = "", 0
    for start, end in spans:
        kept += line[at:start]
        at = end
    return kept + line[at:]


SIGNS = st.lists(
    st.builds(PatchLine, st.sampled_from("+-  "), st.sampled_from(["a b", "a c", "x"]))
)


@settings(deadline=None, max_examples=150)
@given(lines=SIGNS)
def test_every_line_stands_once_on_its_side(lines: list[PatchLine]):
    pairs = pair_lines(PatchHunk(old=1, new=1, lines=lines))
    left = [at for at, _ in pairs if at is not None]
    right = [at for _, at in pairs if at is not None]
    assert left == [at for at, line in enumerate(lines) if line.sign in " -"]
    assert right == [at for at, line in enumerate(lines) if line.sign in " +"]
    assert all(old == new for old, new in pairs if old is not None and lines[old].sign == " ")


def test_like_lines_stand_beside_each_other():
    lines = [
        PatchLine("-", "total = add(a, b)"),
        PatchLine("+", "# sums up"),
        PatchLine("+", "total = add(a, b, c)"),
    ]
    assert pair_lines(PatchHunk(old=1, new=1, lines=lines)) == [(None, 1), (0, 2)]


def test_long_lines_and_large_groups_take_no_time():
    started = time.monotonic()
    find_changed_words("a b " * 200_000, "b a " * 200_000)
    find_changed_words("ab " * 300, "ba " * 300)
    lines = [PatchLine("-", f"x {n} y") for n in range(20_000)]
    lines += [PatchLine("+", f"y {n} x") for n in range(25_000)]
    assert len(pair_lines(PatchHunk(old=1, new=1, lines=lines))) == 25_000
    assert time.monotonic() - started < 5
