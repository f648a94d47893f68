"""Where a vendor is reached and with what key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Endpoint"]

_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai)-[\w-]{6,}[\w*-]*|\bAIza[\w-]{10,}|(?<=Bearer )[\w.~+/-]{8,}=*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Base URL and headers of one vendor; its ``repr`` shows no header and no key."""

    vendor: str
    base_url: str
    """Without a slash at the end; a wire adds its path."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    key_name: str | None = None
    """The variable that the key comes from, for messages."""
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def mask(self, text: str) -> str:
        """The text without our keys and without anything that looks like one."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return _KEY_LIKE.sub("***", text)
