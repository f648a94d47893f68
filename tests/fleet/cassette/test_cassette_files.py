"""The file of a cassette: its golden form, and what is refused by name."""

import json
from pathlib import Path

import pytest

from quarterdeck.fleet.cassette.file import (
    Cassette,
    CassetteEnd,
    CassetteError,
    CassetteWriter,
    is_cassette,
)

GOLDEN = Path(__file__).parents[2] / "fixtures" / "cassettes" / "version-1.cassette"


def refusal_of(path: Path) -> str | None:
    with pytest.raises(CassetteError) as caught:
        Cassette(path)
    assert str(path) in str(caught.value)
    return caught.value.refusal


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_first_version_is_read_as_ever():
    cassette = Cassette(GOLDEN)
    try:
        (call,) = cassette.calls
        assert cassette.head.agent == "codex"
        assert cassette.prompts[0].text == "hello"
        assert call.is_whole
        assert b"answer 1" in b"".join(map(cassette.read_piece, call.pieces))
        assert [part.kind for part in call.request.parts] == ["model", "tool", "message", "message"]
        assert "hello" in (cassette.read_text(call.request.parts[-1].id) or "")
        assert cassette.end.transcript == ("says: hi",)
    finally:
        cassette.close()


def test_each_way_to_cut_a_cassette_is_refused(tmp_path: Path):
    data = GOLDEN.read_bytes()
    for size in range(len(data)):
        refusal = refusal_of(write(tmp_path / "cut", data[:size]))
        assert refusal == "truncated" if size > 200 else refusal in ("not a cassette", "truncated")


def test_a_changed_reordered_or_longer_cassette_is_refused(tmp_path: Path):
    data = GOLDEN.read_bytes()
    lines = data.splitlines(keepends=True)
    path = tmp_path / "it"
    assert refusal_of(write(path, data.replace(b"answer 1", b"answer 2"))) == "changed"
    assert refusal_of(write(path, data.replace(b"says: hi", b"says: ho"))) == "changed"
    assert refusal_of(write(path, data + lines[1])) == "changed"
    assert refusal_of(write(path, b"".join((*lines[:-2], lines[-1])))) == "changed"
    swapped = [lines[0], *reversed(lines[1:-1]), lines[-1]]
    assert refusal_of(write(path, b"".join(swapped))) == "bad line"
    assert refusal_of(write(path, lines[0] + b'{"type":"surprise"}\n')) == "bad line"


def test_a_newer_version_and_other_files_are_refused(tmp_path: Path):
    data = GOLDEN.read_bytes()
    path = tmp_path / "it"
    newer = data.replace(b'"version":1', b'"version":2', 1)
    assert refusal_of(write(path, newer)) == "newer version"
    for other in (b"", b"{}\n", b"\x00\xff\n", json.dumps({"type": "cassette"}).encode() + b"\n"):
        assert refusal_of(write(path, other)) == "not a cassette"
    assert refusal_of(tmp_path / "missing") is None
    assert not is_cassette(tmp_path / "missing")


def test_no_other_file_is_overwritten_and_an_unfinished_one_leaves_nothing(tmp_path: Path):
    kept = write(tmp_path / "notes.txt", b"mine")
    with pytest.raises(CassetteError, match="is no cassette"):
        CassetteWriter(kept)
    assert kept.read_bytes() == b"mine"
    with pytest.raises(CassetteError, match="cannot write"):
        CassetteWriter(tmp_path / "missing" / "it")
    old = write(tmp_path / "old", GOLDEN.read_bytes())
    writer = CassetteWriter(old)
    writer.write(b"{}\n")
    writer.discard()
    assert old.read_bytes() == GOLDEN.read_bytes()
    writer = CassetteWriter(old)
    writer.write(GOLDEN.read_bytes().splitlines(keepends=True)[0])
    writer.finish(CassetteEnd(calls=0))
    writer.discard()
    assert Cassette(old).calls == []
    assert sorted(one.name for one in tmp_path.iterdir()) == ["notes.txt", "old"]
