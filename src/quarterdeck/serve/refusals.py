"""Our errors as answers: every failure a client sees has a code, words for people, and a kind."""

from typing import Any

from quarterdeck.agent.store import NoSuchSession
from quarterdeck.config.errors import ConfigError
from quarterdeck.journal.errors import JournalError, Locked
from quarterdeck.models.errors import ModelSetupError
from quarterdeck.wire.acp.errors import AUTH_REQUIRED, RESOURCE_NOT_FOUND
from quarterdeck.wire.errors import Closed, QuarterdeckError, RpcError
from quarterdeck.wire.rpc.codes import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST

__all__ = ["invalid", "refusal_of", "refused"]

_REFUSALS: tuple[tuple[type[QuarterdeckError], int, str], ...] = (
    (NoSuchSession, RESOURCE_NOT_FOUND, "unknown_session"),
    (ModelSetupError, AUTH_REQUIRED, "no_model"),
    (Locked, INVALID_REQUEST, "session_in_use"),
    (Closed, INVALID_REQUEST, "session_closed"),
    (ConfigError, INTERNAL_ERROR, "bad_configuration"),
    (JournalError, INTERNAL_ERROR, "log_failed"),
)


def refusal_of(error: QuarterdeckError) -> RpcError:
    """The answer for an error; one that is an answer already stays as it is."""
    if isinstance(error, RpcError):
        return error
    for kind, code, name in _REFUSALS:
        if isinstance(error, kind):
            return refused(code, str(error), name)
    return refused(INTERNAL_ERROR, str(error), "failed")


def refused(code: int, message: str, kind: str, **facts: Any) -> RpcError:
    """Make an answer; ``kind`` is for programs, the message for people."""
    return RpcError(code, message, {"kind": kind, **facts})


def invalid(message: str, kind: str = "invalid_params") -> RpcError:
    """Make the answer to parameters that cannot be used."""
    return refused(INVALID_PARAMS, message, kind)
