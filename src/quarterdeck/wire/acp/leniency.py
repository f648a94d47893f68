"""What the generated tables stand on: leniency rules and the checks of merged shapes."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct

__all__ = ["Leniency", "require"]


class Leniency(Struct, frozen=True):
    """What the schema lets a reader do with a field whose value is wrong."""

    on_error: bool = False
    """A wrong value counts as the field's default."""
    skip_items: bool = False
    """Wrong items of a list are left out; the others stay."""
    on_null: bool = False
    """Null counts as the field's default."""
    empty: Literal["list", "dict"] | None = None
    """The default, where it is an empty list or object; None where it is to leave the field out."""


def require(value: Struct, kind: str | None, fields: Mapping[str | None, tuple[str, ...]]) -> None:
    """Check that a merged value has what its kind needs.

    A kind that is not in ``fields`` is held to the entry for None, if there is one: the variant
    that the schema gives no tag.

    Raises:
        ValueError: A field of that kind is missing; msgspec makes it a ``ValidationError``.
    """
    for name in fields.get(kind, fields.get(None, ())):
        content: Any = getattr(value, name)
        if content is None or content is UNSET:
            raise ValueError(
                f"{type(value).__name__} of kind {kind or 'default'!r} needs {name!r}; give it"
            )
