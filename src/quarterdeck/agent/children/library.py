"""Where profiles are: with us, with the person, and in the project."""

import asyncio
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from quarterdeck.system.plain_file import read_plain_file

from .profile import BadProfile, Profile, parse_profile
from .seam import Shelf

__all__ = ["DEFAULT", "Library", "built_in", "part", "read_profiles"]

DEFAULT = "explore"
"""The profile that is meant where none is named."""
_MOST_FILES = 200
_MOST_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Library:
    """The profiles that can be used, and why others cannot."""

    profiles: dict[str, Profile]
    problems: tuple[str, ...] = field(default=())

    def own(self) -> tuple[Profile, ...]:
        """Those that did not come with us, by name."""
        own = (one for one in self.profiles.values() if one.source != "built in")
        return tuple(sorted(own, key=lambda one: one.name))


@cache
def part() -> str:
    """What every child is told. Reads a file."""
    return Path(__file__).with_name("child.md").read_text("utf-8").strip()


@cache
def built_in() -> tuple[Profile, ...]:
    """The profiles that come with us. Reads files."""
    paths = sorted(Path(__file__).with_name("profiles").glob("*.md"))
    return tuple(parse_profile(p.read_text("utf-8"), "built in", stem=p.stem) for p in paths)


async def read_profiles(shelves: tuple[Shelf, ...]) -> Library:
    """Read them as they are now; what cannot be used is left out and told."""
    return await asyncio.to_thread(_read, shelves)


def _read(shelves: tuple[Shelf, ...]) -> Library:
    found: dict[str, Profile] = {}
    problems: list[str] = []
    for shelf in shelves:
        for path in sorted(shelf.path.glob("*.md"))[:_MOST_FILES]:
            try:
                profile = _profile(path, shelf)
            except BadProfile as error:
                problems.append(str(error))
                continue
            found.setdefault(profile.name, profile)
    for profile in built_in():
        found.setdefault(profile.name, profile)
    return Library(found, tuple(problems))


def _profile(path: Path, shelf: Shelf) -> Profile:
    try:
        data = read_plain_file(path, _MOST_BYTES + 1)
    except OSError as error:
        raise BadProfile(f"profile {str(path)!r} cannot be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise BadProfile(f"profile {str(path)!r} is larger than {_MOST_BYTES} bytes")
    text = data.decode("utf-8", "replace")
    return parse_profile(text, str(path), stem=path.stem, claude=shelf.claude)
