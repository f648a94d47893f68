"""Patches are written as they are read."""

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.fleet.review.patch import (
    LONGEST_LINE,
    ChangeKind,
    PatchFile,
    PatchHunk,
    PatchLine,
    cut_page,
    format_patch,
    parse_patch,
    quote_path,
)

NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]) | st.sampled_from('\n\t"\\ äé🙂\udcff'),
    min_size=1,
    max_size=12,
).filter(lambda name: "\0" not in name and name not in ("/dev/null",) and not name.isspace())
LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=12)
CHANGE = st.lists(st.builds(PatchLine, st.sampled_from("+- "), LINE), min_size=1, max_size=6)
MODES = st.sampled_from(["100644", "100755"])


@st.composite
def files(draw: st.DrawFn) -> PatchFile:
    kind: ChangeKind = draw(st.sampled_from(["changed", "new", "deleted", "renamed", "copied"]))
    path, mode = draw(NAMES), draw(MODES)
    old_path = None
    if kind in ("renamed", "copied"):
        old_path = draw(NAMES.filter(lambda name: name != path))
    hunks: list[PatchHunk] = []
    at = 1
    for lines in draw(st.lists(CHANGE, max_size=3)):
        if kind == "new":
            lines = [PatchLine("+", text) for _, text in lines]
        if kind == "deleted":
            lines = [PatchLine("-", text) for _, text in lines]
        where = draw(st.sampled_from(["", "def f():"]))
        old = 0 if kind == "new" else at
        hunks.append(
            PatchHunk(old=old, new=0 if kind == "deleted" else at, where=where, lines=lines)
        )
        at += 20
    return PatchFile(
        path=path,
        kind=kind,
        old_path=old_path,
        old_mode=None if kind == "new" else mode,
        new_mode=None if kind == "deleted" else mode,
        old_blob="0" * 40,
        new_blob="1" * 40,
        hunks=hunks,
    )


@settings(deadline=None, max_examples=150)
@given(written=st.lists(files(), max_size=3))
def test_what_is_written_is_read_again(written: list[PatchFile]):
    read = parse_patch(format_patch(written))
    assert len(read) == len(written)
    for got, file in zip(read, written, strict=True):
        assert (got.path, got.kind, got.old_path) == (file.path, file.kind, file.old_path)
        assert got.hunks == file.hunks
        assert (got.old_mode, got.new_mode) == (file.old_mode, file.new_mode)
        assert (got.old_blob, got.new_blob) == (file.old_blob, file.new_blob)


def test_kinds_of_changes():
    text = (
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        "diff --git a/p b/p\nindex 1..2 100644\nBinary files a/p and b/p differ\n"
        "diff --git a/mod b/mod\nindex 3..4 160000\n--- a/mod\n+++ b/mod\n@@ -1 +1 @@\n"
        "-Subproject commit 3\n+Subproject commit 4\n"
        "diff --git a/x b/y\nsimilarity index 100%\ncopy from x\ncopy to y\n"
    )
    mode, binary, module, copy = parse_patch(text)
    assert (mode.kind, mode.new_mode) == ("mode", "100755")
    assert binary.is_binary and binary.notes == ["binary; content not shown"]
    assert module.is_submodule and module.added == 1
    assert (copy.kind, copy.old_path, copy.path) == ("copied", "x", "y")
    assert [one.kind for one in parse_patch(format_patch([mode, binary, module, copy]))] == [
        "mode", "changed", "changed", "copied",
    ]  # fmt: skip


def test_names_are_quoted_as_git_does():
    assert quote_path("plain ä 🙂") == "plain ä 🙂"
    assert quote_path('a"b\\c\td\ne\x01') == '"a\\"b\\\\c\\td\\ne\\001"'


def test_a_page_is_bounded_in_lines_and_characters():
    wide = [PatchLine("+", "x" * 50_000) for _ in range(500)]
    file = PatchFile(path="a", kind="new", hunks=[PatchHunk(old=0, new=1, lines=wide)])
    page, numbers, next_ = cut_page(file, 0, 5_000)
    shown = page.hunks[0].lines
    assert next_ == len(shown) < 200 and numbers == [0]
    assert len(shown[0].text) < LONGEST_LINE + 40 and "40,000 more" in shown[0].text
    rest, _, _ = cut_page(file, 499, 5_000)
    assert (rest.hunks[0].new, rest.hunks[0].is_continued) == (500, True)
    assert cut_page(file, 500, 10)[0].hunks == [] and cut_page(file, 500, 10)[2] is None
