"""What is known of models, from our catalogue and from the user's own figures.

People edit ``catalogue.toml``; what is read here is ``catalogue.json``, which is made from it by
``tools/generate_catalogue.py`` and costs nothing to read.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from quarterdeck.wire.decoders import convert, decode_json

from .errors import ModelSetupError
from .model import ModelInfo, ModelProfile, Prices, ReasoningStyle

__all__ = ["PRICES_OF", "find_prices", "known_models", "profile_of"]

PRICES_OF = "2026-11"
"""The month in which the prices of ``catalogue.toml`` were read from the vendors' pages."""

_OTHERS = "*"
_SAME = {"openai-chat": "openai"}
"""Vendors that offer the models of another."""


class _Prices(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    input: float | None = None
    output: float | None = None
    cached: float | None = None
    cache_written: float | None = None


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    window: int | None = None
    max_output: int | None = None
    images: bool | None = None
    thinking: bool | None = None
    tools: bool | None = None
    reasoning: ReasoningStyle | None = None
    prices: _Prices | None = None


def known_models() -> list[str]:
    """The names of all models that we know, as ``vendor/id``."""
    return [f"{vendor}/{id_}" for vendor, models in _tables().items() for id_ in models]


def profile_of(
    vendor: str, id_: str, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> ModelProfile:
    """What is known of a model; for one that is not known, its vendor's defaults.

    ``overrides`` has the user's figures by model name: ``window``, ``max_output``, ``images``,
    ``thinking``, ``tools``, ``reasoning``, ``prices``. A dated or tagged id (``…-20251001``,
    ``…:latest``) is found under its plain one. Reads a file the first time, so use a thread.

    Raises:
        ModelSetupError: an override has a field or value that does not exist.
    """
    defaults = _defaults()
    row = _find(_tables().get(_SAME.get(vendor, vendor), {}), id_)
    own = _override(f"{vendor}/{id_}", overrides or {})
    base = defaults.get(_SAME.get(vendor, vendor), defaults[_OTHERS])
    rows = [own, row or _Row(), base, defaults[_OTHERS]]
    thinks = _first(rows, "thinking")
    reasoning: ReasoningStyle = _first(rows, "reasoning") or "none"
    if own.thinking and reasoning == "none":
        reasoning = "adaptive" if vendor == "anthropic" else "effort"
    info = ModelInfo(
        vendor=vendor,
        id=id_,
        window=_first(rows, "window"),
        max_output=_first(rows, "max_output"),
        images=bool(_first(rows, "images")),
        thinking=reasoning != "none" if thinks is None else thinks,
        tools=_first(rows, "tools") is not False,
        prices=_prices(own.prices, row.prices if row else None),
        known=row is not None or {"window", "max_output"} <= _given(own),
    )
    return ModelProfile(info=info, reasoning=reasoning)


def find_prices(
    model: str, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> Prices | None:
    """The prices of a model by the name that an agent uses for it; None: unknown.

    ``vendor/id`` is looked up as it is; a bare id is that of any vendor who has it, if all who
    have it agree. ``overrides``: as for ``profile_of``. Reads a file the first time.

    Raises:
        ModelSetupError: an override has a field or value that does not exist.
    """
    vendor, separator, id_ = model.strip().partition("/")
    if separator:
        found = profile_of(vendor, id_, overrides).info.prices
        # Some agents prefix the vendor of a vendor: openrouter/anthropic/claude-….
        return find_prices(id_, overrides) if found is None and "/" in id_ else found
    named = {name.partition("/")[0] for name in overrides or () if name.endswith(f"/{vendor}")}
    named |= {one for one, models in _tables().items() if _find(models, vendor) is not None}
    prices = {profile_of(one, vendor, overrides).info.prices for one in named}
    return prices.pop() if len(prices) == 1 else None


def _first(rows: list[_Row], name: str) -> Any:
    return next((value for row in rows if (value := getattr(row, name)) is not None), None)


def _given(row: _Row) -> set[str]:
    return {name for name in row.__struct_fields__ if getattr(row, name) is not None}


def _find(models: Mapping[str, _Row], id_: str) -> _Row | None:
    if id_ in models:
        return models[id_]
    plain = id_.partition(":")[0]
    if plain in models:
        return models[plain]
    stem, _, date = id_.rpartition("-")
    if date.isdigit() and len(date) == 8:  # claude-haiku-4-5-20251001
        return models.get(stem)
    parts = id_.rsplit("-", 3)
    if len(parts) == 4 and all(part.isdigit() for part in parts[1:]) and len(parts[1]) == 4:
        return models.get(parts[0])  # gpt-5.5-2026-04-23
    return None


def _override(name: str, overrides: Mapping[str, Mapping[str, Any]]) -> _Row:
    if name not in overrides:
        return _Row()
    try:
        return convert(overrides[name], _Row)
    except msgspec.ValidationError as error:
        raise ModelSetupError(f"the settings of model {name!r} are not valid: {error}") from None


def _prices(own: _Prices | None, known: _Prices | None) -> Prices | None:
    rows = [row for row in (own, known) if row is not None]
    if not any(price is not None for row in rows for price in msgspec.structs.astuple(row)):
        return None
    figures = {
        name: next((p for row in rows if (p := getattr(row, name)) is not None), None)
        for name in ("input", "output", "cached", "cache_written")
    }
    fresh = figures["input"] or 0.0
    return Prices(
        input=fresh,
        output=figures["output"] or 0.0,
        # A vendor that says nothing of its cache charges cached tokens as any others.
        cached=fresh if figures["cached"] is None else figures["cached"],
        cache_written=fresh if figures["cache_written"] is None else figures["cache_written"],
    )


@functools.cache
def _read() -> dict[str, dict[str, _Row]]:
    data = Path(__file__).with_name("catalogue.json").read_bytes()
    return decode_json(data, dict[str, dict[str, _Row]])


def _defaults() -> dict[str, _Row]:
    return _read()["defaults"]


def _tables() -> dict[str, dict[str, _Row]]:
    return {vendor: rows for vendor, rows in _read().items() if vendor != "defaults"}
