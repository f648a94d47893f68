"""The engine that carries a run from step to step, whatever happens to its process."""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .errors import EngineMissingError

if TYPE_CHECKING:
    from .conduct import PlanConduct

__all__ = ["PlanEngine", "check_engine", "open_engine"]


class PlanEngine(Protocol):
    """A durable engine: what it has noted as done is not done again.

    A process may be killed at any moment. The next ``execute`` goes on where the last one was; a
    step that was under way is called again, and finds what it did by itself.
    """

    async def execute(self, conduct: "PlanConduct") -> None:
        """Start a run, or go on with it; returns when every task has ended.

        What the engine itself raises ends the process; the run can go on afterwards.
        """
        ...


def open_engine(directory: Path) -> PlanEngine:
    """The engine of a run, whose state is in the directory of the run. Blocks for a second.

    Raises:
        EngineMissingError: the extra is not installed.
    """
    try:
        from .dbos_engine import DbosEngine  # late: importing it takes a second
    except ModuleNotFoundError as error:
        raise EngineMissingError(error.name or "dbos") from error
    return DbosEngine(directory / "engine.db")


def check_engine() -> None:
    """See whether the extra is installed, without importing it.

    Raises:
        EngineMissingError: it is not.
    """
    from importlib.util import find_spec

    try:
        is_there = find_spec("dbos") is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise EngineMissingError("dbos")
