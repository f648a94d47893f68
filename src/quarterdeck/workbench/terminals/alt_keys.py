"""Keys with alt, as plain terminals send them: escape and the character.

Textual finds out that they are keys when nothing follows for a tenth of a second; two of them in
a row, or one with a sign such as ``alt+.``, it takes for others. Known beforehand, each is a key
at once.
"""

import string
from typing import Any, cast

__all__ = ["know_alt_keys"]

_BEGINS = frozenset("[]OP^_\\")
"""What begins a sequence, or ends one."""


class _Named:
    """A key by its name, as Textual's table holds them."""

    def __init__(self, value: str) -> None:
        self.value = value


def know_alt_keys() -> None:
    """Let Textual know them; what it knows already stays."""
    from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
    from textual.keys import _character_to_key  # pyright: ignore[reportPrivateUsage]

    table = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    for character in string.ascii_letters + string.digits + string.punctuation:
        if character in _BEGINS:
            continue
        name = _character_to_key(character)
        if character.isupper():
            name = f"shift+{name.lower()}"
        table.setdefault(f"\x1b{character}", (_Named(f"alt+{name}"),))
