"""``read``: numbered lines, windows, images, refusals."""

import tracemalloc
from pathlib import Path

import pytest

from quarterdeck.agent.tools.read import IMAGE_BYTES
from quarterdeck.wire.conversation import ImagePart

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


async def test_lines_have_their_numbers(call, root: Path):
    (root / "a.py").write_text("one\ntwo\n\nfour")
    assert await call("read", path="a.py") == "    1\tone\n    2\ttwo\n    3\t\n    4\tfour"


async def test_window_says_how_to_go_on(call, root: Path):
    (root / "a").write_text("".join(f"l{n}\n" for n in range(1, 11)))
    told = await call("read", path="a", line=3, limit=2)
    assert told == "    3\tl3\n    4\tl4\n(lines 3–4 of 10; continue with line=5)"
    assert (await call("read", path="a", line=9)).endswith("l10\n(end of the file, 10 lines)")


async def test_default_window_is_2000_lines(call, root: Path):
    (root / "a").write_text("x\n" * 2500)
    told = await call("read", path="a", limit=9999)
    assert told.count("\n") == 2000
    assert told.endswith("(lines 1–2000 of 2500; continue with line=2001)")


async def test_pages_give_the_whole_file(call, root: Path):
    lines = [f"{n} " + "y" * (n % 300) for n in range(1, 2000)]
    (root / "a").write_text("\n".join(lines))
    line, got = 1, []
    while line <= len(lines):
        told = await call("read", path="a", line=line)
        assert len(told.encode()) < 52_000
        got += [row.split("\t", 1)[1] for row in told.split("\n") if "\t" in row]
        line = len(got) + 1
    assert got == lines


async def test_long_line_is_cut_with_the_exact_count(call, root: Path):
    (root / "a").write_text("é" * 3000 + "\nnext\n")
    first, second, *_ = (await call("read", path="a")).split("\n")
    assert first == "    1\t" + "é" * 1000 + " … [4000 more bytes in this line]"
    assert second == "    2\tnext"


async def test_line_longer_than_any_window_is_counted_exactly(call, root: Path):
    (root / "a").write_text("head\n" + "x" * 3_000_000 + "\ntail\n")
    told = await call("read", path="a", line=2)
    assert told.startswith("    2\t" + "x" * 2000 + " … [2998000 more bytes in this line]")
    assert told.endswith("(lines 2–2 of 3; continue with line=3)")


async def test_large_file_is_read_in_little_memory(call, root: Path):
    row = b"z" * 99 + b"\n"
    with (root / "large").open("wb") as file:
        for _ in range(50):
            file.write(row * 10_486)
    tracemalloc.start()
    try:
        told = await call("read", path="large", line=500_000, limit=3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told.startswith("500000\tzzz")
    assert "(lines 500000–500002 of 524300; continue with line=500003)" in told
    assert peak < 8_000_000


async def test_empty_file_is_said_to_be_empty(call, root: Path):
    (root / "a").touch()
    assert await call("read", path="a") == "a is empty (0 bytes)."
    assert await call("write", path="a", content="x")


async def test_line_after_the_end_is_refused(call, root: Path):
    (root / "a").write_text("x\n")
    assert await call.refused("read", path="a", line=5) == (
        "'a' has 1 lines; line 5 is after its end. Give a line up to 1."
    )


async def test_crlf_and_byte_order_mark_do_not_show(call, root: Path):
    (root / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    told = await call("read", path="a")
    assert told == "    1\tone\n    2\ttwo\n(lines end in CR LF; edit and write preserve that)"


async def test_other_encoding_is_shown_and_said(call, root: Path):
    (root / "a").write_bytes("café\n".encode("latin-1"))
    told = await call("read", path="a")
    assert told.startswith("    1\tcaf�\n(not UTF-8")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7fELF\0\0", "NUL bytes"),
        (b"%PDF-1.7 ...", "PDF"),
        ("text".encode("utf-16"), "UTF-16"),
    ],
)
async def test_binary_file_is_refused_with_a_reason(call, root: Path, data: bytes, reason: str):
    (root / "a").write_bytes(data)
    told = await call.refused("read", path="a")
    assert reason in told
    assert f"({len(data)} bytes)" in told


async def test_image_is_shown(call, root: Path):
    (root / "a.png").write_bytes(PNG)
    outcome = await call.run("read", path="a.png")
    assert isinstance(outcome.result[1], ImagePart)
    assert outcome.result[1].mime_type == "image/png"
    assert outcome.content[0].content.data == outcome.result[1].data


@pytest.mark.parametrize(
    ("head", "mime_type"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF0000WEBP", "image/webp"),
    ],
)
async def test_content_tells_what_an_image_is(call, root: Path, head: bytes, mime_type: str):
    (root / "a.dat").write_bytes(head + bytes(10))
    assert (await call.run("read", path="a.dat")).result[1].mime_type == mime_type


async def test_too_large_image_is_refused(call, root: Path):
    (root / "a.png").write_bytes(PNG + bytes(IMAGE_BYTES))
    assert "Make a smaller copy" in await call.refused("read", path="a.png")


async def test_what_is_no_file_is_refused(call, root: Path):
    (root / "d").mkdir()
    assert "list it with ls" in await call.refused("read", path="d")
    assert "does not exist" in await call.refused("read", path="nothing")
    assert "outside" in await call.refused("read", path="../outside/secret")
    (root / "link").symlink_to(root.parent / "outside" / "secret")
    assert "outside" in await call.refused("read", path="link")
    (root / "dangling").symlink_to(root / "nowhere")
    assert "symlink to something" in await call.refused("read", path="dangling")


async def test_policy_sees_where_a_symlink_leads(call, root: Path):
    (root / "real").write_text("x")
    (root / "link").symlink_to("real")
    prepared = await call.prepare("read", path="link", line=10, limit=31)
    (use,) = prepared.call.paths
    assert (use.path, use.resolved, use.access) == (f"{root}/link", f"{root}/real", "read")
    assert prepared.title == "Read link (10–40)"
    assert (prepared.locations[0].path, prepared.locations[0].line) == (f"{root}/link", 10)
    assert (prepared.call.tool, prepared.call.kind) == ("read", "read")


async def test_path_swapped_after_the_decision_is_refused(call, root: Path):
    (root / "d").mkdir()
    (root / "d" / "a").write_text("shown")
    (root / "e").mkdir()
    (root / "e" / "a").write_text("hidden")
    prepared = await call.prepare("read", path="d/a")
    (root / "d").rename(root / "old")
    (root / "d").symlink_to("e")
    with pytest.raises(Exception, match="resolves to a different path"):
        await call.finish(prepared)


async def test_home_is_understood(call, root: Path):
    (root / "a").write_text("x")
    assert await call("read", path="~/work/a") == "    1\tx"
