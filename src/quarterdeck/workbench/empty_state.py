"""What stands where there is nothing yet: what happened, what is there, and what to do."""

from typing import TYPE_CHECKING

from .rendering.lines import Line, Span, indented, plain, wrap
from .sanitize import sanitize_line, sanitize_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quarterdeck.fleet.permissions.workspace_trust import WorkspaceTrust

    from .feed import HostState
    from .stores.discovery import DiscoveredAgent, DiscoveryStore, MachineDiscovery

__all__ = ["DEMO_KEY", "empty_lines", "unknown_agent_lines"]

DEMO_KEY = "f12"
_LABEL = 9
_LOGINS = {"yes": "", "no": ", not logged in", "unknown": ", login unknown"}
_OFFERED = 2
"""Agents that are not here and whose way to get them is shown."""
_NAMED_KEYS = 3


def empty_lines(
    state: "HostState", reason: str, cwd: str, width: int, ground: "DiscoveryStore | None" = None
) -> list[Line]:
    """The lines of an empty transcript; the more important, the higher."""
    lines: list[Line] = [plain("Quarterdeck", "heading"), ()]
    match state:
        case "connecting":
            lines.append(plain("Looking for the host that keeps your agents …", "faint"))
        case "connected":
            return [*lines, *_welcome(cwd, width, ground)]
        case "lost":
            lines += [
                plain("The host went away. Its agents are ended and can be resumed.", "bad"),
                plain("It is waited for; /host starts one now.", "text"),
            ]
        case "failed":
            lines += [
                plain("The host that keeps agents cannot be used:", "bad"),
                *(plain(line, "text") for line in sanitize_text(reason).split("\n")),
                (),
                (("/host", "key"), ("  try again", "text")),
                (("/doctor", "key"), ("  what is there and what is missing", "text")),
                (("ctrl+q", "key"), ("  leave; what you typed is kept", "text")),
            ]
    if reason and state != "failed":
        lines += [(), *(plain(line, "faint") for line in sanitize_text(reason).split("\n"))]
    return [part for line in lines for part in (wrap(line, width) if line else [()])]


def unknown_agent_lines(agent: str, width: int) -> list[Line]:
    """The lines of a chat whose agent is not there."""
    return [
        *wrap(plain(f"There is no agent {sanitize_text(agent)!r} now."), width),
        *wrap(plain("It is shown here when there is one; /spawn starts it.", "faint"), width),
    ]


def _welcome(cwd: str, width: int, ground: "DiscoveryStore | None") -> "Iterator[Line]":
    yield from wrap(plain("No agent is at work yet."), width)
    yield from wrap(
        plain("Type what shall be done and press enter: you can then choose who does it."), width
    )
    yield ()
    demo = "see a demo: two agents mend a project; no key needed, a minute"
    keys = (("ctrl+t", "start an agent"), (DEMO_KEY, demo), ("f1", "every key and command"))
    for key, words in keys:
        yield from _row(key, "key", [(words, "text")], 8, width)
    yield ()
    if ground is not None and ground.found is not None:
        yield from _agents(ground.found, width)
        yield from _key_lines(ground.found, width)
    trust = ground.trust if ground is not None else None
    yield from _row(
        "Project", "faint", [(sanitize_text(cwd), "text"), *_trust(trust)], _LABEL, width
    )


def _agents(found: "MachineDiscovery", width: int) -> "Iterator[Line]":
    here = [agent for agent in found.agents if agent.is_here]
    spans: list[Span] = [("✓ our own", "good")]
    for agent in here:
        words = f"✓ {sanitize_line(agent.name, 30)}{_LOGINS[agent.login]}"
        spans += [(" · ", "faint"), (words, "warning" if agent.login == "no" else "good")]
    yield from _row("Agents", "faint", spans, _LABEL, width)
    missing = [agent for agent in found.agents if not agent.is_here]
    offered = missing[:_OFFERED] if len(here) < _OFFERED else []
    for agent in offered:
        yield from _row("", "faint", _offer(agent), _LABEL, width)
    if len(missing) > len(offered):
        words = f"{len(missing) - len(offered)} more are known: /doctor tells how to get each"
        yield from _row("", "faint", [(words, "faint")], _LABEL, width)


def _offer(agent: "DiscoveredAgent") -> list[Span]:
    get = sanitize_line(agent.install, 200)
    return [(f"✗ {sanitize_line(agent.title, 40)} is not here: ", "text"), (get, "code")]


def _key_lines(found: "MachineDiscovery", width: int) -> "Iterator[Line]":
    if found.keys:
        spans: list[Span] = [
            (f"✓ {' · '.join(found.keys)}", "good"),
            (" for our own agent", "text"),
        ]
    else:
        names = " or ".join(found.key_names[:_NAMED_KEYS]) or "the variable of a vendor"
        words = f"✗ none is set. Our own agent needs one: export {names}, or a local model server"
        spans = [(words, "text")]
    yield from _row("Keys", "faint", spans, _LABEL, width)


def _trust(trust: "WorkspaceTrust | None") -> list[Span]:
    if trust is None or trust.state == "plain":
        return []
    if trust.state == "trusted":
        return [(" · trusted; /untrust takes that back", "faint")]
    files = ", ".join(sanitize_line(act.path, 60) for act in trust.acts)
    return [(" · not trusted", "warning"), (f", without effect: {files}; /trust asks", "text")]


def _row(label: str, role: str, spans: list[Span], wide: int, width: int) -> "Iterator[Line]":
    inner = wrap(spans, max(10, width - wide))
    return indented(inner, (f"{label:<{wide}}", role), (" " * wide, "text"))
