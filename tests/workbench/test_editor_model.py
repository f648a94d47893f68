"""Text and bytes: a file that was not changed is not changed by saving it."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.document._document import Document

from quarterdeck.system.errors import FileChangedError
from quarterdeck.workbench.panels.editor.model import (
    BIGGEST,
    EditedFile,
    StandInCharacters,
    UndecodableFileError,
    UnsavedCopies,
    decode_text,
)
from tests.support.hostile_text import hostile_strings

BYTES = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")),
    st.text("a\r\n\x0b\x85\u2028é", max_size=60).map(str.encode),
    st.text(max_size=40).map(lambda text: text.encode("utf-16", "replace")),
    st.text(max_size=40).map(lambda text: text.encode("utf-8-sig", "replace")),
)


@settings(deadline=None, max_examples=400)
@given(data=BYTES)
def test_what_can_be_decoded_is_written_back_byte_by_byte(data: bytes):
    try:
        text, form = decode_text(data)
    except UndecodableFileError as error:
        assert str(error)
        return
    assert form.encode(text) == data
    stand_ins = StandInCharacters()
    edited = stand_ins.edited(text)
    assert stand_ins.real(edited) == text
    # The area splits lines itself; nothing may be an end of line but ours.
    assert Document(edited).text == edited
    assert form.encode(stand_ins.real(Document(edited).text)) == data


@pytest.mark.parametrize("text", hostile_strings(200))
def test_stand_ins_are_drawn_in_one_cell_and_have_no_power(text: str):
    from quarterdeck.workbench.sanitize import sanitize_text

    stand_ins = StandInCharacters()
    edited = stand_ins.edited(text)
    faces = stand_ins.faces(edited)
    assert len(faces) == len(edited) == len(text)
    assert stand_ins.real(edited) == text
    for line in faces.split("\n"):
        plain = line.replace("\t", "")
        assert all(sanitize_text(character) == character for character in plain)


@pytest.mark.parametrize(
    ("data", "words"), [(b"a\xffb", "byte 1"), (b"a\0b", "NUL"), (b"\xff\xfea", "UTF-16")]
)
def test_what_is_no_text_is_refused_with_the_reason(data: bytes, words: str):
    with pytest.raises(UndecodableFileError, match=words):
        decode_text(data)


async def test_mode_link_ends_and_mark_stay(tmp_path: Path):
    target = tmp_path / "real.sh"
    target.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    target.chmod(0o751)
    link = tmp_path / "link.sh"
    link.symlink_to("real.sh")
    file = EditedFile(str(link))
    assert await file.load() == "one\ntwo\n"
    await file.save("one\nthree\n")
    assert target.read_bytes() == b"\xef\xbb\xbfone\r\nthree\r\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o751 and link.is_symlink()
    assert await file.look() == "same"
    assert sorted(os.listdir(tmp_path)) == ["link.sh", "real.sh"]  # noqa: PTH208


async def test_a_file_that_changed_is_not_overwritten(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    file = EditedFile(str(path))
    await file.load()
    before = path.stat()
    path.write_text("new\n")  # the same size, and the same time too
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(FileChangedError):
        await file.save("mine\n")
    assert path.read_text() == "new\n"
    await file.save("mine\n", anyway=True)
    assert path.read_text() == "mine\n" and await file.look() == "same"


async def test_a_touched_file_is_the_same_and_a_removed_one_is_gone(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("x")
    file = EditedFile(str(path))
    await file.load()
    os.utime(path, (1, 1))
    assert await file.look() == "same"
    path.write_text("y")
    assert await file.look() == "changed"
    path.unlink()
    assert await file.look() == "gone"
    with pytest.raises(FileChangedError):
        await file.save("mine")
    await file.save("mine", anyway=True)
    assert path.read_text() == "mine"


async def test_a_new_file_does_not_replace_one_that_came_meanwhile(tmp_path: Path):
    path = tmp_path / "below" / "a.txt"
    file = EditedFile(str(path))
    assert await file.load() == "" and file.is_new and await file.look() == "same"
    path.parent.mkdir()
    path.write_text("somebody else's")
    assert await file.look() == "changed"
    with pytest.raises(FileChangedError):
        await file.save("mine")
    assert path.read_text() == "somebody else's"


@pytest.mark.parametrize(
    "data", [b"\xff\xff", b"a\0b", b"x" * (BIGGEST + 1)], ids=["no", "nul", "big"]
)
async def test_what_was_not_decoded_is_never_written(tmp_path: Path, data: bytes):
    path = tmp_path / "a"
    path.write_bytes(data)
    file = EditedFile(str(path))
    await file.load()
    assert file.problem
    for anyway in (False, True):
        with pytest.raises(UndecodableFileError):
            await file.save("x", anyway=anyway)
    assert path.read_bytes() == data


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
async def test_a_file_that_may_not_be_written_is_read_only(tmp_path: Path):
    path = tmp_path / "a"
    path.write_text("x")
    path.chmod(0o444)
    file = EditedFile(str(path))
    await file.load()
    assert file.problem


def test_copies_are_private_and_found_by_path(tmp_path: Path):
    copies = UnsavedCopies(tmp_path / "unsaved")
    assert copies.find("/a") is None
    copies.keep("/a", "text \ud800", 5.0)
    kept = copies.find("/a")
    assert kept is not None and kept.text == "text \\ud800" and kept.time == 5.0
    (file,) = (tmp_path / "unsaved").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("{broken")
    assert copies.find("/a") is None
    copies.drop("/a")
    copies.drop("/a")
    assert not list((tmp_path / "unsaved").iterdir())
