"""What the client at the other end is and can do, as it said in ``initialize``."""

from dataclasses import dataclass
from typing import Any, cast

from quarterdeck.wire.acp.schema import ElicitationCapabilities, InitializeRequest

__all__ = ["Client", "client_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The client of one connection; what it did not offer is never asked of it."""

    name: str = "client"
    edits_files: bool = False
    """It reads and writes text files: both, because one alone would show two versions of a file."""
    has_terminals: bool = False
    has_forms: bool = False
    """A question can be put to the person as a form."""
    has_terminal_login: bool = False
    takes_notices: bool = False
    takes_compaction: bool = False
    takes_children: bool = False
    """It shows agents that a session starts as sessions below it."""
    knows_unstable: bool = False
    """It shows that it knows more than the stable protocol: an unstable capability, or
    ``_meta.quarterdeck.unstable``."""
    takes_terminal_meta: bool = False
    """It shows output that we send in ``_meta``, in terminals that it does not run itself."""


def client_of(request: InitializeRequest) -> Client:
    """Read what a client offers."""
    offered = request.client_capabilities
    session = offered.session
    elicitation = offered.elicitation or ElicitationCapabilities()
    ours: Any = (offered.meta or {}).get("quarterdeck")
    says_so = isinstance(ours, dict) and cast("dict[str, Any]", ours).get("unstable") is True
    return Client(
        name=request.client_info.name if request.client_info else "client",
        edits_files=offered.fs.read_text_file and offered.fs.write_text_file,
        has_terminals=offered.terminal,
        has_forms=elicitation.form is not None,
        has_terminal_login=offered.auth.terminal,
        takes_notices=session is not None and session.notices is not None,
        takes_compaction=session is not None and session.compaction is not None,
        takes_children=offered.subagents is not None,
        knows_unstable=says_so or offered.subagents is not None,
        takes_terminal_meta=(offered.meta or {}).get("terminal_output") is True,
    )
