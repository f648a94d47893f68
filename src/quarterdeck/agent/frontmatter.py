"""Markdown files that begin with facts between two lines of dashes.

Only what people write there is read, not all of YAML: ``key: value``, a list in brackets or of
lines that begin with a dash, text in quotes, and text that goes on over indented lines.
"""

from dataclasses import dataclass, field

__all__ = ["FrontMatter", "read_front_matter"]

_FENCE = "---"
_QUOTES = ('"', "'")


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The facts at the top of a file, as text or as lists of text, and what follows them."""

    facts: dict[str, str | tuple[str, ...]] = field(
        default_factory=dict["str", "str | tuple[str, ...]"]
    )
    body: str = ""

    def text(self, key: str) -> str:
        """A fact as text; a list is joined with commas. Empty: there is none."""
        value = self.facts.get(key, "")
        return value if isinstance(value, str) else ", ".join(value)

    def words(self, key: str) -> tuple[str, ...] | None:
        """A fact as a list; text is split at commas. None: there is none."""
        value = self.facts.get(key)
        if value is None or isinstance(value, tuple):
            return value
        return tuple(word for part in value.split(",") if (word := part.strip()))


def read_front_matter(text: str) -> FrontMatter:
    """Take a file apart; one that does not begin with dashes has no facts. Never raises."""
    lines = text.lstrip("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        return FrontMatter(body=text.strip())
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        return FrontMatter(body=text.strip())
    return FrontMatter(_facts(lines[1:end]), "\n".join(lines[end + 1 :]).strip())


def _facts(lines: list[str]) -> dict[str, str | tuple[str, ...]]:
    facts: dict[str, str | tuple[str, ...]] = {}
    key = ""
    for line in lines:
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if key and (line[0].isspace() or stripped.startswith("- ")):
            facts[key] = _longer(facts[key], stripped)
        elif ":" in stripped:
            key, _, value = stripped.partition(":")
            key = key.strip()
            facts[key] = _value(value.strip())
    return facts


def _longer(value: str | tuple[str, ...], line: str) -> str | tuple[str, ...]:
    if line.startswith("- "):
        return (*(value if isinstance(value, tuple) else ()), _plain(line[2:]))
    return f"{value} {line}".strip() if isinstance(value, str) else value


def _value(value: str) -> str | tuple[str, ...]:
    if value.startswith("[") and value.endswith("]"):
        return tuple(word for part in value[1:-1].split(",") if (word := _plain(part)))
    # A sign that the text is on the next lines.
    return "" if value in (">", "|", ">-", "|-") else _plain(value)


def _plain(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] in _QUOTES and value[-1] == value[0]:
        return value[1:-1]
    return value
