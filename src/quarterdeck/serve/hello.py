"""The answer to ``initialize``: who we are, what we can do, how to get a model."""

from msgspec.structs import replace

from quarterdeck import __version__
from quarterdeck.wire.acp.codec import negotiate
from quarterdeck.wire.acp.schema import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AuthMethod,
    Empty,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    McpCapabilities,
    PromptCapabilities,
    SessionCapabilities,
)

from .client import Client

__all__ = ["CHECK_MODEL", "SHOW_SETUP", "hello"]

CHECK_MODEL = "model-key"
"""The method that looks again whether a model can be used."""
SHOW_SETUP = "setup"
"""The method in a terminal that says which model would be used and how to get one."""
_YES = Empty()


def hello(request: InitializeRequest, client: Client) -> InitializeResponse:
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
    )


def _session_capabilities(client: Client) -> SessionCapabilities:
    """What sessions can do; what is not stable goes to ``_meta`` unless the client knows it."""
    stable = SessionCapabilities(
        list=_YES, delete=_YES, additional_directories=_YES, resume=_YES, close=_YES
    )
    if client.knows_unstable:
        return replace(stable, fork=_YES, title=_YES)
    return replace(stable, meta={"quarterdeck": {"fork": {}, "title": {}}})


def _auth_methods(client: Client) -> tuple[AuthMethod, ...]:
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
        description="Says which model would be used, or what is missing.",
        args=("--setup",),
    )
    return (check, setup) if client.has_terminal_login else (check,)
