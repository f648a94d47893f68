"""Small files of the workbench: replaced as a whole, for the owner alone."""

import os
import tempfile
from pathlib import Path

__all__ = ["write_private"]


def write_private(path: Path, text: str) -> None:
    """Replace a file; a crash leaves the old one or the new one. Blocks.

    Raises:
        OSError: it cannot be written; the old one stays.
    """
    target = path.resolve()  # a link of the person's own stays one
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
