"""Why a capsule cannot be written, read or taken in.

::

    QuarterdeckError
    └── CapsuleError
        ├── CapsuleRefusedError  the file is not what a capsule may be; it has a reason
        ├── SignatureError       it cannot be signed, or its signature cannot be checked
        └── WorkTreeError        its work tree cannot be restored where it was wanted
"""

from typing import Literal, TypeAlias

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "CapsuleError",
    "CapsuleRefusedError",
    "RefusalReason",
    "SignatureError",
    "WorkTreeError",
]

RefusalReason: TypeAlias = Literal[
    "not a capsule",
    "truncated",
    "changed",
    "reordered",
    "missing part",
    "unlisted part",
    "newer version",
    "unsafe name",
    "symbolic link",
    "duplicate name",
    "compression bomb",
    "too large",
    "too many members",
    "unknown compression",
    "bad manifest",
    "bad events",
    "bad signature",
    "not signed",
    "unknown signer",
]
"""The name of what is wrong with a file."""


class CapsuleError(QuarterdeckError):
    """Base of what goes wrong with capsules."""


class CapsuleRefusedError(CapsuleError):
    """A file is refused as a whole; nothing of it was written."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(f"the capsule is refused ({reason}): {detail}")
        self.reason: RefusalReason = reason


class SignatureError(CapsuleError):
    """A capsule cannot be signed, or ssh-keygen cannot be run."""


class WorkTreeError(CapsuleError):
    """A work tree cannot be restored in a directory; nothing was written there."""
