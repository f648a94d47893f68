"""Extension methods that several agents and clients share, beside the protocol.

``_session/steering`` gives the running turn of a session a further message. An agent that has it
says so in its answer to ``initialize``: ``_meta.steering.supported`` is true.
"""

from collections.abc import Mapping
from typing import Any, cast

from ..content import ContentBlock
from ..values import AcpValue
from .methods import Method

__all__ = [
    "PROMPT_IF_IDLE",
    "SESSION_STEERING",
    "STEERING_SUPPORTED",
    "SteeringRequest",
    "SteeringResponse",
    "is_steering_supported",
    "wants_prompt_if_idle",
]


class SteeringRequest(AcpValue, frozen=True, kw_only=True):
    """A message for the running turn of a session."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


class SteeringResponse(AcpValue, frozen=True, kw_only=True):
    """The outcome of a steering message."""

    outcome: str
    """``injected``: the running turn has it. ``promptRequired``: no turn is running, and the client
    has to send a prompt. ``startedNewTurn``: no turn was running, and it has started one."""
    reason: str | None = None


SESSION_STEERING: Method[SteeringRequest, SteeringResponse] = Method(
    name="_session/steering", params=SteeringRequest, result=SteeringResponse, side="agent"
)
STEERING_SUPPORTED: dict[str, Any] = {"steering": {"supported": True}}
"""The ``_meta`` of an answer to ``initialize``."""
PROMPT_IF_IDLE: dict[str, Any] = {"steering": {"idleBehavior": "promptRequired"}}
"""The ``_meta`` of a request by which no turn is started."""


def is_steering_supported(meta: Mapping[str, Any] | None) -> bool:
    """Whether an agent's answer to ``initialize`` offers the method."""
    return _steering(meta).get("supported") is True


def wants_prompt_if_idle(meta: Mapping[str, Any] | None) -> bool:
    """Whether a request asks that no turn is started by it."""
    return _steering(meta).get("idleBehavior") == "promptRequired"


def _steering(meta: Mapping[str, Any] | None) -> Mapping[str, Any]:
    value: Any = (meta or {}).get("steering")
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
