"""What goes wrong with a pool.

::

    PlanError
    └── PoolError               something about a pool
        ├── PoolAddressError        the address of the pool cannot be used
        ├── PoolUnreachableError    the database does not answer
        ├── PoolVersionError        the database is newer or older than this program, or is none
        ├── PoolUnsupportedError    a pool does not offer this
        ├── LeaseLostError          another worker has the task, or may have it by now
        └── TransportError          files of a run cannot be fetched or pushed
"""

from ..errors import PlanError

__all__ = [
    "LeaseLostError",
    "PoolAddressError",
    "PoolError",
    "PoolUnreachableError",
    "PoolUnsupportedError",
    "PoolVersionError",
    "TransportError",
]


class PoolError(PlanError):
    """Something about a pool."""


class PoolAddressError(PoolError):
    """The address of a pool is missing, no address, or has a password where others can see it."""


class PoolUnreachableError(PoolError):
    """The database of a pool does not answer; nothing was written, or it is not known whether."""


class PoolVersionError(PoolError):
    """The tables of a pool are of another version than this program, or are not there."""


class PoolUnsupportedError(PoolError):
    """A pool does not offer this; the machine of the agent does."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"a pool does not offer {method!r}; ask the worker's own host, on its machine"
        )


class LeaseLostError(PoolError):
    """A worker does not have a task any more: nothing that it writes about it counts."""

    def __init__(self, run: str, task: str, reason: str) -> None:
        super().__init__(f"the lease of {task!r} of the run {run} is lost: {reason}")


class TransportError(PoolError):
    """Files cannot be fetched from or pushed to the git remote of a run."""
