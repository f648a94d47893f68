"""Runs another agent again on the model calls of a cassette."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from quarterdeck.wire.errors import QuarterdeckError

if TYPE_CHECKING:
    from quarterdeck.agent.replay.check import ReplayReport
    from quarterdeck.wire.record import Record

    from ..headless.outputs import HeadlessOutput, HeadlessResult

__all__ = ["is_cassette", "rerun_cassette"]


def is_cassette(path: Path) -> bool:
    """Whether a file begins as a cassette does; blocks."""
    if not path.is_file():
        return False
    from quarterdeck.fleet.cassette.file import is_cassette as begins_as_one

    return begins_as_one(path)


def rerun_cassette(
    path: Path,
    *,
    cwd: Path | None,
    variables: tuple[str, ...],
    mode: str | None,
    model: str | None,
) -> "ReplayReport":
    """Run the agent of a cassette with its recorded prompt, and compare.

    Raises:
        CassetteError: the cassette is refused, or the agent cannot be led to it.
    """
    from quarterdeck.fleet.cassette.file import Cassette
    from quarterdeck.policy.modes import parse_mode
    from quarterdeck.wire.session_options import SessionOptions

    from ..headless.job import HeadlessJob, run_job
    from ..session_flags import read_variables

    if mode is not None:
        parse_mode(mode)
    cassette = Cassette(path)
    cassette.close()
    if not cassette.prompts:
        raise QuarterdeckError(f"{str(path)!r} has no prompt: nothing was asked when it was made")
    head = cassette.head
    job = HeadlessJob(
        prompt=cassette.prompts[0].text,
        options=SessionOptions(
            agent=head.agent,
            cwd=str((cwd or Path.cwd()).resolve()),
            transport=cassette.end.transport,
            model=model or head.model,
            effort=head.effort,
            mode=mode,
            system_prompt=head.system_prompt,
            environment=read_variables(variables),
        ),
        cassette=path,
    )
    output = _SilentOutput()
    code = asyncio.run(run_job(job, output))
    if output.report is None:
        raise QuarterdeckError(f"the replay of {str(path)!r} ended early, with code {code}")
    return output.report


class _SilentOutput:
    """Keeps the report alone."""

    def __init__(self) -> None:
        self.answer = ""
        self.is_empty = False
        self.report: ReplayReport | None = None

    def record(self, record: "Record") -> None:
        """The transcript is compared, not shown."""

    def end(self, result: "HeadlessResult") -> None:
        """How it ended is part of the transcript."""

    def compare(self, report: "ReplayReport") -> None:
        """Keep it."""
        self.report = report


if TYPE_CHECKING:
    _output: HeadlessOutput = _SilentOutput()
