"""What a vendor's refusal means, in one place: from status, headers and body to a ``CallError``."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from quarterdeck.wire.clock import read_wall_seconds

from .errors import (
    CallError,
    ContextOverflowError,
    OverloadedError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    StreamBrokenError,
    UnauthorizedError,
)
from .vendors import Endpoint

__all__ = ["call_failure", "retry_after", "stream_failure"]

_MESSAGE_LIMIT = 500

_OVERFLOW_WORDS = frozenset(
    {"context_length_exceeded", "request_too_large", "exceed_context_size_error"}
)
_OVERFLOW_TEXT = re.compile(
    r"prompt is too long|input is too long|maximum context length|context window"
    r"|exceeds? (?:the )?(?:available |maximum |model'?s? )*context"
    r"|exceed context limit|input token count .{0,40}exceeds|too many (?:input|prompt) tokens"
    r"|reduce the length of (?:the|your) (?:messages|prompt|input)",
    re.IGNORECASE,
)
_QUOTA_WORDS = frozenset(
    {
        "insufficient_quota",
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "insufficient_balance",
        "credits_exhausted",
    }
)
_QUOTA_TEXT = re.compile(
    r"credit balance is too low|insufficient (?:balance|credits|quota)"
    r"|exceeded your current quota, please check your plan|out of credits",
    re.IGNORECASE,
)
_STATUS_OF_WORD = {
    "authentication_error": 401,
    "invalid_api_key": 401,
    "api_key_invalid": 401,
    "unauthenticated": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "not_found": 404,
    "model_not_found": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "invalid_prompt": 400,
    "failed_precondition": 400,
    "api_error": 500,
    "server_error": 500,
    "internal": 500,
    "timeout_error": 504,
    "deadline_exceeded": 504,
    "unavailable": 503,
    "server_is_overloaded": 503,
    "overloaded_error": 529,
}


def call_failure(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes
) -> CallError:
    """The error for an answer with this status."""
    error = _error_of(body)
    if 300 <= status < 400:
        where = headers.get("location", "another address")
        text = f"redirects to {where}, which is not followed: set the base URL to its target"
        return RequestRejectedError(_text(endpoint, text, status), status=status)
    message = _message_of(error) or _plain(body) or "no reason given"
    kind = _kind(status, _words_of(error), message)
    return kind(
        _text(endpoint, message, status, kind),
        status=status,
        retry_after=retry_after(headers, error) if kind.retryable else None,
    )


def stream_failure(endpoint: Endpoint, error: Any) -> CallError:
    """The error that a vendor reports inside a stream that had begun well.

    One that says nothing we know counts as a broken stream, which may be tried again.
    """
    words = _words_of(error)
    status = next((_STATUS_OF_WORD[word] for word in words if word in _STATUS_OF_WORD), None)
    code = error.get("code") if isinstance(error, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(code, int) and 400 <= code < 600:
        status = code
    message = _message_of(error) or "the stream failed without a reason"
    kind = _kind(status, words, message)
    return kind(
        _text(endpoint, message, status, kind),
        status=status,
        retry_after=retry_after({}, error) if kind.retryable else None,
    )


def retry_after(headers: Mapping[str, str], error: Any = None) -> float | None:
    """How long the vendor wants us to wait, in seconds; None when it does not say.

    Reads ``retry-after-ms``, ``retry-after`` (seconds or an HTTP date) and Google's RetryInfo.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if value := headers.get("retry-after"):
        if (seconds := _number(value)) is not None:
            return seconds
        from email.utils import parsedate_to_datetime  # takes 15 ms to load

        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - read_wall_seconds())
        except ValueError:
            return None
    for detail in _details_of(error):
        delay = detail.get("retryDelay")
        if isinstance(delay, str):
            return _number(delay.removesuffix("s"))
    return None


def _kind(status: int | None, words: frozenset[str], message: str) -> type[CallError]:
    if words & _OVERFLOW_WORDS or status == 413:
        return ContextOverflowError
    if status in (None, 400, 422, 500) and _OVERFLOW_TEXT.search(message):
        return ContextOverflowError
    if status == 402 or words & _QUOTA_WORDS or _QUOTA_TEXT.search(message):
        return QuotaExceededError
    if status in (401, 403) or "api_key_invalid" in words:
        return UnauthorizedError
    if status == 429:
        return QuotaExceededError if "per_day" in words else RateLimitedError
    if status is None:
        return StreamBrokenError
    return OverloadedError if status >= 500 or status in (408, 409, 425) else RequestRejectedError


def _text(
    endpoint: Endpoint, message: str, status: int | None, kind: type[CallError] | None = None
) -> str:
    message = endpoint.mask(" ".join(message.split()))
    if len(message) > _MESSAGE_LIMIT:
        message = f"{message[:_MESSAGE_LIMIT]}…"
    text = f"{endpoint.vendor}: {message}" + (f" (HTTP {status})" if status else "")
    if kind is UnauthorizedError and endpoint.key_name:
        text += f"; check {endpoint.key_name}"
    return text


def _error_of(body: bytes) -> Any:
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(value, list) and value:  # Google wraps the error in a list
        value = value[0]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict) and "error" in value:
        return value["error"]  # pyright: ignore[reportUnknownVariableType]
    return value  # pyright: ignore[reportUnknownVariableType]


def _message_of(error: Any) -> str:
    if isinstance(error, str):
        return error
    if not isinstance(error, dict):
        return ""
    found: Any = error.get("message") or error.get("detail") or ""  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return found if isinstance(found, str) else msgspec.json.encode(found).decode()


def _words_of(error: Any) -> frozenset[str]:
    if not isinstance(error, dict):
        return frozenset()
    names = ("type", "code", "status")
    values: list[Any] = [error.get(name) for name in names]  # pyright: ignore[reportUnknownMemberType]
    values += [detail.get("reason") for detail in _details_of(error)]
    if any("PerDay" in quota for quota in _quotas_of(error)):
        values.append("per_day")
    return frozenset(value.lower() for value in values if isinstance(value, str))


def _details_of(error: Any) -> list[dict[str, Any]]:
    details: Any = error.get("details") if isinstance(error, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(details, list):
        return []
    return [detail for detail in details if isinstance(detail, dict)]  # pyright: ignore[reportUnknownVariableType]


def _quotas_of(error: Any) -> list[str]:
    found: list[Any] = []
    for detail in _details_of(error):
        violations: Any = detail.get("violations")
        if isinstance(violations, list):
            found += [v.get("quotaId") for v in violations if isinstance(v, dict)]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return [quota for quota in found if isinstance(quota, str)]


def _plain(body: bytes) -> str:
    text = body[:2000].decode("utf-8", "replace").strip()
    return re.sub(r"<[^>]*>", " ", text) if text.startswith("<") else text


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 10_000_000 else None
