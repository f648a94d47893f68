import json
import time
from email.utils import formatdate

import pytest

from quarterdeck.models.errors import (
    CallError,
    ContextOverflowError,
    OverloadedError,
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    StreamBrokenError,
    UnauthorizedError,
)
from quarterdeck.models.failures import call_failure, retry_after, stream_failure
from quarterdeck.models.registry import VendorOptions
from quarterdeck.models.vendors import Endpoint

KEY = "my-very-own-key-0123456789"
ENDPOINT = Endpoint(
    vendor="acme",
    base_url="https://api.acme.com",
    headers={"x-api-key": KEY},
    key_name="ACME_API_KEY",
    secrets=(KEY,),
)


def error(status: int, body: object, **headers: str) -> CallError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lowered = {name.replace("_", "-"): value for name, value in headers.items()}
    return call_failure(ENDPOINT, status, lowered, raw)


def openai(code: str | None, message: str, kind: str = "invalid_request_error") -> object:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def claude(kind: str, message: str) -> object:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}


def gemini(code: int, status: str, message: str, *details: object) -> object:
    return {"error": {"code": code, "message": message, "status": status, "details": details}}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, claude("authentication_error", "invalid x-api-key"), UnauthorizedError),
        (403, claude("permission_error", "no"), UnauthorizedError),
        (401, openai("invalid_api_key", "Incorrect API key provided"), UnauthorizedError),
        (
            400,
            gemini(400, "INVALID_ARGUMENT", "API key not valid.", {"reason": "API_KEY_INVALID"}),
            UnauthorizedError,
        ),
        (
            400,
            claude("invalid_request_error", "max_tokens: must be positive"),
            RequestRejectedError,
        ),
        (404, claude("not_found_error", "model: claude-9"), RequestRejectedError),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, RequestRejectedError),
        (
            400,
            claude("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
            ContextOverflowError,
        ),
        (
            400,
            claude("invalid_request_error", "input length and `max_tokens` exceed context limit"),
            ContextOverflowError,
        ),
        (
            413,
            claude("request_too_large", "Request exceeds the maximum size"),
            ContextOverflowError,
        ),
        (
            400,
            openai("context_length_exceeded", "Your input exceeds the context window"),
            ContextOverflowError,
        ),
        (
            400,
            openai(None, "This model's maximum context length is 8192 tokens. However, you …"),
            ContextOverflowError,
        ),
        (
            400,
            gemini(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed",
            ),
            ContextOverflowError,
        ),
        (
            400,
            {
                "error": {
                    "code": 400,
                    "type": "exceed_context_size_error",
                    "message": "request (9000 tokens) exceeds the available context size",
                }
            },
            ContextOverflowError,
        ),
        (429, openai("insufficient_quota", "You exceeded your current quota"), QuotaExceededError),
        (
            400,
            claude("invalid_request_error", "Your credit balance is too low to access the API"),
            QuotaExceededError,
        ),
        (402, {"error": {"message": "Insufficient Balance"}}, QuotaExceededError),
        (
            429,
            gemini(
                429,
                "RESOURCE_EXHAUSTED",
                "Quota exceeded",
                {"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]},
            ),
            QuotaExceededError,
        ),
        (
            429,
            claude("rate_limit_error", "Number of request tokens has exceeded"),
            RateLimitedError,
        ),
        (429, openai("rate_limit_exceeded", "Rate limit reached for requests"), RateLimitedError),
        (429, gemini(429, "RESOURCE_EXHAUSTED", "Quota exceeded per minute"), RateLimitedError),
        (500, claude("api_error", "Internal server error"), OverloadedError),
        (529, claude("overloaded_error", "OverloadedError"), OverloadedError),
        (503, b"<html><body>upstream connect error</body></html>", OverloadedError),
        (502, b"", OverloadedError),
        (408, b"timeout", OverloadedError),
        (418, b"\xff\xfe", RequestRejectedError),
        (404, {"error": "model 'x' not found"}, RequestRejectedError),
        (
            400,
            [{"error": {"message": "in a list", "status": "INVALID_ARGUMENT"}}],
            RequestRejectedError,
        ),
    ],
)
def test_refusal_becomes_its_error(status: int, body: object, kind: type[CallError]):
    found = error(status, body)
    assert type(found) is kind
    assert found.status == status
    assert str(found).startswith("acme: ")


def test_the_vendors_words_are_kept_and_short():
    assert "model: claude-9" in str(error(404, claude("not_found_error", "model: claude-9")))
    assert len(str(error(400, claude("invalid_request_error", "x" * 5000)))) < 600


def test_a_refused_key_names_its_variable():
    assert "ACME_API_KEY" in str(error(401, claude("authentication_error", "invalid")))


@pytest.mark.parametrize(
    "text",
    [
        f"the key {KEY} is not known",
        "Incorrect API key provided: sk-proj-abcdefghijklmnop",
        "token Bearer abcdefgh12345678 expired",
        "AIzaSyA1234567890abcdefg is blocked",
    ],
)
def test_no_key_is_ever_in_a_message(text: str):
    for found in (error(400, openai(None, text)), stream_failure(ENDPOINT, {"message": text})):
        assert "***" in str(found)
        assert not any(word in str(found) for word in (KEY, "abcdefgh", "AIzaSyA"))


def test_an_endpoint_does_not_show_its_key():
    assert KEY not in repr(ENDPOINT)
    options = VendorOptions(base_url="http://x", headers={"Authorization": KEY})
    assert KEY not in repr(options)


def test_a_redirect_is_refused_and_says_where_it_leads():
    found = error(308, b"", location="https://elsewhere.com/v1")
    assert type(found) is RequestRejectedError
    assert "https://elsewhere.com/v1" in str(found)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after_ms": "250", "retry_after": "1"}, 0.25),
        ({"retry_after": "soon"}, None),
        ({"retry_after": "-3"}, None),
    ],
)
def test_wait_is_the_vendors(headers: dict[str, str], seconds: float | None):
    assert error(429, b"{}", **headers).retry_after == seconds


def test_wait_may_be_a_date():
    wait = retry_after({"retry-after": formatdate(time.time() + 30, usegmt=True)})
    assert wait is not None
    assert 25 < wait <= 31
    assert retry_after({"retry-after": formatdate(time.time() - 30, usegmt=True)}) == 0


def test_wait_may_be_in_googles_details():
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "23s"}
    assert error(429, gemini(429, "RESOURCE_EXHAUSTED", "slow", info)).retry_after == 23.0


def test_what_will_not_succeed_later_has_no_wait():
    assert error(400, b"{}", retry_after="7").retry_after is None


@pytest.mark.parametrize(
    ("report", "kind"),
    [
        ({"type": "overloaded_error", "message": "OverloadedError"}, OverloadedError),
        ({"type": "api_error", "message": "oops"}, OverloadedError),
        ({"code": "server_error", "message": "oops"}, OverloadedError),
        ({"code": "rate_limit_exceeded", "message": "slow"}, RateLimitedError),
        ({"code": "context_length_exceeded", "message": "long"}, ContextOverflowError),
        ({"code": "insufficient_quota", "message": "pay"}, QuotaExceededError),
        ({"code": "invalid_prompt", "message": "bad"}, RequestRejectedError),
        ({"code": 503, "status": "UNAVAILABLE", "message": "busy"}, OverloadedError),
        ({"code": 502, "message": "Provider disconnected"}, OverloadedError),
        ({"message": "who knows"}, StreamBrokenError),
        ("just words", StreamBrokenError),
        (None, StreamBrokenError),
        ([], StreamBrokenError),
    ],
)
def test_error_inside_a_stream_becomes_its_error(report: object, kind: type[CallError]):
    assert type(stream_failure(ENDPOINT, report)) is kind
