"""``edit`` and ``multi_edit``: what is replaced, what is refused, what stays."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.agent.tools.edit import EditArguments
from quarterdeck.agent.tools.edit.replacement import apply_replacements
from quarterdeck.agent.tools.tool import ToolError


async def seen(call, name: str, text: str | bytes) -> Path:
    path = call.root / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    await call("read", path=name)
    return path


async def test_reply_shows_the_diff(call):
    path = await seen(call, "a", "".join(f"l{n}\n" for n in range(1, 11)))
    prepared = await call.prepare("edit", path="a", old="l5\n", new="five\nand\n")
    assert prepared.title == "Edit a"
    assert prepared.locations[0].line == 5
    assert prepared.content[0].old_text == path.read_text()
    outcome = await call.finish(prepared)
    assert outcome.result[0].text == (
        "Edited a: 1 replacement.\n@@ -2,7 +2,8 @@\n l2\n l3\n l4\n-l5\n+five\n+and\n l6\n l7\n l8"
    )
    assert prepared.content[0].new_text == path.read_text()


async def test_file_has_to_be_read_first(call, root: Path):
    (root / "a").write_text("secret text\n")
    told = await call.refused("edit", path="a", old="secret", new="x")
    assert (
        told == "'a' was not read in this session; nothing was changed. Read it first, then retry."
    )
    told = await call.refused("edit", path="a", old="secret texts", new="x")
    assert "secret" not in told


async def test_changed_file_is_refused_and_untouched(call):
    path = await seen(call, "a", "one\n")
    path.write_text("two\n")
    told = await call.refused("edit", path="a", old="two", new="x")
    assert "changed since it was read" in told
    assert path.read_text() == "two\n"


async def test_same_size_and_time_do_not_hide_a_change(call):
    import os

    path = await seen(call, "a", "one\n")
    before = path.stat()
    path.write_text("two\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "changed since" in await call.refused("edit", path="a", old="two", new="x")


async def test_change_while_the_person_thinks_is_refused(call):
    path = await seen(call, "a", "one\n")
    prepared = await call.prepare("edit", path="a", old="one", new="x")
    path.write_text("one, but other\n")
    with pytest.raises(ToolError, match="changed since"):
        await call.finish(prepared)
    assert path.read_text() == "one, but other\n"


async def test_ambiguous_text_is_refused_with_its_lines(call):
    path = await seen(call, "a", "x = 1\ny\nx = 1\nx = 1\n")
    told = await call.refused("edit", path="a", old="x = 1", new="z")
    assert "'old' is in 'a' 3 times, at lines 1, 3, 4; nothing was changed." in told
    assert path.read_text().count("x = 1") == 3
    assert "3 replacements" in await call("edit", path="a", old="x = 1", new="z", replace_all=True)
    assert path.read_text() == "z\ny\nz\nz\n"


async def test_overlapping_places_are_ambiguous(call):
    await seen(call, "a", "aaa")
    assert "2 times" in await call.refused("edit", path="a", old="aa", new="b")


async def test_missing_text_is_answered_with_the_nearest_lines(call):
    await seen(call, "a", "def run(self):\n    return self.value\n\ndef other():\n    pass\n")
    told = await call.refused(
        "edit", path="a", old="def run(self, x):\n    return self.values\n", new="y"
    )
    assert told.startswith("'old' is not in 'a'; nothing was changed. The nearest lines are:\n")
    assert "    1\tdef run(self):\n    2\t    return self.value" in told
    assert "No line of the file is similar" in await call.refused(
        "edit", path="a", old="@@@@@@@@@@", new="y"
    )


async def test_line_numbers_in_the_text_are_noticed(call):
    await seen(call, "a", "one\ntwo\n")
    told = await call.refused("edit", path="a", old="    1\tone\n    2\ttwo\n", new="y")
    assert "Omit the line numbers" in told


async def test_nothing_to_do_is_refused(call):
    await seen(call, "a", "one\n")
    assert "are identical" in await call.refused("edit", path="a", old="one", new="one")
    assert "'old' is empty" in await call.refused("edit", path="a", old="", new="one")
    assert "does not exist" in await call.refused("edit", path="b", old="x", new="one")
    edits = [{"old": "one", "new": "two"}, {"old": "two", "new": "one"}]
    assert "do not change 'a'" in await call.refused("multi_edit", path="a", edits=edits)


async def test_blanks_at_line_ends_do_not_matter(call):
    path = await seen(call, "a", "if x:  \n    y\t\nend\n")
    told = await call("edit", path="a", old="if x:\n    y\n", new="if z:\n    y\n")
    assert "(matched ignoring trailing whitespace)" in told
    assert path.read_text() == "if z:\n    y\nend\n"


async def test_indentation_is_taken_from_the_file(call):
    path = await seen(call, "a", "class A:\n    def f(self):\n        return 1\n\n    b = 2\n")
    told = await call(
        "edit",
        path="a",
        old="def f(self):\n    return 1\n",
        new="def f(self):\n    if self:\n        return 2\n    return 1\n",
    )
    assert "(matched ignoring indentation)" in told
    assert path.read_text() == (
        "class A:\n    def f(self):\n        if self:\n            return 2\n"
        "        return 1\n\n    b = 2\n"
    )


async def test_blanks_become_tabs_where_the_file_has_tabs(call):
    path = await seen(call, "a", "\tif x:\n\t\ty()\n")
    await call(
        "edit",
        path="a",
        old="    if x:\n        y()",
        new="    if x:\n        if z:\n            y()",
    )
    assert path.read_text() == "\tif x:\n\t\tif z:\n\t\t\ty()\n"


async def test_tolerant_match_has_to_be_unique(call):
    text = "  a = 1 \n  b\n---\n    a = 1 \n    b\n"
    path = await seen(call, "a", text)
    for replace_all in (False, True):
        told = await call.refused(
            "edit", path="a", old="a = 1\nb", new="c", replace_all=replace_all
        )
        assert "2 times (ignoring indentation), at lines 1, 4" in told
    assert path.read_text() == text


async def test_inconsistent_indentation_is_no_match(call):
    await seen(call, "a", "if x:\n    y\n  z\n")
    assert "is not in" in await call.refused("edit", path="a", old=" if x:\n y\n z\n", new="q")


async def test_crlf_and_byte_order_mark_stay(call):
    path = await seen(call, "a", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    await call("edit", path="a", old="one\ntwo\n", new="1\n2\n2b\n")
    await call("edit", path="a", old="three", new="3\n4")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2b\r\n3\r\n4\r\n"


async def test_other_encoding_is_refused(call):
    path = await seen(call, "a", "café\n".encode("latin-1"))
    assert "is not UTF-8 (byte 3 is 0xe9)" in await call.refused(
        "edit", path="a", old="caf", new="x"
    )
    assert path.read_bytes() == "café\n".encode("latin-1")


async def test_edits_of_one_step_take_turns(call):
    path = await seen(call, "a", "".join(f"line {n}.\n" for n in range(20)))
    prepared = [
        await call.prepare("edit", path="a", old=f"line {n}.", new=f"Line {n}!") for n in range(20)
    ]
    outcomes = await asyncio.gather(*map(call.finish, prepared))
    assert path.read_text() == "".join(f"Line {n}!\n" for n in range(20))
    assert [outcome.content is None for outcome in outcomes].count(True) == 1


async def test_edit_does_only_what_was_shown(call):
    path = await seen(call, "a", "  x\n  y\n")
    shown = await call.prepare("edit", path="a", old="x\ny", new="z")
    other = await call.prepare("edit", path="a", old="  x\n  y\n", new="x\ny\n")
    await call.finish(other)
    with pytest.raises(ToolError, match="Another call changed"):
        await call.finish(shown)
    assert path.read_text() == "x\ny\n"


async def test_multi_edit_is_sequential(call):
    path = await seen(call, "a", "one\ntwo\n")
    edits = [
        {"old": "one", "new": "1\nnew"},
        {"old": "new\ntwo", "new": "2"},
        {"old": "2", "new": "two", "replace_all": True},
    ]
    assert "3 replacements" in await call("multi_edit", path="a", edits=edits)
    assert path.read_text() == "1\ntwo\n"


async def test_multi_edit_is_all_or_nothing(call):
    path = await seen(call, "a", "one\ntwo\n")
    edits = [{"old": "one", "new": "1"}, {"old": "three", "new": "3"}]
    told = await call.refused("multi_edit", path="a", edits=edits)
    assert told.startswith("edit 2 of 2: 'old' is not in 'a'")
    assert path.read_text() == "one\ntwo\n"


async def test_large_file_is_shown_as_hunks(call):
    path = await seen(call, "a", "".join(f"{n} {'x' * 50}\n" for n in range(10_000)))
    prepared = await call.prepare(
        "multi_edit",
        path="a",
        edits=[{"old": "\n77 x", "new": "\nA x"}, {"old": "\n9000 x", "new": "\nB x"}],
    )
    assert len(prepared.content) == 2
    assert prepared.content[0].old_text.startswith("74 x")
    assert sum(len(diff.new_text) for diff in prepared.content) < 1000
    await call.finish(prepared)
    assert "\nB x" in path.read_text()


LETTERS = st.text("ab \n", max_size=30)


@given(text=LETTERS, old=st.text("ab \n", min_size=1, max_size=4), new=st.text("abc\n", max_size=4))
@settings(deadline=None, max_examples=100)
def test_exact_replacement_is_that_of_str(text: str, old: str, new: str):
    if old == new or old not in text:
        return
    edit = EditArguments(path="a", old=old, new=new, replace_all=True)
    assert apply_replacements(text, [edit], "a").text == text.replace(old, new)


@given(
    text=st.text("ab \t\n\r", max_size=40),
    old=st.text("ab \t\n", min_size=1, max_size=8),
    new=st.text("abc \n", max_size=8),
)
@settings(deadline=None, max_examples=100)
def test_nothing_outside_of_the_match_changes(text: str, old: str, new: str):
    try:
        applied = apply_replacements(text, [EditArguments(path="a", old=old, new=new)], "a")
    except ToolError:
        return
    ((taken, put),) = applied.changes
    places = [i for i in range(len(text)) if text.startswith(taken, i)]
    results = [text[:i] + put + text[i + len(taken) :] for i in places]
    assert applied.text in results
    assert taken.split() == old.split()
    assert put.split() == new.split()


@given(
    lines=st.lists(st.text("abc ", max_size=5), min_size=1, max_size=8),
    first=st.integers(0, 7),
    count=st.integers(1, 4),
    new=st.text("xyz \n", max_size=10),
)
@settings(deadline=None, max_examples=100)
def test_crlf_stays_crlf(lines: list[str], first: int, count: int, new: str):
    text = "".join(line + "\r\n" for line in lines)
    old = "".join(line + "\n" for line in lines[first : first + count])
    if not old or old == new:
        return
    try:
        applied = apply_replacements(text, [EditArguments(path="a", old=old, new=new)], "a")
    except ToolError as error:
        assert "times" in str(error)
        return
    assert applied.text.count("\n") == applied.text.count("\r\n")
    bare = "".join(line + "\n" for line in lines)
    assert applied.text.replace("\r\n", "\n") == bare.replace(old, new)
