"""Errors keep their class, their words and their facts on the way through the socket."""

import pytest

from quarterdeck.drivers.errors import UnknownAgentError
from quarterdeck.fleet.errors import (
    AgentNotReadyError,
    FleetError,
    FleetLimitError,
    NoSuchAgentError,
)
from quarterdeck.fleet.host.methods import REFUSED, decode_error, encode_error
from quarterdeck.policy.errors import RuleError
from quarterdeck.wire.errors import LinkBrokenError, QuarterdeckError, RpcError

ERRORS = [
    NoSuchAgentError("ann", ["anne"]),
    AgentNotReadyError("not now"),
    FleetLimitError("too many"),
    UnknownAgentError("x", ["y"]),
    RuleError("bash(", 4, "a word"),
    LinkBrokenError("gone", exit_code=3, stderr="oh"),
    ValueError("no such option"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_out_as_it_went_in(error: QuarterdeckError | ValueError):
    answer = encode_error(error)
    restored = decode_error(RpcError(answer.code, answer.message, answer.data))
    assert type(restored) is type(error)
    assert str(restored) == str(error)
    assert vars(restored) == vars(error)


def test_an_error_of_a_newer_version_becomes_the_nearest_known():
    data = {
        "error": "NoSuchDeck",
        "classes": [
            "quarterdeck.fleet.errors:NoSuchDeck",
            "quarterdeck.fleet.errors:AgentNotReadyError",
        ],
    }
    restored = decode_error(RpcError(REFUSED, "no such deck", data))
    assert (type(restored), str(restored)) == (AgentNotReadyError, "no such deck")


@pytest.mark.parametrize(
    "name",
    ["os:system", "subprocess:Popen", "quarterdeck.fleet.api:SpawnOptions", "x", "builtins:eval"],
)
def test_a_class_that_is_none_of_our_errors_is_not_touched(name: str):
    restored = decode_error(RpcError(REFUSED, "text", {"error": "X", "classes": [name]}))
    assert (type(restored), str(restored)) == (FleetError, "text")


def test_other_answers_stay_what_they_are():
    for answer in (RpcError(-32601, "unknown"), RpcError(REFUSED, "x", {"no": "fault"})):
        assert decode_error(answer) is answer


def test_what_has_no_json_form_is_left_behind():
    error = AgentNotReadyError("busy")
    error.thing = object()  # type: ignore[attr-defined]
    error.fact = 7  # type: ignore[attr-defined]
    assert vars(decode_error(encode_error(error))) == {"fact": 7}
