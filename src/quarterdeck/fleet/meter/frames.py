"""Where an answer begins and ends: HTTP/1 read from a copy of bytes that have passed already.

Nothing is changed and little is refused: what cannot be read is passed on all the same, so the
reader only has to know what it does not understand.
"""

import re

__all__ = ["AnswerFrames", "UnreadableAnswerError"]

_MOST_HEAD = 256 * 1024
_MOST_LINE = 4 * 1024
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: |$)")
_LENGTH = re.compile(rb"[0-9]{1,18}")
_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;|$)")
_SWITCHED = 101
_WITHOUT_BODY = (204, 304)


class UnreadableAnswerError(Exception):
    """The answer is not HTTP/1 as it is known here."""


class AnswerFrames:
    """Reads one answer. ``feed`` gives the pieces of its body, without their framing."""

    def __init__(self, method: bytes) -> None:
        self.status: int | None = None
        """Once the head has been read."""
        self.headers: dict[bytes, bytes] = {}
        """Of the answer, by names in small letters; several of one name are joined."""
        self.is_over = False
        """The answer has arrived whole."""
        self.is_kept = False
        """The connection can be used again."""
        self._method = method
        self._buffer = bytearray()
        self._step = self._read_head
        self._left = 0
        """Bytes of the body or of a chunk that are still to come."""

    def feed(self, piece: bytes) -> list[bytes]:
        """Take bytes that arrived. Raises UnreadableAnswerError."""
        if self.is_over:
            self.is_kept = False  # an answer to nothing
            return []
        self._buffer += piece
        found: list[bytes] = []
        while not self.is_over and self._step(found):
            pass
        if self.is_over and self._buffer:
            self.is_kept = False
        return found

    def end(self) -> list[bytes]:
        """The connection has ended; an answer without a length ends with it."""
        if self._step == self._read_rest:
            self.is_over = True
        return []

    # Each step reads what is whole in the buffer; False: it needs more.

    def _read_head(self, _: list[bytes]) -> bool:
        end = self._buffer.find(b"\n\r\n")
        bare = self._buffer.find(b"\n\n", 0, end + 1 if end >= 0 else len(self._buffer))
        size = 2 if bare >= 0 else 3
        end = bare if bare >= 0 else end
        if end < 0:
            if len(self._buffer) > _MOST_HEAD or not b"HTTP/1.".startswith(bytes(self._buffer[:7])):
                raise UnreadableAnswerError
            return False
        lines = [one.rstrip(b"\r") for one in bytes(self._buffer[:end]).split(b"\n")]
        del self._buffer[: end + size]
        self._take_head(lines)
        return True

    def _take_head(self, lines: list[bytes]) -> None:
        found = _STATUS.match(lines[0])
        if found is None:
            raise UnreadableAnswerError
        status = int(found[2])
        if status == _SWITCHED:
            raise UnreadableAnswerError
        if status < 200:
            return  # a notice; the answer follows
        self.status = status
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon or not name or name[:1] in b" \t":
                raise UnreadableAnswerError
            name, value = name.lower(), value.strip()
            before = self.headers.get(name)
            self.headers[name] = value if before is None else before + b", " + value
        persists = found[1] == b"1" and b"close" not in self.headers.get(b"connection", b"").lower()
        self._choose_body(persists)

    def _choose_body(self, persists: bool) -> None:
        coding = self.headers.get(b"transfer-encoding")
        length = self.headers.get(b"content-length")
        if self._method == b"HEAD" or self.status in _WITHOUT_BODY:
            self._finish(persists)
        elif coding is not None:
            if coding.lower() != b"chunked":
                raise UnreadableAnswerError
            self.is_kept = persists and length is None
            self._step = self._read_size
        elif length is not None:
            if _LENGTH.fullmatch(length) is None:
                raise UnreadableAnswerError
            self.is_kept, self._left = persists, int(length)
            self._step = self._read_length
            if not self._left:
                self._finish(persists)
        else:
            self._step = self._read_rest

    def _finish(self, persists: bool) -> None:
        self.is_over, self.is_kept = True, persists

    def _read_rest(self, found: list[bytes]) -> bool:
        if self._buffer:
            found.append(bytes(self._buffer))
            self._buffer.clear()
        return False

    def _take(self, found: list[bytes]) -> bool:
        """Take what is there of what is still to come; True: that was all."""
        piece = bytes(self._buffer[: self._left])
        if piece:
            del self._buffer[: len(piece)]
            self._left -= len(piece)
            found.append(piece)
        return not self._left

    def _read_length(self, found: list[bytes]) -> bool:
        if self._take(found):
            self._finish(self.is_kept)
        return False

    def _read_line(self) -> bytes | None:
        end = self._buffer.find(b"\n")
        if end > _MOST_LINE or (end < 0 and len(self._buffer) > _MOST_LINE):
            raise UnreadableAnswerError
        if end < 0:
            return None
        line = bytes(self._buffer[:end]).rstrip(b"\r")
        del self._buffer[: end + 1]
        return line

    def _read_size(self, _: list[bytes]) -> bool:
        line = self._read_line()
        if line is None:
            return False
        size = _SIZE.match(line)
        if size is None:
            raise UnreadableAnswerError
        self._left = int(size[1], 16)
        self._step = self._read_chunk if self._left else self._read_trailer
        return True

    def _read_chunk(self, found: list[bytes]) -> bool:
        if not self._take(found):
            return False
        self._step = self._read_chunk_end
        return True

    def _read_chunk_end(self, _: list[bytes]) -> bool:
        line = self._read_line()
        if line:
            raise UnreadableAnswerError
        self._step = self._read_size if line is not None else self._step
        return line is not None

    def _read_trailer(self, _: list[bytes]) -> bool:
        line = self._read_line()
        if line == b"":
            self._finish(self.is_kept)
        return bool(line)
