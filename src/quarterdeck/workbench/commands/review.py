"""Commands for reviews, conflicts and merging."""

from typing import TYPE_CHECKING, get_args

from ..panels.review.actions import ReviewActionName
from ..panels.review.panel import ReviewPanel
from ..remote_control import RefusedCallError

if TYPE_CHECKING:
    from quarterdeck.fleet.api import AgentInfo

    from ..app import Workbench

__all__ = ["act_in_review", "land_agents", "merge_agent", "open_conflicts", "open_review"]


async def open_review(app: "Workbench", words: str) -> None:
    """Review what the agent in view changed, or AGENT; a file may follow its name.

    Raises QuarterdeckError.
    """
    name, _, file = words.strip().partition(" ")
    agent = name or (app.context.agent.session if app.context.agent is not None else None)
    if agent is None:
        raise RefusedCallError("no agents yet; press ctrl+t to start one")
    await app.screen_controller.call("open_review", {"agent": agent, "file": file.strip() or None})


async def open_conflicts(app: "Workbench", words: str) -> None:
    """Show conflicts between agents, of this repository or with ``all`` of every one.

    Raises QuarterdeckError.
    """
    options = {"everywhere": words.strip() == "all", "full": True}
    await app.screen_controller.call(
        "open_panel", {"widget": "conflicts", "options": options, "where": "tab"}
    )


def act_in_review(app: "Workbench", words: str) -> None:
    """Do something in the review that has the focus; keys can be bound to this.

    Raises QuarterdeckError.
    """
    name = words.strip().replace("-", "_")
    known: tuple[ReviewActionName, ...] = get_args(ReviewActionName)
    panel = app.main.view.panels.get(app.main.view.current or "")
    if name not in known:
        shown = ", ".join(one.replace("_", "-") for one in known)
        raise RefusedCallError(f"a review cannot {name!r}; choose from {shown}")
    if not isinstance(panel, ReviewPanel):
        raise RefusedCallError("no review has the focus; /review opens one")
    panel.action_act(name)


async def merge_agent(app: "Workbench", words: str) -> None:
    """Merge the work of the agent in view, or of AGENT; a dialog asks how.

    Raises QuarterdeckError.
    """
    from ..screens.landing import LandingScreen, result_spans

    context = app.context
    session = context.find_session(words.strip()) if words.strip() else context.focused
    agent = context.roster.find(session)
    if agent is None:
        raise RefusedCallError(f"no agent {words.strip()!r}" if words.strip() else "no agents yet")
    result = await app.push_screen_wait(LandingScreen(context.fleet, agent))
    if result is not None:
        app.show_message(" ".join(text for text, _ in result_spans(result)))
        app.feed.refresh()


async def land_agents(app: "Workbench", words: str) -> None:
    """Land agents one after the other; without names all that work here, fewest conflicts first.

    Raises QuarterdeckError.
    """
    from ..screens.landing_queue import LandingQueueScreen

    context = app.context
    names = words.split()
    if not names:
        report = await context.fleet.conflicts(context.cwd)
        orders = [repository.landing_order for repository in report.repositories]
        names = [proposal.session for order in orders for proposal in order]
    agents: list[AgentInfo] = []
    for name in names:
        agent = context.roster.find(context.find_session(name))
        if agent is None:
            raise RefusedCallError(f"no agent {name!r}")
        agents.append(agent)
    if not agents:
        raise RefusedCallError("no agent here has changes in a worktree; name the agents to land")
    await app.push_screen_wait(LandingQueueScreen(context.fleet, agents))
    app.feed.refresh()
