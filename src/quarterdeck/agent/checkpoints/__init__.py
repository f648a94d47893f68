"""What turns did to files, and going back; where the former contents are stored.

``ports.TurnWatch`` is what the loop sees, ``service`` what the session sees. ``snapshot``
records a turn's files, ``git_snapshot`` work trees without touching the user's repository,
``file_state`` holds contents, ``restore`` puts them back, ``turn_history`` reads the log and
undoes, rewinds and redoes.
"""

from contextlib import suppress
from pathlib import Path

__all__ = ["TREES", "delete_checkpoints", "session_directory"]

TREES = "trees"
"""The directory of the stores of work trees, and in a session's the list of those it uses."""


def session_directory(state: Path, session: str) -> Path:
    """Where what a session's files were is kept."""
    return state / "checkpoints" / session


def delete_checkpoints(state: Path, session: str) -> None:
    """Delete all that is kept of a session's files, and stores that no session uses any more."""
    top = state / "checkpoints"
    if not session.startswith("ses_") or "/" in session or not top.is_dir():
        return
    import shutil  # costs milliseconds, and a session that begins has nothing to forget

    shutil.rmtree(top / session, ignore_errors=True)
    used: set[str] = set()
    for one in top.glob(f"ses_*/{TREES}"):
        with suppress(OSError):
            used.update(one.read_text().split())
    for store in (top / TREES).glob("*"):
        if store.name not in used:
            shutil.rmtree(store, ignore_errors=True)
