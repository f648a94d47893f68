"""What stands where there is nothing yet: what happened, and what to do."""

from typing import TYPE_CHECKING

from .literal import literal
from .rendering.lines import Line, plain, wrap

if TYPE_CHECKING:
    from .feed import HostState

__all__ = ["empty_lines"]


def empty_lines(state: "HostState", reason: str, cwd: str, width: int) -> list[Line]:
    """The lines of an empty transcript."""
    lines: list[Line] = [plain("Quarterdeck", "heading"), ()]
    match state:
        case "connecting":
            lines.append(plain("Looking for the host that keeps your agents …", "faint"))
        case "connected":
            lines += [
                plain("No agent is at work yet."),
                (),
                plain("Type what shall be done and press enter: you can then choose who does it."),
                (("ctrl+t", "key"), ("  start an agent", "text")),
                (("f1    ", "key"), ("  every key and command", "text")),
                (),
                plain(f"New agents work in {literal(cwd)}", "faint"),
            ]
        case "lost":
            lines += [
                plain("The host went away. Its agents are ended and can be resumed.", "bad"),
                plain("It is waited for; /host starts one now.", "text"),
            ]
        case "failed":
            lines += [
                plain("The host cannot be used:", "bad"),
                plain("/host tries again; `quarterdeck doctor` tells more.", "text"),
            ]
    if reason:
        lines += [(), *(plain(line, "faint") for line in literal(reason).split("\n"))]
    return [part for line in lines for part in (wrap(line, width) if line else [()])]
