"""The vendors that we know, and the endpoint at which one is reached: data for ``registry``."""

import re
from collections.abc import Mapping

from msgspec import Struct, field

from quarterdeck.wire.settings import VendorWire

__all__ = ["VENDORS", "Endpoint", "Vendor"]

_KEY_LIKE = r"\b(?:sk|pk|rk|gsk|xai)-[\w-]{6,}[\w*-]*|\bAIza[\w-]{10,}|(?<=Bearer )[\w.~+/-]{8,}=*"


class Endpoint(Struct, frozen=True, kw_only=True):
    """Base URL and headers of one vendor; its ``repr`` shows no header and no key."""

    vendor: str
    base_url: str
    """Without a slash at the end; a wire adds its path."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    key_name: str | None = None
    """The variable that the key comes from, for messages."""
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Endpoint({self.vendor!r}, {self.base_url!r}, key_name={self.key_name!r})"

    def mask(self, text: str) -> str:
        """The text without our keys and without anything that looks like one."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return re.sub(_KEY_LIKE, "***", text)


class Vendor(Struct, frozen=True, kw_only=True):
    """Where a vendor is, which variables are its own, and its default model."""

    name: str
    wire: VendorWire
    base_url: str
    key_names: tuple[str, ...] = ()
    """Variables that may hold its key, the first one set counts."""
    token_name: str | None = None
    """A variable whose value goes into ``Authorization`` where keys go elsewhere."""
    url_names: tuple[str, ...] = ()
    needs_key: bool = True
    default_model: str | None = None
    """The model to use when the user has a key and configures no more."""
    is_probed: bool = False
    """Whether a server on this machine may be looked for, unasked."""


_ALL = (
    Vendor(
        name="anthropic",
        wire="anthropic",
        base_url="https://api.anthropic.com",
        key_names=("ANTHROPIC_API_KEY",),
        token_name="ANTHROPIC_AUTH_TOKEN",
        url_names=("ANTHROPIC_BASE_URL",),
        default_model="claude-opus-5-5",
    ),
    Vendor(
        name="openai",
        wire="openai",
        base_url="https://api.openai.com/v1",
        key_names=("OPENAI_API_KEY",),
        url_names=("OPENAI_BASE_URL",),
        default_model="gpt-6.1-sol",
    ),
    Vendor(
        name="google",
        wire="google",
        base_url="https://generativelanguage.googleapis.com",
        key_names=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        url_names=("GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"),
        default_model="gemini-3.8-flash",
    ),
    Vendor(
        name="deepseek",
        wire="openai-chat",
        base_url="https://api.deepseek.com/v1",
        key_names=("DEEPSEEK_API_KEY",),
        url_names=("DEEPSEEK_BASE_URL",),
        default_model="deepseek-v4-pro",
    ),
    Vendor(
        name="openrouter",
        wire="openai-chat",
        base_url="https://openrouter.ai/api/v1",
        key_names=("OPENROUTER_API_KEY",),
        url_names=("OPENROUTER_BASE_URL",),
        default_model="openrouter/auto",
    ),
    Vendor(
        name="openai-chat",
        wire="openai-chat",
        base_url="https://api.openai.com/v1",
        key_names=("OPENAI_API_KEY",),
        url_names=("OPENAI_BASE_URL",),
    ),
    Vendor(
        name="ollama",
        wire="openai-chat",
        base_url="http://127.0.0.1:11434",
        key_names=("OLLAMA_API_KEY",),
        url_names=("OLLAMA_BASE_URL", "OLLAMA_HOST"),
        needs_key=False,
        is_probed=True,
    ),
    Vendor(
        name="llamacpp",
        wire="openai-chat",
        base_url="http://127.0.0.1:8080",
        key_names=("LLAMACPP_API_KEY",),
        url_names=("LLAMACPP_BASE_URL",),
        needs_key=False,
        is_probed=True,
    ),
    Vendor(
        name="vllm",
        wire="openai-chat",
        base_url="http://127.0.0.1:8000",
        key_names=("VLLM_API_KEY",),
        url_names=("VLLM_BASE_URL",),
        needs_key=False,
        is_probed=True,
    ),
    Vendor(
        name="lmstudio",
        wire="openai-chat",
        base_url="http://127.0.0.1:1234",
        key_names=("LMSTUDIO_API_KEY",),
        url_names=("LMSTUDIO_BASE_URL",),
        needs_key=False,
        is_probed=True,
    ),
    Vendor(
        name="litellm",
        wire="openai-chat",
        base_url="http://127.0.0.1:4000",
        key_names=("LITELLM_API_KEY",),
        url_names=("LITELLM_BASE_URL",),
        needs_key=False,
    ),
)

VENDORS: dict[str, Vendor] = {vendor.name: vendor for vendor in _ALL}
"""In the order in which they are looked through for a key."""
