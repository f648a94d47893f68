"""Our errors as answers: every failure a client sees has a code, words for people, and a kind."""

from typing import Any

from quarterdeck.agent.session_store import NoSuchSessionError
from quarterdeck.config.errors import ConfigError
from quarterdeck.journal.errors import JournalError, JournalLockedError
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.wire.acp.errors import AUTH_REQUIRED, RESOURCE_NOT_FOUND
from quarterdeck.wire.errors import LinkClosedError, QuarterdeckError, RpcError
from quarterdeck.wire.rpc.errors import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

__all__ = ["make_invalid_params", "make_refusal", "refusal_of"]

_REFUSALS: tuple[tuple[type[QuarterdeckError], int, str], ...] = (
    (NoSuchSessionError, RESOURCE_NOT_FOUND, "unknown_session"),
    (ModelSetupError, AUTH_REQUIRED, "no_model"),
    (JournalLockedError, INVALID_REQUEST, "session_in_use"),
    (LinkClosedError, INVALID_REQUEST, "session_closed"),
    (ConfigError, INTERNAL_ERROR, "bad_configuration"),
    (JournalError, INTERNAL_ERROR, "log_failed"),
)


def refusal_of(error: QuarterdeckError) -> RpcError:
    """The answer for an error; one that is an answer already stays as it is."""
    if isinstance(error, RpcError):
        return error
    for kind, code, name in _REFUSALS:
        if isinstance(error, kind):
            return make_refusal(code, str(error), name)
    return make_refusal(INTERNAL_ERROR, str(error), "failed")


def make_refusal(code: int, message: str, kind: str, **facts: Any) -> RpcError:
    """Make an answer; ``kind`` is for programs, the message for people."""
    return RpcError(code, message, {"kind": kind, **facts})


def make_invalid_params(message: str, kind: str = "invalid_params") -> RpcError:
    """Make the answer to parameters that cannot be used."""
    return make_refusal(INVALID_PARAMS, message, kind)
