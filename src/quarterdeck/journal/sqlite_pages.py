"""Reading rows straight from a database file's pages, without the database.

A page that is damaged costs the rows on it and nothing else: no tree is walked, every page that
looks like a leaf of a table is read by itself. The form is SQLite's documented file format. No
number in the file is believed: what it says is bounded by how large the file is.
"""

import struct
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, TypeAlias

__all__ = ["Row", "SqlitePages", "rows_between", "rows_of"]

Row: TypeAlias = tuple[int, list[int | float | str | bytes | None]]
"""A row's number and its columns."""

_TABLE_LEAF = 0x0D
_OTHER_PAGES = {0x00, 0x02, 0x05, 0x0A}
"""First bytes of pages that are none: overflow pages begin with a page's number, hence with 0."""
_FIRST_PAGE_HEADER = 100
_WAL_HEADER, _FRAME_HEADER = 32, 24
_DEFAULT_SIZE = 4096
_SIZES = {512 << n for n in range(8)}
_WIDTHS = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}


class SqlitePages:
    """The pages of a file, the newest version of each: the log of writes beside it comes first."""

    def __init__(self, file: BinaryIO, wal: BinaryIO | None) -> None:
        self._file = file
        self._wal = wal
        header = file.read(_FIRST_PAGE_HEADER)
        self.size = _page_size(header)
        reserved = header[20] if len(header) > 20 and header[20] < 64 else 0
        self.usable = self.size - reserved
        self._offsets = _committed_frames(wal, self.size) if wal is not None else {}
        self.in_file = file.seek(0, 2) // self.size
        # A damaged frame may name any page; no more pages are there than have been written.
        self.count = self.in_file + len(self._offsets)
        self.chained = 4 * self.count
        """Pages that long rows may still be followed over; chains may lead in circles."""

    def numbers(self) -> Iterator[int]:
        """The number of every page."""
        yield from range(1, self.in_file + 1)
        yield from sorted(number for number in self._offsets if number > self.in_file)

    def __getitem__(self, number: int) -> bytes:
        """A page, counted from 1; empty when the file does not have it."""
        if self._wal is not None and number in self._offsets:
            self._wal.seek(self._offsets[number])
            return self._wal.read(self.size)
        if not 1 <= number <= self.in_file:
            return b""
        self._file.seek((number - 1) * self.size)
        return self._file.read(self.size)


def rows_of(path: Path) -> Iterator[Row | None]:
    """Every row of every table that can be read; None for each that cannot.

    Raises:
        OSError: the file cannot be read at all.
    """
    with _opened(path) as pages:
        for number in pages.numbers():
            yield from _leaf_rows(pages, number)


def rows_between(path: Path, after: int, before: int) -> Iterator[Row]:
    """The rows whose numbers lie between these, both left out, of every table.

    Pages whose first, middle and last rows lie elsewhere are passed over.

    Raises:
        OSError: the file cannot be read at all.
    """
    with _opened(path) as pages:
        for number in pages.numbers():
            if any(after < one < before for one in _some_numbers(pages, number)):
                for row in _leaf_rows(pages, number):
                    if row is not None and after < row[0] < before:
                        yield row


@contextmanager
def _opened(path: Path) -> Generator[SqlitePages]:
    wal_path = path.with_name(path.name + "-wal")
    with path.open("rb") as file, ExitStack() as stack:
        wal = stack.enter_context(wal_path.open("rb")) if wal_path.exists() else None
        yield SqlitePages(file, wal)


def _leaf_rows(pages: SqlitePages, number: int) -> Iterator[Row | None]:
    page = pages[number]
    start = _FIRST_PAGE_HEADER if number == 1 else 0
    if len(page) < pages.size or page[start] in _OTHER_PAGES:
        return
    is_leaf = page[start] == _TABLE_LEAF
    (cells,) = struct.unpack_from(">H", page, start + 3)
    for index, pointer in enumerate(_pointers(page, start)):
        if index >= cells and not pointer:
            return
        try:
            yield _row(pages, page, pointer)
        except (IndexError, KeyError, ValueError, struct.error):
            # Beyond the number of rows that the page names, it need not be one.
            if index < cells and is_leaf:
                yield None


def _pointers(page: bytes, start: int) -> Iterator[int]:
    """Where the rows of a page begin, also beyond the number that it names: that may be wrong."""
    least = len(page)
    place = start + 8
    while place + 2 <= least:
        (pointer,) = struct.unpack_from(">H", page, place)
        if place < pointer < least:
            least = pointer if pointer > place + 2 else least
        yield pointer
        place += 2


def _some_numbers(pages: SqlitePages, number: int) -> Iterator[int]:
    page = pages[number]
    start = _FIRST_PAGE_HEADER if number == 1 else 0
    if len(page) < pages.size or page[start] in _OTHER_PAGES:
        return
    cells = max(1, min(struct.unpack_from(">H", page, start + 3)[0], pages.size // 4))
    for index in {0, 1, cells // 2, cells - 1}:
        try:
            (pointer,) = struct.unpack_from(">H", page, start + 8 + 2 * index)
            _, place = _varint(page, pointer)
            yield _varint(page, place)[0]
        except (IndexError, struct.error):
            continue


def _row(pages: SqlitePages, page: bytes, place: int) -> Row:
    length, place = _varint(page, place)
    number, place = _varint(page, place)
    payload = _payload(pages, page, place, length)
    end, at = _varint(payload, 0)
    at_value = end
    columns: list[int | float | str | bytes | None] = []
    while at < end:
        kind, at = _varint(payload, at)
        width = (kind - 12) // 2 if kind >= 12 else _WIDTHS[kind]
        value = payload[at_value : at_value + width]
        if len(value) != width:
            raise ValueError("a column beyond the end of its row")
        columns.append(_value(kind, value))
        at_value += width
    return number - (1 << 64) if number >> 63 else number, columns


def _payload(pages: SqlitePages, page: bytes, place: int, length: int) -> bytes:
    most = pages.usable - 35
    if length <= most:
        return page[place : place + length]
    if length > pages.count * pages.size:
        raise ValueError("a row larger than its file")
    least = (pages.usable - 12) * 32 // 255 - 23
    local = least + (length - least) % (pages.usable - 4)
    local = local if local <= most else least
    parts = [page[place : place + local]]
    left = length - local
    (following,) = struct.unpack_from(">I", page, place + local)
    while left > 0:
        pages.chained -= 1
        if pages.chained < 0:
            raise ValueError("rows that are longer than the file")
        overflow = pages[following]
        part = overflow[4 : 4 + min(left, pages.usable - 4)]
        if not part:
            raise ValueError("a row that ends too early")
        parts.append(part)
        left -= len(part)
        (following,) = struct.unpack_from(">I", overflow)
    return b"".join(parts)


def _value(kind: int, value: bytes) -> int | float | str | bytes | None:
    match kind:
        case 0:
            return None
        case 7:
            return struct.unpack(">d", value)[0]
        case 8 | 9:
            return kind - 8
        case _ if kind < 7:
            return int.from_bytes(value, "big", signed=True)
        case _:
            return value if kind % 2 == 0 else value.decode()


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for index in range(8):
        byte = data[place + index]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, place + index + 1
    return number << 8 | data[place + 8], place + 9


def _page_size(header: bytes) -> int:
    if len(header) < 18:
        return _DEFAULT_SIZE
    (size,) = struct.unpack_from(">H", header, 16)
    size = 65536 if size == 1 else size
    return size if size in _SIZES else _DEFAULT_SIZE


def _committed_frames(wal: BinaryIO, size: int) -> dict[int, int]:
    """Where the newest committed version of each page is in the log of writes."""
    header = wal.read(_WAL_HEADER)
    if len(header) < _WAL_HEADER or struct.unpack_from(">I", header, 8)[0] != size:
        return {}
    salt, place = header[16:24], _WAL_HEADER
    committed: dict[int, int] = {}
    pending: dict[int, int] = {}
    while True:
        wal.seek(place)
        frame = wal.read(_FRAME_HEADER)
        # Frames of an earlier round have other salts; they are already in the file.
        if len(frame) < _FRAME_HEADER or frame[8:16] != salt:
            return committed
        number, pages_after = struct.unpack_from(">II", frame)
        pending[number] = place + _FRAME_HEADER
        if pages_after:
            committed |= pending
            pending = {}
        place += _FRAME_HEADER + size
