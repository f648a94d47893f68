"""Every line once, in order, whatever happens to the file between two looks."""

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.workbench.panels.tail import LONGEST, Tail

PIECES = st.lists(
    st.one_of(
        st.binary(max_size=40).map(lambda data: ("write", data)),
        st.sampled_from([("rotate", b""), ("remove", b""), ("look", b""), ("look", b"")]),
    ),
    max_size=40,
)


def lines_of(data: bytes) -> list[str]:
    """What a tail shall show of a whole file, the last line without an end included."""
    *ended, rest = data.split(b"\n")
    wanted = [line.removesuffix(b"\r") for line in ended] + (
        [rest.removesuffix(b"\r")] if rest else []
    )
    return [line.decode("utf-8", "backslashreplace") for line in wanted]


def plain(lines: list[str]) -> list[str]:
    from quarterdeck.workbench.panels.tail import strip_colours

    return [strip_colours(line) for line in lines]


@settings(deadline=None, max_examples=150)
@given(pieces=PIECES)
def test_any_split_of_writes_and_rotations_gives_exactly_the_lines(
    pieces: list[tuple[str, bytes]], tmp_path_factory: pytest.TempPathFactory
):
    path = tmp_path_factory.mktemp("log") / "a.log"
    tail = Tail(str(path))
    wanted: list[str] = []
    written = b""
    try:
        tail.poll()
        for deed, data in pieces:
            if deed == "write":
                with path.open("ab") as file:
                    file.write(data)
                written += data
            elif deed == "look":
                tail.poll()
            elif path.exists():
                # Two rotations between two looks hide a file from everybody: look in between.
                tail.poll()
                wanted += lines_of(written)
                written = b""
                path.replace(path.with_name("a.log.1")) if deed == "rotate" else path.unlink()
                tail.poll()
        tail.poll()
        wanted += lines_of(written)
        found = list(tail.lines) + ([tail.partial] if tail.partial else [])
        found = [line.removesuffix("\r") if line is found[-1] else line for line in found]
        assert found == plain(wanted)
        assert tail.taken == len(tail.lines)
    finally:
        tail.close()


def test_a_file_that_is_cut_begins_anew(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("one\ntwo\nhalf")
    tail = Tail(str(path))
    assert tail.poll() and list(tail.lines) == ["one", "two"] and tail.partial == "half"
    with path.open("w") as file:
        file.write("new\n")
    assert tail.poll() and list(tail.lines) == ["one", "two", "half", "new"]
    assert not tail.poll()
    tail.close()


def test_writes_after_the_rename_are_not_missed(tmp_path: Path):
    path = tmp_path / "a.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"a\n")
        tail = Tail(str(path))
        tail.poll()
        path.rename(tmp_path / "a.log.1")
        writer.write(b"late\n")
        path.write_text("new\n")
        tail.poll()
    assert list(tail.lines) == ["a", "late", "new"]
    tail.close()


def test_a_file_that_comes_later_and_one_that_is_no_file(tmp_path: Path):
    tail = Tail(str(tmp_path / "later"))
    assert not tail.poll() and tail.state == "missing"
    (tmp_path / "later").write_text("x\n")
    assert tail.poll() and tail.state == "reading" and list(tail.lines) == ["x"]
    tail.close()
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        other = Tail(str(tmp_path / name))
        other.poll()
        assert other.state == "unreadable" and other.reason


def test_what_is_kept_is_bounded_and_the_newest(tmp_path: Path):
    path = tmp_path / "a.log"
    tail = Tail(str(path), most_lines=10, most_bytes=100, first=None)
    path.write_bytes(b"".join(b"%d\n" % n for n in range(40)))
    tail.poll()
    assert list(tail.lines) == [str(n) for n in range(30, 40)]
    path.write_bytes(path.read_bytes() + b"x" * 30 + b"\n" + b"y" * 60 + b"\n")
    tail.poll()
    assert list(tail.lines)[-2:] == ["x" * 30, "y" * 60]
    assert sum(len(line) + 1 for line in tail.lines) <= 100
    tail.close()


def test_much_at_once_is_passed_over_and_said(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_text("first\n")
    tail = Tail(str(path), most_bytes=1_000)
    tail.poll()
    with path.open("a") as file:
        file.write("".join(f"line {n}\n" for n in range(1_000)))
    tail.poll()
    assert tail.skipped > 0 and tail.lines[-1] == "line 999"
    assert all(line.startswith("line ") for line in tail.lines)
    tail.close()


def test_of_a_big_file_only_the_end_is_read(tmp_path: Path):
    path = tmp_path / "big.log"
    with path.open("wb") as file:
        file.seek(3_000_000_000)
        file.write(b"\nlast but one\nlast\n")
    tail = Tail(str(path))
    tail.poll()
    assert list(tail.lines)[-2:] == ["last but one", "last"] and not tail.is_from_start
    assert sum(map(len, tail.lines)) < 8_000_000
    tail.close()


def test_a_long_line_is_broken_and_nothing_of_it_lost(tmp_path: Path):
    text = "".join(random.Random(1).choice("aé漢😀") for _ in range(3 * LONGEST))
    path = tmp_path / "a.log"
    path.write_text(text + "\nshort\n")
    tail = Tail(str(path))
    tail.poll()
    assert "".join(list(tail.lines)[:-1]) == text and tail.lines[-1] == "short"
    tail.close()


def test_colours_go_and_every_other_sequence_stays(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_bytes(b"\x1b[31mred\x1b[0m \x1b[2J \x1b]0;t\x07 \xff\r\n")
    tail = Tail(str(path))
    tail.poll()
    assert list(tail.lines) == ["red \x1b[2J \x1b]0;t\x07 \\xff"]
    tail.close()
