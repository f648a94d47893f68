"""``initialize``: what the client can do, and our answer with what we can do."""

from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from quarterdeck import __version__
from quarterdeck.wire.acp.connection import negotiate
from quarterdeck.wire.acp.extensions import STEERING_SUPPORTED
from quarterdeck.wire.acp.schema import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AuthMethod,
    ElicitationCapabilities,
    Empty,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    McpCapabilities,
    PromptCapabilities,
    SessionCapabilities,
)

__all__ = ["CHECK_MODEL", "SHOW_SETUP", "EditorClient", "make_initialize_response", "read_client"]


class EditorClient(Struct, frozen=True, kw_only=True):
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


def read_client(request: InitializeRequest) -> EditorClient:
    """Read what a client offers."""
    offered = request.client_capabilities
    session = offered.session
    elicitation = offered.elicitation or ElicitationCapabilities()
    ours: Any = (offered.meta or {}).get("quarterdeck")
    says_so = isinstance(ours, dict) and cast("dict[str, Any]", ours).get("unstable") is True
    return EditorClient(
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


CHECK_MODEL = "model-key"
"""The method that looks again whether a model can be used."""
SHOW_SETUP = "setup"
"""The method in a terminal that says which model would be used and how to get one."""
_YES = Empty()


def make_initialize_response(
    request: InitializeRequest, client: EditorClient
) -> InitializeResponse:
    """Answer; the version is one that we speak, whatever was asked for."""
    return InitializeResponse(
        protocol_version=negotiate(request.protocol_version),
        agent_info=Implementation(name="quarterdeck", title="Quarterdeck", version=__version__),
        auth_methods=_auth_methods(client),
        agent_capabilities=AgentCapabilities(
            load_session=True,
            mcp_capabilities=McpCapabilities(http=True),
            prompt_capabilities=PromptCapabilities(image=True, embedded_context=True),
            session_capabilities=_session_capabilities(client),
            auth=AgentAuthCapabilities(logout=_YES),
        ),
        meta=STEERING_SUPPORTED,
    )


def _session_capabilities(client: EditorClient) -> SessionCapabilities:
    """What sessions can do; what is not stable goes to ``_meta`` unless the client knows it."""
    stable = SessionCapabilities(
        list=_YES, delete=_YES, additional_directories=_YES, resume=_YES, close=_YES
    )
    if client.knows_unstable:
        return replace(stable, fork=_YES, title=_YES)
    return replace(stable, meta={"quarterdeck": {"fork": {}, "title": {}}})


def _auth_methods(client: EditorClient) -> tuple[AuthMethod, ...]:
    check = AuthMethod(
        id=CHECK_MODEL,
        name="Use the model key of the environment",
        description=(
            "Set a vendor's key, such as ANTHROPIC_API_KEY, in the environment of this agent, "
            "or start a local model server; then choose this to check it."
        ),
    )
    setup = AuthMethod(
        id=SHOW_SETUP,
        type="terminal",
        name="Show how to set up a model",
        description="Shows which model would be used, or what is missing.",
        args=("--setup",),
    )
    return (check, setup) if client.has_terminal_login else (check,)
