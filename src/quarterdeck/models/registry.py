"""From a name to a model: ``vendor/id``, the environment, and the user's settings.

Every lookup goes to the mapping that the caller passes as ``environment``. A vendor's key is read
from that vendor's own variables and goes to that vendor's server only.
"""

import asyncio
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from quarterdeck.wire.decoders import decode_json
from quarterdeck.wire.settings import VendorWire

from .catalogue import known_models, profile_of
from .errors import CallError, ModelSetupError
from .http_client import HttpClient, HttpTimeouts, is_loopback, read_all
from .model import Model
from .remote import ModelWire, RemoteModel
from .vendors import VENDORS, Endpoint, Vendor

__all__ = [
    "ModelName",
    "ModelOptions",
    "VendorOptions",
    "choose_model_name",
    "default_model_name",
    "endpoint_of",
    "local_models",
    "make_model",
    "parse_model_name",
]

_BRIDGE = "pydantic-ai"
_SCRIPTED = "scripted"
_LOCAL_IDLE = 1800.0
"""Seconds: a model on this machine may take minutes to load and to read a long prompt."""
_MODULES: dict[VendorWire, str] = {
    "anthropic": "anthropic",
    "openai": "openai_responses",
    "openai-chat": "openai_chat",
    "google": "google",
}


class VendorOptions(Struct, frozen=True, kw_only=True):
    """A server that the user describes: a new vendor, or other facts of a known one."""

    base_url: str | None = None
    wire: VendorWire | None = None
    api_key_env: str | None = None
    """The variable with its key; without one, a new vendor is sent no key at all."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """May hold keys: its ``repr`` does not show them."""

    def __repr__(self) -> str:
        return f"VendorOptions({self.base_url!r}, {self.wire!r}, {self.api_key_env!r})"


class ModelOptions(Struct, frozen=True, kw_only=True):
    """The user's settings about models."""

    default: str | None = None
    vendors: Mapping[str, VendorOptions] = field(default_factory=dict[str, VendorOptions])
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Figures by model name; see ``catalogue.profile_of``."""
    timeouts: HttpTimeouts = field(default_factory=HttpTimeouts)


class ModelName(Struct, frozen=True):
    """A model's name in its two parts."""

    vendor: str
    id: str

    def __str__(self) -> str:
        return f"{self.vendor}/{self.id}"


def parse_model_name(name: str, options: ModelOptions | None = None) -> ModelName:
    """Split ``vendor/id``; the id may hold further slashes.

    Raises:
        ModelSetupError: it is no such name, or the vendor is unknown.
    """
    options = options or ModelOptions()
    for mark in (f"{_BRIDGE}:", f"{_BRIDGE}/"):
        if name.startswith(mark) and ":" in name[len(mark) :]:
            return ModelName(_BRIDGE, name[len(mark) :])
    vendor, slash, id_ = name.strip().partition("/")
    known = [*VENDORS, *options.vendors, _SCRIPTED]
    if slash and id_ and vendor in known:
        return ModelName(vendor, id_)
    meant = [full for full in known_models() if full.partition("/")[2] == name]
    if meant:
        raise ModelSetupError(f"{name!r} names no vendor: did you mean {' or '.join(meant)}?")
    if slash and id_:
        names = ", ".join(known)
        raise ModelSetupError(
            f"unknown vendor {vendor!r} in {name!r}; known are {names}. "
            f"Describe another one under [vendors.{vendor}] in the configuration."
        )
    raise ModelSetupError(f"{name!r} is not a model name: write it as vendor/model")


def endpoint_of(
    vendor: str, environment: Mapping[str, str], options: ModelOptions | None = None
) -> Endpoint:
    """Where a vendor is asked, with its own key.

    Raises:
        ModelSetupError: its key or its address is missing; the message names the variable.
    """
    facts, given = _facts(vendor, options or ModelOptions())
    base_url = given.base_url or _address(facts, environment)
    headers = dict(given.headers)
    key_name, key = _key(facts, environment)
    if key is None and facts.needs_key and not _has_auth(headers):
        names = " or ".join((*facts.key_names, *filter(None, (facts.token_name,))))
        raise ModelSetupError(f"no key for {vendor!r}: set {names}")
    if key is not None and key_name is not None:
        headers = {**_auth(facts.wire, key, is_token=key_name == facts.token_name), **headers}
    if facts.wire == "anthropic":
        headers = {"anthropic-version": "2023-06-01", **headers}
    return Endpoint(
        vendor=vendor,
        base_url=_based(base_url, facts.wire),
        headers=headers,
        key_name=key_name,
        secrets=tuple(filter(None, (key, *given.headers.values()))),
    )


def _facts(vendor: str, options: ModelOptions) -> tuple[Vendor, VendorOptions]:
    given = options.vendors.get(vendor, VendorOptions())
    facts = VENDORS.get(vendor)
    if facts is None:
        if not given.base_url:
            raise ModelSetupError(f"vendor {vendor!r} needs a base_url in the configuration")
        facts = Vendor(
            name=vendor, wire=given.wire or "openai-chat", base_url=given.base_url, needs_key=False
        )
    if given.api_key_env:
        facts = replace(facts, key_names=(given.api_key_env,), token_name=None, needs_key=True)
    return (replace(facts, wire=given.wire) if given.wire else facts), given


def _key(facts: Vendor, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
    names = (*facts.key_names, *filter(None, (facts.token_name,)))
    for name in names:
        if value := environment.get(name, "").strip():
            return name, value
    return (names[0] if names else None), None


def _address(facts: Vendor, environment: Mapping[str, str]) -> str:
    values = (environment.get(name, "").strip() for name in facts.url_names)
    url = next((value for value in values if value), facts.base_url)
    if facts.name != "ollama":
        return url
    # OLLAMA_HOST is what the server listens on: often without scheme or port, often 0.0.0.0.
    parts = urlsplit(url if "://" in url else f"http://{url}")
    host = "127.0.0.1" if parts.hostname in ("0.0.0.0", "::", None) else parts.hostname
    host = f"[{host}]" if ":" in host else host
    port = parts.port or (443 if parts.scheme == "https" else 11434)
    return f"{parts.scheme}://{host}:{port}{parts.path}"


def _has_auth(headers: Mapping[str, str]) -> bool:
    return any(name.lower() in ("authorization", "x-api-key", "x-goog-api-key") for name in headers)


def _auth(wire: VendorWire, key: str, *, is_token: bool) -> dict[str, str]:
    if wire == "anthropic" and not is_token:
        return {"x-api-key": key}
    if wire == "google":
        return {"x-goog-api-key": key}
    return {"Authorization": f"Bearer {key}"}


def _based(url: str, wire: VendorWire) -> str:
    """The URL that a wire's path is added to: people write it with and without the version."""
    url = (url if "://" in url else f"http://{url}").rstrip("/")
    path = urlsplit(url).path
    version = {"anthropic": "/v1", "google": "/v1beta"}.get(wire)
    if version is not None:
        last = path.rpartition("/")[2]
        return url if last.startswith("v1") else url + version
    return url if path else f"{url}/v1"


def default_model_name(
    environment: Mapping[str, str], options: ModelOptions | None = None, flag: str | None = None
) -> str | None:
    """The model to use when there is one without looking around.

    The flag, else ``QUARTERDECK_MODEL``, else the settings, else the first vendor with a key.
    """
    options = options or ModelOptions()
    named = flag or environment.get("QUARTERDECK_MODEL", "").strip() or options.default
    if named:
        return named
    for facts in VENDORS.values():
        if facts.default_model and facts.needs_key and _key(facts, environment)[1]:
            return f"{facts.name}/{facts.default_model}"
    return None


async def choose_model_name(
    environment: Mapping[str, str], options: ModelOptions | None = None, flag: str | None = None
) -> str:
    """The name of the model to use: ``default_model_name``, else one of a server on this machine.

    Raises:
        ModelSetupError: there is none; the message lists the ways to get one.
    """
    if name := default_model_name(environment, options, flag):
        return name
    if found := await local_models(environment, options):
        return found[0]
    keys = ", ".join(v.key_names[0] for v in VENDORS.values() if v.default_model)
    servers = ", ".join(v.name for v in VENDORS.values() if v.is_probed)
    raise ModelSetupError(
        f"no model: set one of {keys}; or start a local server ({servers}); or name one with "
        f"--model vendor/model, QUARTERDECK_MODEL or `model` in the configuration. "
        f"scripted/default works without any."
    )


async def local_models(
    environment: Mapping[str, str], options: ModelOptions | None = None, timeout: float = 0.4
) -> list[str]:
    """The models that servers on this machine offer, in the order of the vendors.

    Only loopback addresses are asked, all at once, for at most ``timeout`` seconds.
    """
    probed = [facts.name for facts in VENDORS.values() if facts.is_probed]
    answers = await asyncio.gather(
        *(_offered(endpoint_of(name, environment, options), timeout) for name in probed)
    )
    return [name for answer in answers for name in answer]


class _Offer(msgspec.Struct):
    id: str


class _Offers(msgspec.Struct):
    data: list[_Offer] | None = None


async def _offered(endpoint: Endpoint, timeout: float) -> list[str]:
    if not is_loopback(urlsplit(endpoint.base_url).hostname or ""):
        return []
    client = HttpClient(HttpTimeouts(connect=timeout, idle=timeout), {})
    try:
        async with (
            asyncio.timeout(timeout),
            client.send("GET", f"{endpoint.base_url}/models", endpoint.headers) as answer,
        ):
            offers = decode_json(await read_all(answer), _Offers)
            return [f"{endpoint.vendor}/{offer.id}" for offer in offers.data or ()]
    except (CallError, TimeoutError, msgspec.DecodeError):
        return []
    finally:
        await client.close()


def make_model(
    name: str, environment: Mapping[str, str], options: ModelOptions | None = None
) -> Model:
    """The model of that name, ready to be asked; nothing is sent yet.

    Imports its wire and reads files: a coroutine calls it in a thread.

    Raises:
        ModelSetupError: the name, the key or the address is wrong or missing.
    """
    options = options or ModelOptions()
    parsed = parse_model_name(name, options)
    if parsed.vendor == _SCRIPTED:
        from .scripted_model import ScriptedModel

        return ScriptedModel.load(parsed.id)
    if parsed.vendor == _BRIDGE:
        from .pydantic_ai_bridge import BridgedModel

        return BridgedModel.load(parsed.id, options.models)
    endpoint = endpoint_of(parsed.vendor, environment, options)
    profile = profile_of(parsed.vendor, parsed.id, options.models)
    facts, _ = _facts(parsed.vendor, options)
    wire: ModelWire = import_module(f"{__package__}.{_MODULES[facts.wire]}").WIRE
    client = HttpClient(_timeouts(endpoint, options.timeouts), environment)
    return RemoteModel(wire, profile, endpoint, client)


def _timeouts(endpoint: Endpoint, wanted: HttpTimeouts) -> HttpTimeouts:
    if wanted == HttpTimeouts() and is_loopback(urlsplit(endpoint.base_url).hostname or ""):
        return replace(wanted, idle=_LOCAL_IDLE)
    return wanted
