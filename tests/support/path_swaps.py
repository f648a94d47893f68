"""Two names that change places all the time, for tests of what is checked and then used."""

import ctypes
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["swapping"]

_HERE = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE


@contextmanager
def swapping(one: Path, other: Path) -> Generator[None, None, None]:
    """Exchange two names in one step each, as often as it goes. Skips where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    names = os.fsencode(one), os.fsencode(other)
    if rename is None or rename(_HERE, names[0], _HERE, names[1], _EXCHANGE) != 0:
        pytest.skip("this system cannot exchange two names in one step")
    is_over = threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            rename(_HERE, names[0], _HERE, names[1], _EXCHANGE)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
