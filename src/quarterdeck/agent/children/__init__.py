"""Agents that an agent starts: their profiles, their sessions, and what makes them.

Imported when a session has profiles of its own or starts its first child.

All else of this room is imported when there is a profile to read or a child to start.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from quarterdeck.wire.events import NoticePosted

from ..library.folders import ProfileFolder

if TYPE_CHECKING:
    from ..environment import SessionEnvironment
    from ..session import Session
    from ..session_setup import SessionSetup
    from ..tools.toolbox import Toolbox
    from .children import Children

__all__ = ["introduce_profiles", "make_children_factory"]


async def introduce_profiles(
    shelves: tuple[ProfileFolder, ...], toolbox: "Toolbox"
) -> tuple[str, tuple[NoticePosted, ...]]:
    """The text for the model on profiles that are not built in, and notices for people.

    A profile that cannot be used is left out, with a notice. One that names a tool which
    does not exist works without that tool, with a notice, too.
    """
    if "spawn_agent" not in toolbox.names or not await asyncio.to_thread(_is_any, shelves):
        return "", ()
    from .child import missing_tools
    from .profile import read_profiles

    library = await read_profiles(shelves)
    problems = list(library.problems)
    for profile in library.own():
        problems += (
            f"profile {profile.source!r} names the tool {name!r}, which does not exist; it runs "
            "without it"
            for name in missing_tools(profile, toolbox)
        )
    notices = tuple(NoticePosted(title=problem, severity="warning") for problem in problems)
    lines = [f"- `{one.name}`: {' '.join(one.description.split())}" for one in library.own()]
    if not lines:
        return "", notices
    return "\n".join(("# Profiles for `spawn_agent`", *lines)), notices


def make_children_factory(
    session: "Session",
    setup: "SessionSetup",
    session_environment: "SessionEnvironment",
    shelves: tuple[ProfileFolder, ...],
) -> Callable[[], "Children"]:
    """Give what makes the children of a session when they are first needed."""

    def children() -> "Children":
        from .children import Children, ChildrenContext
        from .profile import read_profiles

        family = ChildrenContext(
            settings=session_environment.settings.children,
            read_profiles=partial(read_profiles, shelves),
            prompt=session_environment.system_prompt,
        )
        return Children(session, setup, family)

    return children


def _is_any(shelves: tuple[ProfileFolder, ...]) -> bool:
    return any(shelf.path.is_dir() for shelf in shelves)
