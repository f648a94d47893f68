"""What an agent asks leave for, as policy sees it, and what it is told."""

import asyncio
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as copied

from quarterdeck.policy.call import Call, PathUse
from quarterdeck.policy.foreign import Surroundings, bare_name, call_from_tool
from quarterdeck.policy.gate import Gate, Permitted, Refused
from quarterdeck.policy.grants import applicable
from quarterdeck.policy.lookup import look_up
from quarterdeck.policy.options import choice_of
from quarterdeck.policy.paths import fixed_part, is_below
from quarterdeck.policy.rules import PathPattern
from quarterdeck.system.local_disk import LocalDisk
from quarterdeck.wire.events import PermissionAsked
from quarterdeck.wire.permissions import PermissionOption
from quarterdeck.wire.toolcalls import Diff

from .link import Verdict

__all__ = ["call_of", "own_options", "verdict_of"]

_LISTERS = frozenset(("ls", "list", "list_directory", "list_files", "listdir"))
"""Tools that show names and no content."""


async def call_of(question: PermissionAsked, around: Surroundings, gate: Gate) -> Call:
    """The call that an agent asks about, with the real places of all that it names."""
    return await asyncio.to_thread(_call, question, around, gate)


def _call(question: PermissionAsked, around: Surroundings, gate: Gate) -> Call:
    named = [location.path for location in question.locations]
    named += [item.path for item in question.content if isinstance(item, Diff)]
    call = call_from_tool(
        question.name,
        question.kind,
        question.raw_input,
        tuple(dict.fromkeys(named)),
        title=question.title,
        around=around,
    )
    return _held_against(_looked_at(call), gate)


def _looked_at(call: Call) -> Call:
    """The same with what our disk says about it; policy itself touches none.

    The agent's own ``PATH`` may differ from ours; ours is the best guess.
    """
    call = replace(call, paths=tuple(_real(use) for use in call.paths))
    return look_up(call, LocalDisk())


def _real(use: PathUse) -> PathUse:
    return copied(use, resolved=os.path.realpath(use.path))


def _held_against(call: Call, gate: Gate) -> Call:
    """Doubt a search below which a rule denies something: nobody but the agent does the looking."""
    within = [use for use in call.paths if _looks_below(call, use)]
    if not within:
        return call
    given = applicable(
        gate.grants.all, project=call.project, session=call.session, agent=call.agent
    )
    for rule in (*gate.rules, *given):
        pattern = rule.pattern
        if rule.effect == "allow" or not isinstance(pattern, PathPattern) or not pattern.glob:
            continue
        if pattern.access != "read":
            continue
        if any(_may_lie_below(pattern.glob, use.resolved, call) for use in within):
            doubt = f"it looks below a directory in which a rule guards {pattern.glob!r}"
            return replace(call, doubts=(*call.doubts, doubt))
    return call


def _looks_below(call: Call, use: PathUse) -> bool:
    if call.kind == "search":
        return True
    is_read = call.kind == "read" and bare_name(call.tool) not in _LISTERS
    return is_read and Path(use.resolved).is_dir()


def _may_lie_below(glob: str, directory: str, call: Call) -> bool:
    if "/" not in glob.rstrip("/"):  # a name, at any depth
        return True
    fixed = fixed_part(glob, root=call.project_root, home=call.home)
    return is_below(fixed, (directory,)) or is_below(directory, (fixed,))


def own_options(theirs: Iterable[PermissionOption], agent: str) -> tuple[PermissionOption, ...]:
    """The agent's options as a person may see them.

    What an option means to us stands in its ``_meta``; an agent has no say in that. One that the
    agent itself would remember is called so.
    """
    return tuple(_plain(option, agent) for option in theirs)


def _plain(option: PermissionOption, agent: str) -> PermissionOption:
    name = option.name
    if option.kind.endswith("_always"):
        name = f"{name} (kept by {agent} itself)"
    return PermissionOption(option_id=option.option_id, name=name, kind=option.kind)


def verdict_of(decided: Permitted | Refused, theirs: Sequence[PermissionOption]) -> Verdict:
    """What to tell the agent, in its own options where it offered any.

    An option that the agent would remember is selected only if a person chose that very one.
    """
    if isinstance(decided, Permitted):
        option = _option(theirs, decided.option, "allow")
        return Verdict(allowed=option is not None or not theirs, option=option)
    if decided.cancelled:
        return Verdict(allowed=False, cancelled=True, told=decided.told)
    option = _option(theirs, decided.option, "reject")
    return Verdict(allowed=False, option=option, told=decided.told)


def _option(theirs: Sequence[PermissionOption], chosen: str | None, word: str) -> str | None:
    """The agent's own option that says what was decided: the chosen one, else for this once."""
    effect = "allow" if word == "allow" else "deny"
    known = [option.option_id for option in theirs]
    if chosen in known and choice_of(theirs, chosen).effect == effect:
        return chosen
    return next((one.option_id for one in theirs if one.kind == f"{word}_once"), None)
