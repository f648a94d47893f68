"""Secrets out of what is shown, logged, kept or handed on."""

import re
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["mask", "mask_values", "secrets_in"]

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET = re.compile(
    r"""(?x)
    \b(?:sk|pk|rk|ghp|gho|ghs|ghu|ghr|glpat|xox[abeprs])[-_][A-Za-z0-9_-]{10,}   # by their prefix
    | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bAIza[A-Za-z0-9_-]{20,}
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b
    | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+         # a JSON web token
    | (?<=Bearer\ )[A-Za-z0-9._~+/=-]{8,}
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)                                     # user:password in a URL
    | (?<=-----BEGIN)[A-Z ]*\ PRIVATE\ KEY-----.*?(?=-----END|\Z)
    | (?:(?<=KEY=)|(?<=TOKEN=)|(?<=SECRET=)|(?<=PASSWORD=))[^\s"'$;,&|]{6,}       # variables
    | (?:(?<=KEY=["'])|(?<=TOKEN=["'])|(?<=SECRET=["'])|(?<=PASSWORD=["']))[^"'$]{6,}
    """,
    re.DOTALL,
)
_SHORTEST = 6
_MASK = "…"


def mask(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Replace what looks like a secret, and the values of variables whose names say so."""
    for value in secrets_in(environment or {}).values():
        text = text.replace(value, _MASK)
    return _SECRET.sub(_MASK, text)


def secrets_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables whose values ``mask`` would replace."""
    return {
        name: value
        for name, value in environment.items()
        if len(value) >= _SHORTEST and _SECRET_NAME.search(name)
    }


def mask_values(value: Any, environment: Mapping[str, str] | None = None) -> Any:
    """Mask every text inside a JSON value; its keys and its form stay."""
    if isinstance(value, str):
        return mask(value, environment)
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {name: mask_values(inner, environment) for name, inner in items}
    if isinstance(value, list):
        return [mask_values(inner, environment) for inner in cast("list[Any]", value)]
    return value
