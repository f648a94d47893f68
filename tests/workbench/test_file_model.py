"""Windows of files: whole lines, right numbers, little reading."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.workbench.panels.file import model
from quarterdeck.workbench.panels.file.model import FileMatch, FilePanelReadError, FileReader
from quarterdeck.workbench.panels.file.view import slice_line
from quarterdeck.workbench.rendering.lines import text_of


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "WINDOW", 4_096)
    monkeypatch.setattr(model, "_PIECE", 1_000)


def written(tmp_path: Path, count: int = 5_000) -> tuple[Path, list[str]]:
    lines = [f"line {n} " + "x" * (n % 50) for n in range(1, count + 1)]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(lines) + "\n")
    return path, lines


@pytest.mark.usefixtures("small_windows")
def test_moving_through_a_file_shows_each_line_with_its_number(tmp_path: Path):
    path, lines = written(tmp_path)
    reader = FileReader(str(path))
    window = reader.first()
    seen: dict[int, str] = {}
    for _ in range(1_000):
        seen.update({window.number(at): line for at, line in enumerate(window.lines)})
        if window.is_end:
            break
        window = reader.around(window.offsets[-1], window)
    assert seen == dict(enumerate(lines, 1))
    for _ in range(1_000):
        assert all(seen[window.number(at)] == line for at, line in enumerate(window.lines))
        if window.is_start:
            break
        window = reader.around(window.offsets[0], window)
    assert window.is_start and window.first == 1


@pytest.mark.usefixtures("small_windows")
def test_the_end_is_numbered_from_the_end_and_so_is_the_way_back(tmp_path: Path):
    path, lines = written(tmp_path)
    reader = FileReader(str(path))
    window = reader.last()
    assert window.is_end and window.lines[-1] == lines[-1] and window.number(len(window.lines)) == 0
    window = reader.around(window.offsets[0], window)
    assert all(lines[window.number(at)] == line for at, line in enumerate(window.lines))


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("number", [1, 2, 17, 2_500, 4_999, 5_000])
def test_a_line_is_found_by_its_number(tmp_path: Path, number: int):
    path, lines = written(tmp_path)
    found = FileReader(str(path)).line(number)
    assert found is not None
    window, place = found
    assert window.lines[place] == lines[number - 1] and window.number(place) == number
    assert FileReader(str(path)).line(5_001) is None


@pytest.mark.usefixtures("small_windows")
@settings(deadline=None, max_examples=60)
@given(text=st.text("abAB\n", max_size=400), words=st.sampled_from(["a", "b", "ab", "ba\n", "AB"]))
def test_search_finds_what_is_there_and_its_line(
    text: str, words: str, tmp_path_factory: pytest.TempPathFactory
):
    path = tmp_path_factory.mktemp("f") / "a"
    path.write_text(text)
    reader = FileReader(str(path))
    model._PIECE = 7  # pyright: ignore[reportPrivateUsage]
    folded = text.lower() if words == words.lower() else text
    found = reader.find(words, FileMatch(offset=0, number=1))
    at = folded.find(words)
    if at < 0:
        assert not isinstance(found, FileMatch)
    else:
        assert found == FileMatch(offset=at, number=text[:at].count("\n") + 1)
    back = reader.find_before(words, FileMatch(offset=len(text), number=text.count("\n") + 1))
    at = folded.rfind(words)
    if at < 0:
        assert not isinstance(back, FileMatch)
    else:
        assert back == FileMatch(offset=at, number=text[:at].count("\n") + 1)


def test_a_huge_file_opens_at_once(tmp_path: Path):
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.write(b"begin\n" * 2_000)
        file.seek(4_000_000_000)
        file.write(b"\nend\n")
    reader = FileReader(str(path))
    begun = time.process_time()
    assert not reader.open().is_binary
    first, last = reader.first(), reader.last()
    assert time.process_time() - begun < 1
    assert (
        first.lines[0] == "begin" and last.lines[-1] == "end" and last.number(len(last.lines)) == 0
    )
    assert max(first.end - first.start, last.end - last.start) <= model.WINDOW


@pytest.mark.parametrize("data", [b"", b"\n", b"x", b"x\n", b"\n\n", b"a\r\nb", b"\xff\xfe\n"])
def test_small_files_of_every_shape(tmp_path: Path, data: bytes):
    path = tmp_path / "a"
    path.write_bytes(data)
    reader = FileReader(str(path))
    reader.open()
    window = reader.first()
    assert window.is_start and window.is_end and len(window.lines) == len(window.offsets) >= 1
    assert "\n" not in "".join(window.lines)


def test_binary_and_utf16_are_told_apart(tmp_path: Path):
    path = tmp_path / "a"
    path.write_bytes(bytes(range(64)))
    facts = FileReader(str(path)).open()
    assert facts.is_binary and FileReader(str(path)).hexadecimal()[0].startswith("00000000  00 01")
    path.write_bytes("grüße\nzwei".encode("utf-16"))
    reader = FileReader(str(path))
    facts = reader.open()
    assert not facts.is_binary and facts.encoding == "utf-16"
    assert reader.first().lines == ("grüße", "zwei")


def test_what_is_no_file_says_so(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    for name, words in (
        ("none", "does not exist"),
        (".", "a directory"),
        ("pipe", "not a regular file"),
    ):
        with pytest.raises(FilePanelReadError, match=words):
            FileReader(str(tmp_path / name)).open()
    with pytest.raises(FilePanelReadError):
        FileReader("/a\0b").look()


def test_a_part_of_a_line_keeps_its_roles():
    line = (("abc", "x"), ("defg", "y"), ("h", "z"))
    for begin in range(9):
        for end in range(begin, 10):
            assert text_of(slice_line(line, begin, end)) == "abcdefgh"[begin:end]
    assert slice_line(line, 2, 4) == (("c", "x"), ("d", "y"))
