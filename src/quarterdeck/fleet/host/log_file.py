"""What the host tells about itself: a file that turns over, written in a thread, no secrets."""

import logging
import logging.handlers
import os
import queue
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from quarterdeck.config.places import make_private
from quarterdeck.wire.redaction import mask_secrets

__all__ = ["FILES", "FILE_BYTES", "log_to_file"]

FILE_BYTES = 1_000_000
FILES = 3
"""Old files that are kept."""
_MOST_WAITING = 10_000


class _Masked(logging.Formatter):
    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._environment = environment

    def format(self, record: logging.LogRecord) -> str:
        return mask_secrets(super().format(record), self._environment)


class _Queue(logging.handlers.QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        # A disk that hangs must not hang the host; what does not fit is lost.
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            return


class _PrivateFile(logging.handlers.RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        file = open(self.baseFilename, "ab", opener=opener)  # noqa: SIM115 - the handler closes it
        return TextIOWrapper(file, self.encoding, self.errors, line_buffering=True)


@contextmanager
def log_to_file(path: Path, environment: Mapping[str, str]) -> Generator[None]:
    """Write all logs of this process to ``path``. Blocks on files: enter it outside of a loop."""
    make_private(path.parent)
    file = _PrivateFile(
        path, maxBytes=FILE_BYTES, backupCount=FILES, encoding="utf-8", errors="backslashreplace"
    )
    file.setFormatter(_Masked(environment))
    waiting: queue.Queue[logging.LogRecord] = queue.Queue(_MOST_WAITING)
    handler = _Queue(waiting)
    listener = logging.handlers.QueueListener(waiting, file)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    listener.start()
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        listener.stop()
        file.close()
