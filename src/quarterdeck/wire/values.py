"""The two kinds of value on the wire, as base classes.

Both are frozen and leave out what has its default value. They are not tracked by the garbage
collector: a frozen value cannot come to hold itself. ``Value`` is our own form: snake case,
unknown fields are an error. ``AcpValue`` has the Agent Client Protocol's form, so that content
passes through us unchanged: camel case, a ``_meta`` object, unknown fields ignored.
"""

from typing import Any

from msgspec import Struct, field

__all__ = ["AcpValue", "Value"]


class Value(
    Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """A value in our own form."""


class AcpValue(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False):
    """A value in the form that the Agent Client Protocol gives it."""

    meta: dict[str, Any] | None = field(name="_meta", default=None)
    """Free room for extensions; carried along, never interpreted here."""
