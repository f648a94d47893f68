"""Where the paths that a command names really lead, for the policy to judge."""

import asyncio
from dataclasses import replace

from quarterdeck.policy.call import Call
from quarterdeck.policy.parts import mentioned_paths
from quarterdeck.system.errors import NoSuchPath, OutsideRoots, PathFault
from quarterdeck.system.port import Files

__all__ = ["with_links"]

_MOST = 200
"""Paths beyond which a command is doubtful rather than looked at."""


async def with_links(call: Call, files: Files) -> Call:
    """Return the call with the real places of the paths in its command.

    A path inside the workspace that leads out of it counts as leading to ``/``: wherever that
    is, it is outside.
    """
    paths = await asyncio.to_thread(mentioned_paths, call)
    if len(paths) > _MOST:
        return replace(call, doubts=(*call.doubts, f"it names more than {_MOST} paths"))
    links: dict[str, str] = {}
    for path in paths:
        try:
            real = (await files.stat(path)).path
        except OutsideRoots:
            real = "/" if _is_below(path, call.roots) else path
        except (NoSuchPath, PathFault):
            continue
        if real != path:
            links[path] = real
    return replace(call, links=links) if links else call


def _is_below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
