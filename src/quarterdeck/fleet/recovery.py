"""What a host that was killed has left open, closed when the next one starts.

No agent that is gone is shown as live: its requests are cancelled, its calls and its turn ended,
its run is broken. Its queue is kept, and it can be resumed.
"""

from quarterdeck.agent.recovery import DIED, InterruptionReason, close_children, closing_events
from quarterdeck.journal import Journal
from quarterdeck.wire.events import SessionEnded
from quarterdeck.wire.ids import SessionId

from .agent_entry import AgentEntry
from .projections import load_started

__all__ = ["HOST_KILLED", "recover_agents"]

HOST_KILLED = InterruptionReason("the host was killed", DIED.running, DIED.waiting)


async def recover_agents(journal: Journal) -> list[SessionId]:
    """Write the end of every agent that the log shows as running; durable when this returns.

    Returns which they were. Killed on the way, the next start goes on with the rest.
    """
    left = await journal.query(load_started)
    last = 0
    for entry in left:
        last = await _close(journal, entry)
    if left:
        await journal.durable(last)
    return [entry.session for entry in left]


async def _close(journal: Journal, entry: AgentEntry) -> int:
    events = ()
    if entry.standing.is_live:
        run = journal.history(entry.run - 1, entry.session)
        records = [record async for record in run]
        await close_children(journal, records)
        events = closing_events(records, HOST_KILLED)
    if not events:
        events = ((None, SessionEnded(how="broken", reason=HOST_KILLED.reason)),)
    last = 0
    for turn, event in events:
        last = (await journal.append(entry.session, event, turn=turn)).seq
    return last
