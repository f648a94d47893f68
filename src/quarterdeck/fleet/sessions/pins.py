"""Sessions that are kept whatever the policy says: an empty file for each, named by its id."""

import os
from pathlib import Path

from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.private_files import make_private_directory, open_private

from ..names import looks_like_id

__all__ = ["load_pins", "pin_session", "unpin_session"]


def load_pins(state: Path) -> frozenset[SessionId]:
    """The sessions that are pinned. Blocks."""
    try:
        names = os.listdir(_folder(state))  # noqa: PTH208
    except OSError:
        return frozenset()
    return frozenset(SessionId(name) for name in names if looks_like_id(name))


def pin_session(state: Path, session: SessionId) -> bool:
    """Keep a session; False if it was pinned already. Blocks. Raises OSError."""
    make_private_directory(_folder(state))
    try:
        os.close(open_private(_folder(state) / session, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def unpin_session(state: Path, session: SessionId) -> bool:
    """Keep a session no longer; False if it was not pinned. Blocks. Raises OSError."""
    try:
        (_folder(state) / session).unlink()
    except FileNotFoundError:
        return False
    return True


def _folder(state: Path) -> Path:
    return state / "pinned"
