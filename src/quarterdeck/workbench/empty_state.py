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
    state: "HostState", reason: str, cwd: str, width: int, discovery: "DiscoveryStore | None" = None
) -> list[Line]:
    """The lines of an empty transcript; the more important, the higher."""
    lines: list[Line] = [plain("Quarterdeck", "heading"), ()]
    match state:
        case "connecting":
            lines.append(plain("Connecting to the host that runs your agents …", "faint"))
        case "connected":
            return [*lines, *_welcome(cwd, width, discovery)]
        case "lost":
            lines += [
                plain("The host stopped, and its agents with it. You can resume them.", "bad"),
                plain("Waiting for it to return; /host starts a new one now.", "text"),
            ]
        case "failed":
            lines += [
                plain("Cannot use the host that runs the agents:", "bad"),
                *(plain(line, "text") for line in sanitize_text(reason).split("\n")),
                (),
                (("/host", "key"), ("  retry", "text")),
                (("/doctor", "key"), ("  see what is installed and what is missing", "text")),
                (("ctrl+q", "key"), ("  quit; your draft is saved", "text")),
            ]
    if reason and state != "failed":
        lines += [(), *(plain(line, "faint") for line in sanitize_text(reason).split("\n"))]
    return [part for line in lines for part in (wrap(line, width) if line else [()])]


def unknown_agent_lines(agent: str, width: int) -> list[Line]:
    """The lines of a chat whose agent is not there."""
    return [
        *wrap(plain(f"No agent named {sanitize_text(agent)!r}."), width),
        *wrap(plain("It appears here when it starts; start it with /spawn.", "faint"), width),
    ]


def _welcome(cwd: str, width: int, discovery: "DiscoveryStore | None") -> "Iterator[Line]":
    yield from wrap(plain("No agents yet."), width)
    yield from wrap(plain("Type a task and press enter, then choose an agent for it."), width)
    yield ()
    demo = "run the demo: two agents fix a project in a minute; no API key"
    keys = (("ctrl+t", "start an agent"), (DEMO_KEY, demo), ("f1", "list all keys and commands"))
    for key, words in keys:
        yield from _row(key, "key", [(words, "text")], 8, width)
    yield ()
    if discovery is not None and discovery.found is not None:
        yield from _agents(discovery.found, width)
        yield from _key_lines(discovery.found, width)
    trust = discovery.trust if discovery is not None else None
    yield from _row(
        "Project", "faint", [(sanitize_text(cwd), "text"), *_trust(trust)], _LABEL, width
    )


def _agents(found: "MachineDiscovery", width: int) -> "Iterator[Line]":
    here = [agent for agent in found.agents if agent.is_here]
    spans: list[Span] = [("✓ built-in", "good")]
    for agent in here:
        words = f"✓ {sanitize_line(agent.name, 30)}{_LOGINS[agent.login]}"
        spans += [(" · ", "faint"), (words, "warning" if agent.login == "no" else "good")]
    yield from _row("Agents", "faint", spans, _LABEL, width)
    missing = [agent for agent in found.agents if not agent.is_here]
    offered = missing[:_OFFERED] if len(here) < _OFFERED else []
    for agent in offered:
        yield from _row("", "faint", _offer(agent), _LABEL, width)
    if len(missing) > len(offered):
        words = f"{len(missing) - len(offered)} more supported; /doctor shows how to install them"
        yield from _row("", "faint", [(words, "faint")], _LABEL, width)


def _offer(agent: "DiscoveredAgent") -> list[Span]:
    get = sanitize_line(agent.install, 200)
    return [(f"✗ {sanitize_line(agent.title, 40)} not installed: ", "text"), (get, "code")]


def _key_lines(found: "MachineDiscovery", width: int) -> "Iterator[Line]":
    if found.keys:
        spans: list[Span] = [
            (f"✓ {' · '.join(found.keys)}", "good"),
            (" for the built-in agent", "text"),
        ]
    else:
        names = " or ".join(found.key_names[:_NAMED_KEYS]) or "a vendor's variable"
        words = f"✗ none set. The built-in agent needs one: export {names}, or run a local model"
        spans = [(words, "text")]
    yield from _row("Keys", "faint", spans, _LABEL, width)


def _trust(trust: "WorkspaceTrust | None") -> list[Span]:
    if trust is None or trust.state == "plain":
        return []
    if trust.state == "trusted":
        return [(" · trusted; /untrust revokes it", "faint")]
    files = ", ".join(sanitize_line(act.path, 60) for act in trust.acts)
    return [(" · not trusted", "warning"), (f", ignoring {files}; review with /trust", "text")]


def _row(label: str, role: str, spans: list[Span], wide: int, width: int) -> "Iterator[Line]":
    inner = wrap(spans, max(10, width - wide))
    return indented(inner, (f"{label:<{wide}}", role), (" " * wide, "text"))
