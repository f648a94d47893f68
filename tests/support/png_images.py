"""PNG files made for tests: any colour type and depth, each row by the filter that is asked for."""

import base64
import struct
import zlib
from collections.abc import Callable, Sequence

__all__ = ["PNG_HEAD", "encode_png", "make_chunk", "make_png", "picture_of_a_sunset"]

PNG_HEAD = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def make_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def make_png(
    width: int,
    height: int,
    values: Callable[[int, int], Sequence[int]],
    *,
    colour: int = 2,
    depth: int = 8,
    filters: Sequence[int] = (0,),
    before: bytes = b"",
    interlace: int = 0,
) -> bytes:
    """A file; ``values`` gives the channels of a pixel by column and row."""
    step = max(1, depth * _CHANNELS[colour] // 8)
    above = bytes((width * depth * _CHANNELS[colour] + 7) // 8)
    packed = b""
    for y in range(height):
        row = _pack([value for x in range(width) for value in values(x, y)], depth)
        kind = filters[y % len(filters)]
        packed += bytes([kind]) + _filter(kind, row, above, step)
        above = row
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlace)
    parts = (make_chunk(b"IHDR", head), before, make_chunk(b"IDAT", zlib.compress(packed)))
    return PNG_HEAD + b"".join((*parts, make_chunk(b"IEND", b"")))


def encode_png(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pack(values: list[int], depth: int) -> bytes:
    if depth >= 8:
        return b"".join(value.to_bytes(depth // 8, "big") for value in values)
    bits = "".join(f"{value:0{depth}b}" for value in values)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))


def _filter(kind: int, row: bytes, above: bytes, step: int) -> bytes:
    found = bytearray()
    for at, value in enumerate(row):
        left = row[at - step] if at >= step else 0
        up, corner = above[at], above[at - step] if at >= step else 0
        guess = left + up - corner
        nearest = min((left, up, corner), key=lambda one: abs(guess - one))
        found.append((value - (0, left, up, (left + up) // 2, nearest)[kind]) & 255)
    return bytes(found)


def picture_of_a_sunset(width: int = 64, height: int = 40) -> bytes:
    """Something that can be recognised: a sky, a sun, and the sea."""

    def pixel(x: int, y: int) -> tuple[int, int, int]:
        if (x - width * 0.6) ** 2 + (y - height * 0.5) ** 2 < (height * 0.2) ** 2:
            return 255, 208, 72
        if y > height * 0.65:
            return 16, 48 + (x + y) % 16, 96
        part = y / height
        return int(48 + 240 * part), int(40 + 100 * part), int(120 - 60 * part)

    return make_png(width, height, pixel, filters=(0, 1, 2, 3, 4))
