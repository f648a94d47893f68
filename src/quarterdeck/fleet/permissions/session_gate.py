"""The gate of a session and what surrounds it, from the configuration of its directory."""

from collections.abc import Callable, Iterable, Mapping

from quarterdeck.agent.environment import (
    approvers_of,
    prepare_environment,
    rules_of,
    session_rules,
)
from quarterdeck.config.places import Places
from quarterdeck.policy.foreign_calls import CallContext
from quarterdeck.policy.gate import Gate
from quarterdeck.policy.grants import GrantStore
from quarterdeck.policy.modes import Mode
from quarterdeck.wire.ids import SessionId
from quarterdeck.wire.session_options import SessionOptions

__all__ = ["make_gate", "open_grants"]


async def make_gate(
    places: Places,
    environment: Mapping[str, str],
    cwd: str,
    *,
    mode: Mode | None,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    roots: tuple[str, ...] = (),
    session: SessionId | None = None,
    agent: str | None = None,
    attended: bool = True,
    grants: GrantStore | None = None,
    find_leads: Callable[[], tuple[str, ...]] | None = None,
) -> tuple[Gate, CallContext]:
    """Make the gate of a session that works in ``cwd``, and say what surrounds its calls.

    ``mode``: None for the configuration's. ``allow`` and ``deny`` are rules for this session, as
    people write them, besides those of the configuration. ``grants``: the book to look in and to
    write to; None: the user's own, read now. ``find_leads``: which live sessions lead this one.

    Raises:
        RuleError: a rule cannot be read.
        ConfigError: a settings file is wrong; the message names file and key.
        GrantsError: the file of grants cannot be read.
    """
    rules = session_rules(SessionOptions(allow=tuple(allow), deny=tuple(deny)))
    session_environment = await prepare_environment(places, environment, cwd, roots)
    gate = Gate(
        mode=mode or session_environment.settings.mode,
        rules=(*rules_of(session_environment.config), *rules),
        grants=grants if grants is not None else await open_grants(places),
        trusted=session_environment.trusted,
        attended=attended,
        patience=session_environment.settings.permissions.patience,
        find_leads=find_leads,
        approvers=approvers_of(session_environment.config),
    )
    around = CallContext(
        cwd=cwd,
        roots=(cwd, *roots),
        home=environment.get("HOME", ""),
        project=session_environment.project,
        session=session,
        agent=agent,
        on_unheld=session_environment.settings.permissions.unheld,
        on_violation=session_environment.settings.permissions.on_violation,
    )
    return gate, around


async def open_grants(places: Places) -> GrantStore:
    """The user's lasting grants, read now. Raises GrantsError."""
    grants = GrantStore(places.state / "grants.json")
    await grants.load()
    return grants
