"""Plans that an agent proposes: checked, drawn for a person, and run once that person approves."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from quarterdeck.config.places import Places

if TYPE_CHECKING:
    from quarterdeck.fleet.mcp.tool_context import PlanDraft

    from .plan import CheckedPlan

# The rest is imported where it is used: every host has one of these, and few run plans.

__all__ = ["PlanProposals", "load_runnable_plan", "resume_at_start"]

_log = logging.getLogger(__name__)


def load_runnable_plan(file: Path, places: Places) -> "CheckedPlan":
    """Read a plan and check all of it, its agents and what its ends need too. Blocks on files.

    Raises:
        UnreadablePlanError, InvalidPlanError: as ``load_plan``.
    """
    from quarterdeck.drivers.catalogue import load_catalogue
    from quarterdeck.fleet.landing.pull_request import check_pull_request

    from .plan import load_plan

    catalogue = load_catalogue(places)

    def find_agent(name: str) -> None:
        if name != "native":
            catalogue.find(name)

    return load_plan(file, find_agent, check_pull_request)


class _Proposal(Struct, frozen=True, kw_only=True):
    plan: "CheckedPlan"
    inputs: Mapping[str, str]


class PlanProposals:
    """Checks and starts plans for the tool ``propose_plan``; a ``PlanStarter``. Methods block.

    What was drawn is what runs: the plan is read once, and changes of its file do not count, since
    the agent that proposed it can write there.
    """

    def __init__(self, places: Places, environ: Mapping[str, str]) -> None:
        self._places = places
        self._environ = environ

    def draft(self, file: Path, inputs: Mapping[str, str]) -> "PlanDraft":
        """See ``PlanStarter``."""
        from quarterdeck.fleet.mcp.tool_context import PlanDraft

        from .engine import check_engine
        from .graph import draw_graph
        from .plan import expand_tasks
        from .runner import check_trust

        check_engine()
        plan = load_runnable_plan(file, self._places)
        check_trust(plan.directory, self._places)
        tasks = expand_tasks(plan, inputs)
        parts = ["\n".join(draw_graph(plan, tasks)), plan.text.strip()]
        parts += [
            f"# the prompt of {name}, from {task.prompt_file}\n{plan.prompts[name].strip()}"
            for name, task in plan.fields.tasks.items()
            if task.prompt_file is not None
        ]
        parts += [f"# input {name}\n{value}" for name, value in inputs.items()]
        return PlanDraft(
            name=plan.name,
            tasks=len(tasks),
            text="\n\n".join(parts),
            content=_Proposal(plan=plan, inputs=dict(inputs)),
        )

    def start(self, draft: "PlanDraft", request: str) -> str:
        """See ``PlanStarter``."""
        from .run import create_run
        from .runner import launch_runner

        proposal = draft.content
        assert isinstance(proposal, _Proposal)
        run = create_run(self._places, proposal.plan, proposal.inputs, None, approved_by=request)
        launch_runner(run, self._environ)
        return run.info.name


def resume_at_start(places: Places, environ: Mapping[str, str]) -> None:
    """Go on with runs whose process ended early, for a host that has just started. Blocks."""
    from .runner import resume_runs

    started, skipped = resume_runs(places, environ)
    for name in started:
        _log.info("the run %s goes on", name)
    for name, reason in skipped.items():
        _log.warning("the run %s does not go on: %s", name, reason)
