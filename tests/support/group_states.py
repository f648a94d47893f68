"""The states of a screen in which requests of several agents are one group."""

from pathlib import Path

from msgspec.structs import replace

from quarterdeck.wire.permissions import ApprovalRule
from quarterdeck.workbench.panels.inbox import InboxList
from quarterdeck.workbench.widgets.agent_table import AgentTable

from .agent_states import calm, codex_asked, command_asked
from .staged_workbench import Stage, StagedFleet, state
from .workbench_app import until

__all__: list[str] = []


async def four_ask(fleet: StagedFleet, home: Path) -> None:
    """Three want the same, one of them a little otherwise, and a fourth something risky."""
    await fleet.agent_at_work("ann", "Fix the parser")
    for number, name in enumerate(("bob", "cleo", "dan", "eve"), 1):
        session = await fleet.agent_at_work(name, f"Task of {name}", agent="codex")
        asked = codex_asked(number)
        if name == "dan":
            asked = replace(asked, raw_input={"command": "timeout 60 pytest -q tests"})
        if name == "eve":
            asked = command_asked(number)
        await fleet.ask(session, replace(asked, content=()))


async def _look_elsewhere(stage: Stage) -> None:
    await calm(stage)
    stage.app.main.show_agent(next(iter(stage.fleet.infos)))
    await stage.until("❯ Fix the parser")
    await until(stage.pilot, lambda: len(stage.app.context.inbox.items) == 4)
    for table in stage.app.query(AgentTable):
        table.update()


@state(four_ask)
async def permission_for_a_group(stage: Stage) -> None:
    await _look_elsewhere(stage)
    bob = stage.app.context.inbox.items[0].request
    stage.app.requests.open(bob)
    await stage.until("bob wants to run a command", "2 of 4, 2 alike", "the same: cleo", "all 3:")


@state(four_ask)
async def inbox_with_a_group(stage: Stage) -> None:
    await _look_elsewhere(stage)
    stage.app.action_command("open", "inbox")
    await until(stage.pilot, lambda: stage.app.query(InboxList))
    inbox = stage.app.query_one(InboxList)
    await until(stage.pilot, lambda: len(inbox.rows(80)) == 2)
    stage.app.set_focus(inbox)
    inbox.place(stage.app.context.inbox.groups[1].first)
    inbox.action_fold(True)
    await stage.until("▾ 3 agents", "timeout 60")


async def one_is_approved(fleet: StagedFleet, home: Path) -> None:
    """A call that two people have to allow, and one has."""
    ann = await fleet.agent_at_work("ann", "Release it")
    rule = ApprovalRule(people=("ann", "bob"), needed=2, match="bash(git push:*)")
    asked = replace(codex_asked(), title="git push", raw_input={"command": "git push"})
    request = await fleet.ask(ann, replace(asked, content=(), approvals=(rule,)))
    fleet.open[request] = replace(fleet.open[request], approved=("ann",))


@state(one_is_approved)
async def permission_that_two_people_have_to_allow(stage: Stage) -> None:
    await stage.until("y allow once", "1 of 2: ann allowed")
