"""Secrets out of what is shown, logged or kept."""

import re
from collections.abc import Mapping

__all__ = ["mask"]

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
_SECRET = re.compile(
    r"""(?x)
    \b(?:sk|pk|rk|ghp|gho|ghs|glpat|xox[abprs])[-_][A-Za-z0-9_-]{10,}   # keys by their prefix
    | \bAIza[A-Za-z0-9_-]{20,}
    | \beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+         # a JSON web token
    | (?<=Bearer\ )[A-Za-z0-9._~+/=-]{8,}
    | (?<=://)[^/\s:@]+:[^/\s@]+(?=@)                                     # user:password in a URL
    """
)
_SHORTEST = 6
_MASK = "…"


def mask(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Replace what looks like a secret, and the values of variables whose names say so."""
    for name, value in (environment or {}).items():
        if len(value) >= _SHORTEST and _SECRET_NAME.search(name):
            text = text.replace(value, _MASK)
    return _SECRET.sub(_MASK, text)
