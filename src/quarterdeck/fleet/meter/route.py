"""How an agent is pointed at the meter: variables and words, from what its file says."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from quarterdeck.drivers.agent_description import PROXIES, Agent
from quarterdeck.system.environment import child_environment

from .upstream import Upstream

__all__ = ["MeterRoute", "make_route"]

_LOCAL = ("127.0.0.1", "localhost")
_NO_PROXY = ("NO_PROXY", "no_proxy")


class MeterRoute(Struct, frozen=True, kw_only=True):
    """What is set for an agent, and where its requests go then."""

    upstreams: Mapping[str, Upstream]
    """By the name of the endpoint, which is the part of a path behind the agent's secret."""
    environment: Mapping[str, str]
    arguments: tuple[str, ...]


def make_route(
    agent: Agent, address: str, own: Mapping[str, str], environment: Mapping[str, str]
) -> MeterRoute | None:
    """Point an agent at ``address``, which has its secret; None: its file has no way to.

    ``own``: the variables that are set for it; ``environment``: ours, of which it may see some.

    Raises:
        UpstreamError: a base URL that is set for it is none.
    """
    inherit = (*agent.inherit, *agent.login.variables, *PROXIES)
    seen = child_environment(own, inherit, source=environment)
    upstreams: dict[str, Upstream] = {}
    changed: dict[str, str] = {}
    words: list[str] = []
    for name, endpoint in agent.meter.items():
        url = seen.get(endpoint.variable, "") or endpoint.upstream
        if not url or (endpoint.requires and not seen.get(endpoint.requires)):
            continue
        upstreams[name] = Upstream.parse(url)
        here = f"{address}/{name}"
        if endpoint.variable:
            changed[endpoint.variable] = here
        for variable, value in endpoint.environment.items():
            before = changed.get(variable, seen.get(variable, ""))
            changed[variable] = _merge_values(before, value.replace("{}", here))
        words += [word.replace("{}", here) for word in endpoint.words]
    if not upstreams:
        return None
    if any(seen.get(name) for name in PROXIES if name not in _NO_PROXY):
        # Else it would look for the meter at the proxy.
        exempt = seen.get("no_proxy") or seen.get("NO_PROXY") or ""
        changed |= dict.fromkeys(_NO_PROXY, ",".join(filter(None, (exempt, *_LOCAL))))
    return MeterRoute(upstreams=upstreams, environment=changed, arguments=tuple(words))


def _merge_values(before: str, value: str) -> str:
    """Two JSON objects in depth, ours above; anything else is replaced."""
    below, above = _read_object(before), _read_object(value)
    if below is None or above is None:
        return value
    return msgspec.json.encode(_merge(below, above)).decode()


def _read_object(text: str) -> dict[str, Any] | None:
    try:
        value: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(value, dict) and isinstance(under, dict):
            value = _merge(cast("dict[str, Any]", under), cast("dict[str, Any]", value))
        merged[key] = value
    return merged
