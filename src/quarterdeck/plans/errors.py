"""What can go wrong with plans."""

from collections.abc import Sequence

from msgspec import Struct

from quarterdeck.wire.errors import QuarterdeckError

__all__ = [
    "EngineMissingError",
    "InvalidPlanError",
    "NoSuchRunError",
    "PlanError",
    "PlanInputError",
    "PlanProblem",
    "RunExistsError",
    "RunnerEndedError",
    "RunningError",
    "UnreadablePlanError",
]


class PlanProblem(Struct, frozen=True, order=True):
    """One thing that is wrong with a plan."""

    path: str
    """The file."""
    line: int
    """Counted from 1."""
    key: str
    """The field with its dots; empty: the file as a whole."""
    message: str
    """What is wrong and what to do."""

    def __str__(self) -> str:
        """Say it in one line, in the form that editors understand."""
        field = f"{self.key}: " if self.key else ""
        return f"{self.path}:{self.line}: {field}{self.message}"


class PlanError(QuarterdeckError):
    """Something about a plan."""


class InvalidPlanError(PlanError):
    """A plan cannot run; one message names all its problems."""

    def __init__(self, problems: Sequence[PlanProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class UnreadablePlanError(PlanError):
    """The file of a plan cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class PlanInputError(PlanError):
    """An input of a plan is missing or not known."""


class EngineMissingError(PlanError):
    """The packages that run plans are not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"running plans needs the package {package!r}; install the extra `pool`, "
            "from a checkout: pip install -e '.[pool]'"
        )


class NoSuchRunError(PlanError):
    """No run has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no run {name!r}; `quarterdeck plan status` lists them")


class RunExistsError(PlanError):
    """A run of this name is there already."""

    def __init__(self, name: str, *, is_over: bool) -> None:
        more = "" if is_over else f", go on with `quarterdeck plan resume {name}`"
        super().__init__(f"there is a run {name!r} already; give another --name{more}")


class RunningError(PlanError):
    """Another process runs it."""

    def __init__(self, name: str, pid: int) -> None:
        super().__init__(
            f"{name!r} is running already (process {pid}); see `quarterdeck plan status {name}`"
        )


class RunnerEndedError(PlanError):
    """The process that runs a plan has to end; the run is as it was."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"the run {name!r} does not go on: {reason}; agents finish their turns; "
            f"continue with `quarterdeck plan resume {name}`"
        )
