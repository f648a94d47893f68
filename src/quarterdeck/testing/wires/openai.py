"""What OpenAI's two forms have in common."""

from typing import Any

from quarterdeck.models.script import Failure

__all__ = ["CREATED", "error_body"]

CREATED = 1_767_225_600
"""The time that replies say they were made; scripts have no clock."""

_TYPES = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    403: "permission_error",
    404: "invalid_request_error",
    429: "rate_limit_exceeded",
    503: "server_is_overloaded",
}
_CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def error_body(failure: Failure) -> dict[str, Any]:
    """The body of an error."""
    kind, code = _TYPES.get(failure.status, "server_error"), _CODES.get(failure.status)
    message = failure.message or "scripted failure"
    if failure.kind == "overflow":
        code = "context_length_exceeded"
        message = failure.message or (
            "Your input exceeds the context window of this model. "
            "Please adjust your input and try again."
        )
    elif failure.kind == "quota":
        kind = code = "insufficient_quota"
        message = failure.message or (
            "You exceeded your current quota, please check your plan and billing details."
        )
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
