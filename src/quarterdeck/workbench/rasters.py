"""Images as a few pixels: read from the bytes of a file, and made small at once.

Pillow reads them where it is installed; without it, PNG is read here. The bytes come from agents:
what is not an image, is cut, or would take too much room or time is refused before it is unpacked.
Everything here blocks and belongs into a thread, but for ``Raster``.
"""

import base64
import binascii
import hashlib
import importlib
import importlib.util
import struct
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

__all__ = ["MOST_DATA", "ImageError", "Raster", "can_read_image", "fit_size", "load_raster"]

MOST_DATA = 16_000_000
"""Characters of base 64 of an image that is still drawn."""
_WIDEST, _HIGHEST = 160, 120
"""Pixels that are kept of an image: more than are ever drawn."""
_LONGEST_SIDE = 20_000
_MOST_UNPACKED = 16_000_000
"""Bytes of pixels that are unpacked here: 2880×1800 without transparency."""
_MOST_PIXELS = 50_000_000
"""Pixels of an image that Pillow may read."""
_MOST_KEPT = 64
_SAMPLES = 4
"""Points along each side of a pixel that its colour is the mean of."""

_PILLOW_ERRORS = (
    OSError, EOFError, ValueError, SyntaxError, TypeError, LookupError, ArithmeticError,
    RuntimeError, MemoryError, struct.error, zlib.error,
)  # fmt: skip
"""What its readers raise for bytes that someone made up."""

Rgba: TypeAlias = tuple[int, int, int, int]


class ImageError(QuarterdeckError):
    """An image that cannot be drawn; the message says why, in a few words."""


@dataclass(frozen=True, slots=True)
class Raster:
    """Pixels in rows, three bytes each."""

    width: int
    height: int
    pixels: bytes

    def scale(self, width: int, height: int) -> "Raster":
        """The same in another size; each pixel is the mean of some that it stands for."""
        if (width, height) == (self.width, self.height):
            return self
        found = bytearray()
        columns = _points(self.width, width)
        for rows in _points(self.height, height):
            for column in columns:
                places = [(row * self.width + x) * 3 for row in rows for x in column]
                for part in range(3):
                    found.append(sum(self.pixels[at + part] for at in places) // len(places))
        return Raster(width, height, bytes(found))


def fit_size(width: int, height: int, most_width: int, most_height: int) -> tuple[int, int]:
    """The largest size of the same shape within bounds, which is not larger than it was."""
    shown = max(1, min(width, most_width))
    high = max(1, round(height * shown / width))
    if high > most_height:
        high = max(1, most_height)
        shown = max(1, min(shown, round(width * high / height)))
    return shown, high


@lru_cache(maxsize=1)
def _has_pillow() -> bool:
    return importlib.util.find_spec("PIL") is not None


def can_read_image(kind: str) -> bool:
    """Whether images of this kind (``PNG``, ``JPEG``, ``GIF``, ``WebP``) can be read here."""
    return kind == "PNG" or (bool(kind) and _has_pillow())


_kept: "OrderedDict[bytes, Raster | ImageError]" = OrderedDict()
_lock = threading.Lock()


def load_raster(data: str) -> Raster:
    """The pixels of an image in base 64, made small; what was asked for before is kept.

    Raises:
        ImageError: it cannot be drawn.
    """
    key = hashlib.sha256(data.encode("utf-8", "surrogatepass")).digest()
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
    if found is None:
        try:
            found = _read(data)
        except ImageError as error:
            found = error
        with _lock:
            _kept[key] = found
            while len(_kept) > _MOST_KEPT:
                _kept.popitem(last=False)
    if isinstance(found, ImageError):
        raise ImageError(str(found))
    return found


def _read(data: str) -> Raster:
    if len(data) > MOST_DATA:
        raise ImageError("too large to draw")
    try:
        content = base64.b64decode(data)
    except (binascii.Error, ValueError):
        raise ImageError("not readable as an image") from None
    if _has_pillow():
        return _read_by_pillow(content)
    if not content.startswith(_SIGNATURE):
        raise ImageError("not readable as an image")
    try:
        return _read_png(content)
    except (struct.error, IndexError, zlib.error):
        raise ImageError("damaged") from None


def _read_by_pillow(content: bytes) -> Raster:
    from io import BytesIO

    pillow: Any = importlib.import_module("PIL.Image")
    try:
        with pillow.open(BytesIO(content), formats=("PNG", "JPEG", "GIF", "WEBP")) as image:
            width, height = image.size
            if not width or not height:
                raise ImageError("has no pixels")
            if width * height > _MOST_PIXELS or max(width, height) > _LONGEST_SIDE:
                raise ImageError("too large to draw")
            size = fit_size(width, height, _WIDEST, _HIGHEST)
            image.draft("RGB", (size[0] * 2, size[1] * 2))
            small = _in_eight_bits(image).resize(size, pillow.Resampling.BOX)
            data: bytes = small.tobytes()
    except pillow.UnidentifiedImageError:
        raise ImageError("not readable as an image") from None
    except _PILLOW_ERRORS as error:
        why = "incomplete" if "truncated" in str(error).lower() else "damaged"
        raise ImageError(why) from None
    except pillow.DecompressionBombError:
        raise ImageError("too large to draw") from None
    pixels = [data[at : at + 4] for at in range(0, len(data), 4)]
    return _on_ground(*size, [(one[0], one[1], one[2], one[3]) for one in pixels])


def _in_eight_bits(image: Any) -> Any:
    """Pillow cuts greys of 16 bits where it ought to divide them."""
    if image.mode.startswith("I"):
        image = image.convert("I").point(_shorten).convert("L")
    return image.convert("RGBA")


def _shorten(value: float) -> float:
    return value * (1 / 256)


def _points(length: int, parts: int) -> list[list[int]]:
    """Some places of each part of a length, without any twice."""
    found: list[list[int]] = []
    for part in range(parts):
        begin, end = part * length / parts, (part + 1) * length / parts
        step = (end - begin) / _SAMPLES
        found.append(
            sorted({min(length - 1, int(begin + step * (n + 0.5))) for n in range(_SAMPLES)})
        )
    return found


# PNG

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}


@dataclass(slots=True)
class _Png:
    """What the chunks of a PNG say."""

    width: int = 0
    height: int = 0
    depth: int = 0
    colour: int = 0
    palette: bytes = b""
    alphas: bytes = b""
    packed: bytes = b""

    @property
    def row(self) -> int:
        """Bytes of a row, without its filter."""
        return (self.width * self.depth * _CHANNELS[self.colour] + 7) // 8

    @property
    def step(self) -> int:
        """Bytes from a byte to the one that filters compare it with."""
        return max(1, self.depth * _CHANNELS[self.colour] // 8)


def _read_png(content: bytes) -> Raster:
    png = _read_chunks(content)
    if not png.width or not png.height:
        raise ImageError("has no pixels")
    total = (png.row + 1) * png.height
    if total > _MOST_UNPACKED or max(png.width, png.height) > _LONGEST_SIDE:
        raise ImageError("too large to draw")
    unpacked = zlib.decompressobj().decompress(png.packed, total)
    if len(unpacked) < total:
        raise ImageError("incomplete")
    return _sample(png, unpacked)


def _read_chunks(content: bytes) -> _Png:
    png, at = _Png(), len(_SIGNATURE)
    packed: list[bytes] = []
    while at + 8 <= len(content):
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        body = content[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            _read_head(png, body)
        elif not png.depth:
            raise ImageError("damaged")
        elif kind == b"PLTE":
            png.palette = body
        elif kind == b"tRNS" and png.colour == 3:
            png.alphas = body
        elif kind == b"IDAT":
            packed.append(body)
        elif kind == b"IEND":
            break
        at += 12 + size
    if not png.depth:
        raise ImageError("incomplete")
    png.packed = b"".join(packed)
    return png


def _read_head(png: _Png, body: bytes) -> None:
    png.width, png.height, depth, png.colour, method, filters, interlace = struct.unpack(
        ">IIBBBBB", body[:13]
    )
    if depth not in _DEPTHS.get(png.colour, ()) or method or filters or interlace > 1:
        raise ImageError("damaged")
    if interlace:
        raise ImageError("an interlaced PNG")
    png.depth = depth


def _sample(png: _Png, unpacked: bytes) -> Raster:
    """Unpack row after row, and keep a few points of each."""
    width, height = fit_size(png.width, png.height, _WIDEST, _HIGHEST)
    columns, read = _points(png.width, width), _pixel_reader(png)
    wanted = _points(png.height, height)
    found: list[Rgba] = []
    sums, taken, line = [[0, 0, 0, 0] for _ in columns], 0, 0
    for number, row in enumerate(_unfilter(png, unpacked)):
        if number not in wanted[line]:
            continue
        for sum_, column in zip(sums, columns, strict=True):
            for x in column:
                red, green, blue, alpha = read(row, x)
                sum_[0] += red * alpha
                sum_[1] += green * alpha
                sum_[2] += blue * alpha
                sum_[3] += alpha
        taken += 1
        if taken == len(wanted[line]):
            found += (
                _mean(sum_, taken * len(column)) for sum_, column in zip(sums, columns, strict=True)
            )
            sums, taken, line = [[0, 0, 0, 0] for _ in columns], 0, line + 1
            if line == height:
                break
    return _on_ground(width, height, found)


def _mean(sums: list[int], number: int) -> Rgba:
    red, green, blue, alpha = sums
    if not alpha:
        return 0, 0, 0, 0
    return red // alpha, green // alpha, blue // alpha, alpha // number


def _on_ground(width: int, height: int, pixels: list[Rgba]) -> Raster:
    """Without transparency: what is dark stands on white, what is light on black."""
    seen = sum(pixel[3] for pixel in pixels)
    light = sum((p[0] * 3 + p[1] * 6 + p[2]) * p[3] for p in pixels) / 10
    ground = 255 if light < 128 * seen else 0
    found = bytearray()
    for *parts, alpha in pixels:
        found += bytes((part * alpha + ground * (255 - alpha)) // 255 for part in parts)
    return Raster(width, height, bytes(found))


def _pixel_reader(png: _Png) -> Callable[[bytes, int], Rgba]:
    """What tells the colour of a pixel of a row."""
    step, depth, wide = png.step, png.depth, png.depth // 8
    if png.colour == 3:
        alphas = png.alphas.ljust(256, b"\xff")
        palette = png.palette.ljust(768, b"\0")

        def read_palette(row: bytes, x: int) -> Rgba:
            at = _bits(row, x, depth)
            return palette[3 * at], palette[3 * at + 1], palette[3 * at + 2], alphas[at]

        return read_palette
    if png.colour in (2, 6):
        has_alpha = png.colour == 6

        def read_colour(row: bytes, x: int) -> Rgba:
            at = x * step
            alpha = row[at + 3 * wide] if has_alpha else 255
            return row[at], row[at + wide], row[at + 2 * wide], alpha

        return read_colour
    if depth < 8:
        most = (1 << depth) - 1

        def read_bits(row: bytes, x: int) -> Rgba:
            grey = _bits(row, x, depth) * 255 // most
            return grey, grey, grey, 255

        return read_bits

    def read_grey(row: bytes, x: int) -> Rgba:
        grey = row[x * step]
        return grey, grey, grey, row[x * step + wide] if png.colour == 4 else 255

    return read_grey


def _bits(row: bytes, x: int, depth: int) -> int:
    at = x * depth
    return (row[at >> 3] >> (8 - depth - (at & 7))) & ((1 << depth) - 1)


def _unfilter(png: _Png, unpacked: bytes) -> Iterator[bytes]:
    size, step = png.row, png.step
    low, high = (int.from_bytes(one * size, "big") for one in (b"\x7f", b"\x80"))
    before = bytes(size)
    for at in range(0, len(unpacked), size + 1):
        row = unpacked[at + 1 : at + 1 + size]
        match unpacked[at]:
            case 0:
                pass
            case 1:
                row = _by_channel(row, before, step, _add_left)
            case 2:  # all bytes of a row at once, each without its carry
                one, other = int.from_bytes(row, "big"), int.from_bytes(before, "big")
                both = ((one & low) + (other & low)) ^ ((one ^ other) & high)
                row = both.to_bytes(size, "big")
            case 3:
                row = _by_channel(row, before, step, _add_mean)
            case 4:
                row = _by_channel(row, before, step, _add_nearest)
            case _:
                raise ImageError("damaged")
        yield row
        before = row


def _by_channel(
    row: bytes, before: bytes, step: int, add: Callable[[bytes, bytes], bytes]
) -> bytes:
    found = bytearray(len(row))
    for channel in range(step):
        found[channel::step] = add(row[channel::step], before[channel::step])
    return bytes(found)


def _add_left(row: bytes, before: bytes) -> bytes:
    del before
    return bytes(map((255).__and__, accumulate(row)))


def _add_mean(row: bytes, before: bytes) -> bytes:
    left, found = 0, bytearray()
    for value, above in zip(row, before, strict=True):
        left = (value + ((left + above) >> 1)) & 255
        found.append(left)
    return bytes(found)


def _add_nearest(row: bytes, before: bytes) -> bytes:
    """The neighbour that is nearest to left + above - corner is added (Paeth)."""
    left, corner, found = 0, 0, bytearray()
    for value, above in zip(row, before, strict=True):
        by_left, by_above = abs(above - corner), abs(left - corner)
        by_corner = abs(left + above - corner - corner)
        if by_left <= by_above and by_left <= by_corner:
            nearest = left
        else:
            nearest = above if by_above <= by_corner else corner
        left = (value + nearest) & 255
        corner = above
        found.append(left)
    return bytes(found)
