"""Images in a conversation: read from the log, made small, drawn as cells; never an exception."""

import asyncio
import contextlib
import random
import struct
import sys
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual.selection import Selection

from quarterdeck.fleet.errors import NoHostError
from quarterdeck.wire.content import EmbeddedResource, ImageContent, ResourceContents, text
from quarterdeck.wire.conversation import ImagePart, TextPart, ToolResultPart
from quarterdeck.wire.events import MessageChunk, Prompted, ToolCallEnded, ToolCallStarted
from quarterdeck.wire.ids import MessageId, SessionId, ToolCallId
from quarterdeck.wire.record import Record
from quarterdeck.wire.tool_calls import ContentItem
from quarterdeck.workbench import rasters
from quarterdeck.workbench.preferences.themes.apply import apply_theme
from quarterdeck.workbench.preferences.themes.files import find_theme
from quarterdeck.workbench.rasters import ImageError, Raster, fit_size, load_raster
from quarterdeck.workbench.rendering.blocks import block_lines, guess_height
from quarterdeck.workbench.rendering.lines import PixelRole, text_of, width_of
from quarterdeck.workbench.stores.block_builder import BlockBuilder
from quarterdeck.workbench.stores.blocks import PromptBlock, TextBlock, ToolBlock
from tests.support.all_states import STATES
from tests.support.png_images import (
    PNG_HEAD,
    encode_png,
    make_chunk,
    make_png,
    picture_of_a_sunset,
)
from tests.support.screen_strips import render_screen
from tests.support.staged_workbench import staged
from tests.support.workbench_app import LostFleet, begin, opened, screen_text, until


@pytest.fixture(autouse=True)
def nothing_kept():
    rasters._kept.clear()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pillow is not there."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    rasters._has_pillow.cache_clear()
    yield
    rasters._has_pillow.cache_clear()


def build(*events: object) -> BlockBuilder:
    builder = BlockBuilder()
    for seq, event in enumerate(events, 1):
        record = Record(seq=seq, time=seq, session=SessionId("s"), event=event)  # pyright: ignore[reportArgumentType]
        builder.take(record)
    return builder


def image(data: bytes, **fields: str) -> ImageContent:
    return ImageContent(data=encode_png(data), mime_type="image/png", **fields)


@pytest.mark.parametrize("filters", [(0,), (1,), (2,), (3,), (4,), (4, 3, 2, 1, 0)])
@pytest.mark.parametrize(("colour", "depth"), [(2, 8), (2, 16), (6, 8), (0, 8), (0, 16), (4, 8)])
def test_every_filter_colour_and_depth_is_read(colour: int, depth: int, filters: tuple[int, ...]):
    rng = random.Random(7)
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    seen = [[[rng.randrange(256) for _ in range(channels)] for _ in range(11)] for _ in range(9)]
    if colour in (4, 6):
        for row in seen:
            for pixel in row:
                pixel[-1] = 255
    wide = (lambda value: value * 257) if depth == 16 else (lambda value: value)
    data = make_png(
        11, 9, lambda x, y: [wide(v) for v in seen[y][x]], colour=colour, depth=depth,
        filters=filters,
    )  # fmt: skip
    read = rasters._read_png(data)
    grey = colour in (0, 4)
    wanted = [v for row in seen for p in row for v in ([p[0]] * 3 if grey else p[:3])]
    assert (read.width, read.height, list(read.pixels)) == (11, 9, wanted)


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_a_palette_and_greys_of_few_bits_are_read(depth: int):
    most = min((1 << depth) - 1, 3)
    palette = bytes(range(3 * (most + 1)))
    data = make_png(
        13, 2, lambda x, y: [(x + y) % (most + 1)], colour=3, depth=depth,
        before=make_chunk(b"PLTE", palette),
    )  # fmt: skip
    read = rasters._read_png(data)
    at = (5 + 1) % (most + 1)
    assert read.pixels[(13 + 5) * 3 :][:3] == palette[3 * at : 3 * at + 3]
    if depth < 8:
        top = (1 << depth) - 1
        grey = rasters._read_png(make_png(9, 1, lambda x, y: [top], colour=0, depth=depth))
        assert set(grey.pixels) == {255}


@pytest.mark.parametrize(("ink", "ground"), [(0, 255), (255, 0)])
def test_what_is_transparent_is_white_behind_dark_and_black_behind_light(ink: int, ground: int):
    data = make_png(4, 4, lambda x, y: [ink, ink, ink, 255 * (x < 2)], colour=6)
    read = rasters._read_png(data)
    assert read.pixels[:12] == bytes([ink] * 6 + [ground] * 6)


def _bomb() -> bytes:
    """A megabyte of zeros behind a head that says 8×8."""
    packed = zlib.compress(bytes(50_000_000), 9)
    head = make_chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
    return PNG_HEAD + head + make_chunk(b"IDAT", packed)


def _sized(width: int, height: int) -> bytes:
    head = make_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return PNG_HEAD + head + make_chunk(b"IDAT", zlib.compress(bytes(1_000)))


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not readable as an image"),
        (b"GIF89a\x10\x00\x20\x00", "not readable as an image"),
        (PNG_HEAD, "incomplete"),
        (_sized(0, 5), "has no pixels"),
        (_sized(5, 0), "has no pixels"),
        (_sized(30_000, 30_000), "too large to draw"),
        (_sized(4_000_000_000, 1), "too large to draw"),
        (_sized(100, 100), "incomplete"),
        (picture_of_a_sunset()[:300], "incomplete"),
        (picture_of_a_sunset().replace(b"IDAT", b"junk"), "incomplete"),
        (make_png(4, 4, lambda x, y: (1, 2, 3), interlace=1), "an interlaced PNG"),
        (PNG_HEAD + make_chunk(b"IHDR", b"12"), "damaged"),
        (PNG_HEAD + make_chunk(b"IDAT", b"12"), "damaged"),
        (PNG_HEAD + make_chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 4, 3, 2, 0, 0, 0)), "damaged"),
        (_sized(1, 1).replace(zlib.compress(bytes(1_000)), b"x" * 17), "damaged"),
    ],
)
def test_what_cannot_be_drawn_says_why(data: bytes, why: str):
    for _ in range(2):  # the second time from what is kept
        with pytest.raises(ImageError, match=why):
            load_raster(encode_png(data))


def test_a_bomb_is_not_unpacked():
    assert load_raster(encode_png(_bomb())).width == 8
    with pytest.raises(ImageError, match="too large"):
        load_raster("A" * (rasters.MOST_DATA + 1))


def test_images_that_were_read_are_kept_but_not_without_end():
    pixels = [make_png(1, 1, lambda x, y, n=n: (n, n, n)) for n in range(100)]
    first = load_raster(encode_png(pixels[0]))
    assert load_raster(encode_png(pixels[0])) is first
    for data in pixels:
        load_raster(encode_png(data))
    assert len(rasters._kept) == rasters._MOST_KEPT


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_no_bytes_raise_anything_else(data: st.DataObject):
    _draw_damaged(data)


@pytest.mark.usefixtures("alone")
@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_no_bytes_raise_anything_else_without_pillow(data: st.DataObject):
    _draw_damaged(data)


def _draw_damaged(data: st.DataObject) -> None:
    good = bytearray(picture_of_a_sunset(16, 12))
    for _ in range(data.draw(st.integers(1, 6))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(good[: data.draw(st.integers(0, len(good)))])
    with contextlib.suppress(ImageError):
        load_raster(encode_png(cut))


@pytest.mark.parametrize("data", ["", "\ud800", "é", "!!!", "iVBORw0KGgo="])
def test_text_that_is_no_image_is_refused(data: str):
    with pytest.raises(ImageError):
        load_raster(data)


@given(st.integers(1, 30_000), st.integers(1, 30_000), st.integers(1, 80), st.integers(1, 60))
def test_a_size_fits_and_is_never_larger(width: int, height: int, wide: int, high: int):
    columns, rows = fit_size(width, height, wide, high)
    assert 1 <= columns <= min(width, wide) and 1 <= rows <= high


def test_a_raster_is_scaled_by_the_mean():
    board = Raster(4, 2, bytes([0, 0, 0, 255, 255, 255] * 4))
    assert board.scale(1, 1).pixels == bytes([127] * 3)
    assert board.scale(4, 2) is board
    assert board.scale(8, 4).pixels[:6] == bytes(6)


def save_photo(kind: str, size: tuple[int, int] = (300, 200)) -> bytes:
    from PIL import Image

    file = BytesIO()
    Image.new("RGB", size, (200, 40, 40)).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_pillow_reads_the_others(kind: str):
    photo = save_photo(kind)
    read = load_raster(encode_png(photo))
    assert read.width == 160 and abs(read.pixels[0] - 200) < 6
    with pytest.raises(ImageError):
        load_raster(encode_png(photo[:60]))


@pytest.mark.parametrize("seen", [2, 6, 0, 4])
def test_pillow_and_we_read_the_same_pixels(seen: int):
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[seen]
    data = make_png(
        12, 8, lambda x, y: [20 * x + y, 10 * y, 7 * x, 255][: channels - (seen == 4)]
        + [255] * (seen == 4), colour=seen,
    )  # fmt: skip
    assert rasters._read_by_pillow(data).pixels == rasters._read_png(data).pixels


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not readable as an image"),
        (b"GIF89a\x10\x00\x20\x00", "damaged|not readable"),
        (_sized(0, 5), "has no pixels|not readable"),
        (_sized(30_000, 30_000), "too large to draw"),
        (picture_of_a_sunset()[:300], "incomplete|damaged"),
    ],
)
def test_what_pillow_cannot_draw_says_why(data: bytes, why: str):
    with pytest.raises(ImageError, match=why):
        load_raster(encode_png(data))


# Blocks


def test_an_image_takes_its_rows_before_it_is_read():
    content = (text("look"), image(picture_of_a_sunset(640, 400), uri="file:///a/shot.png"))
    (block,) = build(Prompted(content=content, message=MessageId("m"))).blocks
    assert isinstance(block, PromptBlock) and block.text == "look"
    before = block_lines(block, 80)
    assert guess_height(block, 80) == len(before) == 1 + 1 + 12
    block.images[0].raster = load_raster(encode_png(picture_of_a_sunset(640, 400)))
    after = block_lines(block, 80)
    assert len(after) == len(before) and "shot.png" in text_of(after[1])
    assert all(width_of(line) <= 80 for line in after)
    assert isinstance(after[2][1][1], PixelRole) and text_of(after[2]).strip("▀ ") == ""
    block.expanded = True
    assert len(block_lines(block, 80)) == 2 + 25 == guess_height(block, 80)
    assert len(block_lines(block, 20)) < 12


def test_images_of_an_answer_stand_where_they_came():
    chunks = (text("before"), image(picture_of_a_sunset()), text("after"))
    blocks = build(*(MessageChunk(content=one, message=MessageId("m")) for one in chunks)).blocks
    assert [(len(b.images), b.is_whole) for b in blocks if isinstance(b, TextBlock)] == [
        (0, True), (1, True), (0, False),
    ]  # fmt: skip


def test_images_of_a_call_are_those_it_reported_last():
    call, shot = ToolCallId("c"), image(picture_of_a_sunset())
    begun = ToolCallStarted(call=call, title="Shoot", content=(ContentItem(content=shot),))
    (block,) = build(begun, ToolCallEnded(call=call, status="completed")).blocks
    assert isinstance(block, ToolBlock) and [one.seq for one in block.images] == [1]
    blob = ResourceContents(uri="a.png", mime_type="image/png", blob=shot.data)
    other = ContentItem(content=EmbeddedResource(resource=blob))
    builder = build(begun, ToolCallEnded(call=call, status="completed", content=(other, other)))
    (block,) = builder.blocks
    assert isinstance(block, ToolBlock) and [(i.seq, i.at) for i in block.images] == [
        (2, 0),
        (2, 1),
    ]
    parts = (TextPart(text="done"), ImagePart(data=shot.data, mime_type="image/png"))
    ended = ToolCallEnded(
        call=call, status="completed", result=ToolResultPart(id="c", content=parts)
    )
    (block,) = build(ToolCallStarted(call=call, title="Shoot"), ended).blocks
    assert isinstance(block, ToolBlock) and block.texts == ("done",) and len(block.images) == 1


@pytest.mark.usefixtures("alone")
def test_without_pillow_a_photo_is_one_line_that_says_what_it_is():
    photo = ImageContent(data="/9j/4AAEYWL/wAARCAAQACAAAAAAAAAAAAA=", mime_type="image/jpeg")
    (block,) = build(MessageChunk(content=photo, message=MessageId("m"))).blocks
    assert [text_of(line).strip() for line in block_lines(block, 80)] == ["image JPEG 32×16 27 B"]


def test_what_is_no_image_is_one_quiet_line():
    wrong = [b"", b"no image", _sized(0, 5), _sized(30_000, 30_000)]
    content = tuple(map(image, wrong))
    (block,) = build(Prompted(content=content, message=MessageId("m"))).blocks
    assert isinstance(block, PromptBlock)
    block.images[3].problem = "too large to draw"
    lines = [text_of(line) for line in block_lines(block, 100)][-4:]
    for line, why in zip(
        lines, ("not readable", "not readable", "no pixels", "large"), strict=True
    ):
        assert why in line


# On the screen


async def test_images_are_drawn_and_follow_the_width(tmp_path: Path):
    async with staged(STATES["talk-with-images"], tmp_path, (120, 50)) as stage:
        await until(stage.pilot, lambda: screen_text(stage.app).count("▀" * 20) == 12 + 4)
        await stage.pilot.resize_terminal(60, 60)
        await until(stage.pilot, lambda: screen_text(stage.app).count("▀" * 20) == 12 + 4)
        await stage.pilot.resize_terminal(24, 60)
        await until(stage.pilot, lambda: "▀" * 24 not in screen_text(stage.app))
        for size in ((20, 5), (400, 100)):
            await stage.pilot.resize_terminal(*size)
            await stage.pilot.pause()
            assert len(screen_text(stage.app).splitlines()) == size[1]


async def test_an_image_has_its_colours_and_without_colours_shades(tmp_path: Path):
    async with staged(STATES["talk-with-images"], tmp_path, (120, 50)) as stage:
        await until(stage.pilot, lambda: screen_text(stage.app).count("▀" * 20) == 12 + 4)
        found = {s.style.color.name for strip in render_screen(stage.app) for s in strip
                 if "▀" in s.text and s.style and s.style.color}  # fmt: skip
        assert len(found) > 20
        mono = await asyncio.to_thread(find_theme, "mono", ())
        assert mono is not None
        apply_theme(stage.app, mono)
        await until(stage.pilot, lambda: "▀" not in screen_text(stage.app))
        rows = screen_text(stage.app).splitlines()
        assert sum("████" in row for row in rows) == 4 and sum("░" * 20 in row for row in rows) > 3
        stage.app.theme_control.draw_signs("ascii")
        stage.app.refresh_css(animate=False)
        await until(stage.pilot, lambda: "######" in screen_text(stage.app))
        assert screen_text(stage.app).isascii()


async def test_pictures_are_not_copied_with_the_text_around_them(tmp_path: Path):
    async with staged(STATES["talk-with-images"], tmp_path, (120, 50)) as stage:
        await until(stage.pilot, lambda: screen_text(stage.app).count("▀" * 20) == 12 + 4)
        found = stage.app.main.transcript.get_selection(Selection(None, None))
        assert found is not None and "sunset.png" in found[0] and "▀" not in found[0]


class AwayFleet(LostFleet):
    """While its host is away, nothing can be read."""

    asked = 0

    async def read(self, agent: str | None, **where: int | None) -> list[Record]:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.asked += 1
        if self.is_gone:
            raise NoHostError("no host is running")
        return await super().read(agent, **where)  # pyright: ignore[reportArgumentType]


async def test_an_image_that_is_looked_at_while_the_host_is_away_is_a_line_and_comes_later(
    tmp_path: Path,
):
    fleet = AwayFleet()
    session = await begin(fleet, "ann")
    shot = image(picture_of_a_sunset(64, 40))
    await fleet.append(session, MessageChunk(content=shot, message=MessageId("m")))
    for number in range(60):
        words = (text(f"prompt {number}"),)
        await fleet.append(session, Prompted(content=words, message=MessageId(f"p{number}")))
    async with opened(fleet, tmp_path, (100, 30)) as (app, pilot):
        await until(pilot, lambda: "prompt 59" in screen_text(app))
        await fleet.lose()
        await until(pilot, lambda: app.context.host == "lost")
        app.main.transcript.action_start()
        await until(pilot, lambda: "not loaded while the host is away" in screen_text(app))
        asked = fleet.asked
        for _ in range(5):
            app.main.transcript.refresh()
            await pilot.pause(0.05)
        assert fleet.asked == asked  # it is not asked for again and again
        assert not list(app._notifications)
        fleet.is_gone = False
        app.feed.start_host()
        await until(pilot, lambda: "▀" * 10 in screen_text(app))
        assert "not loaded" not in screen_text(app)
