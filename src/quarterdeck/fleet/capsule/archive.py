"""The container of a capsule: a zip file of a strict profile, written and read as a stream.

Any zip program can read one. What we read is less than what zip allows, so that two programs can
never see two different things in one file: members lie one after another from the first byte, each
header says the same as the list at the end, sizes stand before the data, nothing is encrypted, and
the file ends with the list. Members are stored or deflated. Everything here blocks.
"""

import hashlib
import re
import stat
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol

from msgspec import Struct

from .errors import CapsuleRefusedError

__all__ = [
    "MANIFEST",
    "SIGNATURE",
    "ArchiveMember",
    "ArchiveReader",
    "ArchiveWriter",
    "ByteOutput",
    "CapsuleLimits",
    "PartSpool",
    "part_name",
]

MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
_PART = re.compile(r"parts/[0-9a-f]{64}")
_CHUNK = 1 << 18
_STORED, _DEFLATED = 0, 8
_UTF8 = 0x0800
_MADE_BY = 3 << 8 | 45
_FILE = (stat.S_IFREG | 0o600) << 16
_DATE = 1 << 5 | 1  # 1980-01-01: the same content gives the same bytes
_FULL = 0xFFFF_FFFF
_FULL16 = 0xFFFF
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_SPOOLED = 1 << 20
"""Bytes of a part that stay in memory before they go to a file."""


class CapsuleLimits(Struct, frozen=True, kw_only=True):
    """How much a capsule may hold."""

    members: int = 100_000
    manifest: int = 32 << 20
    """Bytes, as those below."""
    signature: int = 64 << 10
    line: int = 256 << 20
    """Of one event."""
    total: int = 256 << 30
    """Of all members, unpacked."""
    ratio: int = 250
    """How many times larger a member may be than it is packed."""
    free: int = 1 << 20
    """A member up to this size may be packed as well as it goes."""


def part_name(digest: str) -> str:
    """The member that holds the part of a digest."""
    return f"parts/{digest}"


class ByteOutput(Protocol):
    """What a capsule is written to; it need not be able to seek."""

    def write(self, data: bytes, /) -> object:
        """Write all of it."""
        ...


class ArchiveMember(Struct, frozen=True, kw_only=True):
    """A file in the container."""

    name: str
    method: int
    crc: int
    packed: int
    """Bytes in the container."""
    size: int
    """Bytes unpacked."""
    offset: int
    """Of its header."""


class PartSpool:
    """A part on its way into a container: packed and hashed as it comes, in a nameless file.

    Args:
        directory: where the file is.
        deflates: False for what is packed already.
    """

    def __init__(self, directory: Path, *, deflates: bool = True, ratio: int = 250) -> None:
        self._file = tempfile.SpooledTemporaryFile(_SPOOLED, dir=str(directory))  # noqa: SIM115
        self._packer = zlib.compressobj(6, zlib.DEFLATED, -15) if deflates else None
        self._hash = hashlib.sha256()
        self._ratio = ratio
        self.crc = 0
        self.size = 0
        self.packed = 0

    def __enter__(self) -> "PartSpool":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def digest(self) -> str:
        """SHA-256 of what was written."""
        return self._hash.hexdigest()

    def write(self, data: bytes) -> None:
        """Take the next bytes."""
        self._hash.update(data)
        self.crc = zlib.crc32(data, self.crc)
        self.size += len(data)
        self._put(self._packer.compress(data) if self._packer is not None else data)

    def finish(self) -> None:
        """Nothing more comes."""
        if self._packer is not None:
            self._put(self._packer.flush())

    @property
    def method(self) -> int:
        """How it goes into the container: what packs too well would look like a bomb."""
        if self._packer is None or self.size > self.packed * (self._ratio // 2):
            return _STORED
        return _DEFLATED

    def pieces(self) -> Iterator[bytes]:
        """The bytes for the container."""
        self._file.seek(0)
        unpacker = zlib.decompressobj(-15) if self._packer and self.method == _STORED else None
        while data := self._file.read(_CHUNK if unpacker is None else 1_024):
            yield data if unpacker is None else unpacker.decompress(data)
        if unpacker is not None:
            yield unpacker.flush()

    def _put(self, data: bytes) -> None:
        self.packed += len(data)
        self._file.write(data)


class ArchiveWriter:
    """Writes a container from its first byte to its last."""

    def __init__(self, output: ByteOutput) -> None:
        self._output = output
        self._offset = 0
        self._members: list[ArchiveMember] = []

    @property
    def written(self) -> int:
        """Bytes so far."""
        return self._offset

    def add(self, name: str, spool: PartSpool) -> None:
        """Write a member; the spool is finished."""
        method = spool.method
        packed = spool.size if method == _STORED else spool.packed
        member = ArchiveMember(
            name=name,
            method=method,
            crc=spool.crc,
            packed=packed,
            size=spool.size,
            offset=self._offset,
        )
        self._members.append(member)
        self._put(_local_header(member))
        for data in spool.pieces():
            self._put(data)

    def finish(self) -> None:
        """Write the list."""
        begin, count = self._offset, len(self._members)
        for member in self._members:
            self._put(_central_header(member))
        size = self._offset - begin
        if count >= _FULL16 or begin >= _FULL or size >= _FULL:
            end64 = self._offset
            fields = (b"PK\6\6", _END64.size - 12, _MADE_BY, 45, 0, 0, count, count, size, begin)
            self._put(_END64.pack(*fields) + _LOCATOR.pack(b"PK\6\7", 0, end64, 1))
        few = min(count, _FULL16)
        self._put(_END.pack(b"PK\5\6", 0, 0, few, few, min(size, _FULL), min(begin, _FULL), 0))

    def _put(self, data: bytes) -> None:
        self._output.write(data)
        self._offset += len(data)


def _local_header(member: ArchiveMember) -> bytes:
    name = member.name.encode()
    # A local header has both sizes in the extra field or none.
    is_large = member.size >= _FULL or member.packed >= _FULL
    extra = struct.pack("<2H2Q", 1, 16, member.size, member.packed) if is_large else b""
    packed, size = (_FULL, _FULL) if is_large else (member.packed, member.size)
    need = 45 if extra else 20
    head = (b"PK\3\4", need, _UTF8, member.method, 0, _DATE, member.crc, packed, size)
    return _LOCAL.pack(*head, len(name), len(extra)) + name + extra


def _central_header(member: ArchiveMember) -> bytes:
    name = member.name.encode()
    is_large = member.size >= _FULL or member.packed >= _FULL
    sizes = (_FULL, _FULL) if is_large else (member.packed, member.size)
    values = [member.size, member.packed] if is_large else []
    values += [member.offset] if member.offset >= _FULL else []
    extra = struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values) if values else b""
    need = 45 if extra else 20
    head = (b"PK\1\2", _MADE_BY, need, _UTF8, member.method, 0, _DATE, member.crc, *sizes)
    tail = (len(name), len(extra), 0, 0, 0, _FILE, min(member.offset, _FULL))
    return _CENTRAL.pack(*head, *tail) + name + extra


class ArchiveReader:
    """Reads a container that may come from anyone.

    Raises:
        CapsuleRefusedError: it is not of the profile; see ``errors.RefusalReason``.
        OSError: the file cannot be read.
    """

    def __init__(self, file: IO[bytes], limits: CapsuleLimits) -> None:
        self._file = file
        self._limits = limits
        self._length = file.seek(0, 2)
        begin, size, count = self._find_list()
        self._check_list(begin, size, count)
        self.members: dict[str, ArchiveMember] = {}
        """By name, in their order."""
        for member in self._read_list(begin, size, count):
            if member.name in self.members:
                raise CapsuleRefusedError("duplicate name", f"{member.name!r} is there twice")
            self.members[member.name] = member
        self._check_places(begin)
        self._check_sizes()

    def read(self, name: str, most: int) -> bytes:
        """The whole of a small member."""
        member = self.members[name]
        if member.size > most:
            text = f"{name!r} has {member.size:,} bytes; {most:,} are allowed"
            raise CapsuleRefusedError("too large", text)
        return b"".join(self.stream(member))

    def stream(self, member: ArchiveMember) -> Iterator[bytes]:
        """A member's bytes, unpacked and checked, piece by piece."""
        name = member.name.encode()
        size = _LOCAL.size + len(name)
        large = member.size >= _FULL or member.packed >= _FULL
        self._file.seek(member.offset + size + (20 if large else 0))
        crc = total = 0
        unpacker = zlib.decompressobj(-15) if member.method == _DEFLATED else None
        for piece in _unpacked(self._packed(member), unpacker, member.name):
            total += len(piece)
            crc = zlib.crc32(piece, crc)
            if total > member.size:
                text = f"{member.name!r} unpacks to more than its {member.size:,} bytes"
                raise CapsuleRefusedError("compression bomb", text)
            yield piece
        is_whole = unpacker is None or (unpacker.eof and not unpacker.unused_data)
        if not is_whole or total != member.size or crc != member.crc:
            raise CapsuleRefusedError("changed", f"{member.name!r} is not what was written")

    def _packed(self, member: ArchiveMember) -> Iterator[bytes]:
        left = member.packed
        while left:
            data = self._file.read(min(_CHUNK, left))
            if not data:
                raise CapsuleRefusedError("truncated", f"{member.name!r} ends too early")
            left -= len(data)
            yield data

    def _at(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) != size:
            raise CapsuleRefusedError("truncated", "the file ends too early")
        return data

    def _find_list(self) -> tuple[int, int, int]:
        """Where the list begins, its bytes, its members."""
        if self._length < _END.size or self._at(0, 2) != b"PK":
            raise CapsuleRefusedError("not a capsule", "it is not a zip file, or it is empty")
        place = self._length - _END.size
        magic, disk, at_disk, here, count, size, begin, comment = _END.unpack(
            self._at(place, _END.size)
        )
        if magic != b"PK\5\6" or comment or disk or at_disk or here != count:
            text = "it does not end as a capsule does: the end is missing, or something follows it"
            raise CapsuleRefusedError("truncated", text)
        if count == _FULL16 or size == _FULL or begin == _FULL:
            place, count, size, begin = self._find_large_list(place)
        if begin + size != place:
            raise CapsuleRefusedError("truncated", "the list of members is not where it should be")
        return begin, size, count

    def _find_large_list(self, end: int) -> tuple[int, int, int, int]:
        if end < _LOCATOR.size + _END64.size:
            raise CapsuleRefusedError("truncated", "the list of members is missing")
        magic, _, place, _ = _LOCATOR.unpack(self._at(end - _LOCATOR.size, _LOCATOR.size))
        if magic != b"PK\6\7" or place != end - _LOCATOR.size - _END64.size:
            raise CapsuleRefusedError("truncated", "the list of members is missing")
        magic, _, _, _, _, _, here, count, size, begin = _END64.unpack(self._at(place, _END64.size))
        if magic != b"PK\6\6" or here != count:
            raise CapsuleRefusedError("truncated", "the list of members is missing")
        return place, count, size, begin

    def _check_list(self, begin: int, size: int, count: int) -> None:
        if count > self._limits.members:
            text = f"it has {count:,} members; {self._limits.members:,} are allowed"
            raise CapsuleRefusedError("too many members", text)
        if size > (count + 1) * 2_048:
            raise CapsuleRefusedError("unsafe name", "the list of members is far too long")

    def _read_list(self, begin: int, size: int, count: int) -> Iterator[ArchiveMember]:
        data = self._at(begin, size)
        place = 0
        for _ in range(count):
            if place + _CENTRAL.size > size or data[place : place + 4] != b"PK\1\2":
                raise CapsuleRefusedError("changed", "the list of members is damaged")
            member, place = _read_central(data, place)
            yield member
        if place != size:
            raise CapsuleRefusedError("changed", "the list of members is damaged")

    def _check_places(self, begin: int) -> None:
        """Members lie one after another, and each header says what the list says."""
        place = 0
        for member in self.members.values():
            header = _local_header(member)
            if member.offset != place or place + len(header) + member.packed > begin:
                text = f"{member.name!r} is not where its place in the list says"
                raise CapsuleRefusedError("reordered", text)
            if not _is_same_header(self._at(place, len(header)), header):
                text = f"the header of {member.name!r} is not what the list says"
                raise CapsuleRefusedError("changed", text)
            place += len(header) + member.packed
        if place != begin:
            raise CapsuleRefusedError("changed", "there is something between the members")

    def _check_sizes(self) -> None:
        total = 0
        for member in self.members.values():
            total += member.size
            is_free = member.size <= self._limits.free
            if not is_free and member.size > member.packed * self._limits.ratio:
                text = (
                    f"{member.name!r} would unpack from {member.packed:,} to {member.size:,} bytes"
                )
                raise CapsuleRefusedError("compression bomb", text)
        if total > self._limits.total:
            text = f"it unpacks to {total:,} bytes; {self._limits.total:,} are allowed (--most)"
            raise CapsuleRefusedError("too large", text)


def _unpacked(packed: Iterator[bytes], unpacker: Any, name: str) -> Iterator[bytes]:
    """Pieces of bounded size."""
    if unpacker is None:
        yield from packed
        return
    try:
        for data in packed:
            while data and not unpacker.eof:
                yield unpacker.decompress(data, _CHUNK)
                data = unpacker.unconsumed_tail
            if unpacker.eof and data:
                raise CapsuleRefusedError("changed", f"there is something behind {name!r}")
        yield unpacker.flush()  # the end of a copy, 258 bytes at the most
    except zlib.error as error:
        raise CapsuleRefusedError("changed", f"{name!r} cannot be unpacked: {error}") from error


def _is_same_header(found: bytes, expected: bytes) -> bool:
    """Times, flags for text and the version needed may differ: another program may have made it."""
    flags = int.from_bytes(found[6:8], "little")
    same = found[:4] == expected[:4] and found[8:10] == expected[8:10]
    return same and not flags & ~_UTF8 and found[14:] == expected[14:]


def _read_central(data: bytes, place: int) -> tuple[ArchiveMember, int]:
    fields = _CENTRAL.unpack_from(data, place)
    flags, method, crc, packed, size = fields[3], fields[4], fields[7], fields[8], fields[9]
    lengths, mode, offset = fields[10:13], fields[15] >> 16, fields[16]
    begin = place + _CENTRAL.size
    end = begin + sum(lengths)
    if end > len(data):
        raise CapsuleRefusedError("changed", "the list of members is damaged")
    name = _check_name(data[begin : begin + lengths[0]])
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise CapsuleRefusedError("symbolic link", f"{name!r} is not a plain file")
    if flags & ~_UTF8:
        raise CapsuleRefusedError("unknown compression", f"{name!r} is encrypted or has no sizes")
    if method not in (_STORED, _DEFLATED):
        text = f"{name!r} is packed by method {method}; only store and deflate are used"
        raise CapsuleRefusedError("unknown compression", text)
    extra = data[begin + lengths[0] : begin + lengths[0] + lengths[1]]
    size, packed, offset = _large_numbers(extra, name, size, packed, offset)
    if method == _STORED and size != packed:
        raise CapsuleRefusedError("changed", f"{name!r} has two sizes")
    member = ArchiveMember(
        name=name, method=method, crc=crc, packed=packed, size=size, offset=offset
    )
    return member, end


def _large_numbers(extra: bytes, name: str, *numbers: int) -> list[int]:
    """Size, packed size and offset, with those that stand in the extra field."""
    wanted = [place for place, number in enumerate(numbers) if number == _FULL]
    found = list(numbers)
    if not wanted:
        if extra:
            raise CapsuleRefusedError("changed", f"{name!r} has fields that no capsule has")
        return found
    if len(extra) != 4 + 8 * len(wanted) or extra[:2] != b"\1\0":
        raise CapsuleRefusedError("changed", f"the sizes of {name!r} cannot be read")
    for place, number in zip(wanted, struct.unpack(f"<{len(wanted)}Q", extra[4:]), strict=True):
        found[place] = number
    return found


def _check_name(raw: bytes) -> str:
    try:
        name = raw.decode()
    except UnicodeDecodeError:
        raise CapsuleRefusedError("unsafe name", f"{raw[:80]!r} is not text") from None
    if name in (MANIFEST, SIGNATURE) or _PART.fullmatch(name):
        return name
    shown = name[:80]
    problem = "no capsule has a member of this name"
    if "\0" in name or "\\" in name:
        problem = "it has a NUL or a backslash"
    elif name.startswith("/") or re.match(r"[A-Za-z]:", name):
        problem = "it is absolute"
    elif ".." in name.split("/"):
        problem = "it leads out of the directory"
    raise CapsuleRefusedError("unsafe name", f"{shown!r}: {problem}")
