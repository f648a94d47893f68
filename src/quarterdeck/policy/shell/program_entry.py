"""One program's options as data, and what they make of a word.

An entry says what a rule with an open end (``bash(git log:*)``) does not reach:

- ``short``: letters of options that run a program, load code or settings, write a file that the
  option names, or work in another directory. A letter counts anywhere in a cluster, up to a letter
  of ``valued``, which takes the rest of the word as its value;
- ``long``: the same as long options. Every beginning of one counts, since most programs accept an
  abbreviation, unless it is the whole name of an option in ``harmless``;
- ``starts``: the same as the beginning of any word, or of an option's value.

``harmless`` also holds options whose help sounds dangerous, and that were judged.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

__all__ = ["ProgramOptions", "entry"]


class ProgramOptions(Struct, frozen=True, kw_only=True):
    """The options of one program or subcommand."""

    names: frozenset[str] = frozenset()
    """Its other names."""
    short: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    """With ``long_flags`` and ``long_valued``: options that may stand before a subcommand and leave
    it certain which it is. After any other the options of all subcommands count."""
    long: tuple[str, ...] = ()
    harmless: frozenset[str] = frozenset()
    starts: tuple[str, ...] = ()
    text: frozenset[str] = frozenset()
    """Options whose value is text for people: it names no file and no program."""
    code: frozenset[str] = frozenset()
    """Options whose value is run, for deny rules; ``short`` and ``long`` are searched anyway."""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    single: bool = False
    """Long options have one dash (``-exec``), and there are no clusters."""
    bundled: bool = False
    """A first word without a dash is a cluster, too: ``tar xf``."""
    stops: bool = False
    """Its options end at the first operand, which is a script."""
    module: str = ""
    """The option whose value is run in place of a script."""
    operands: str = ""
    """What a word that is no option reaches further by, wherever in it: code, settings. An
    expression without regard to case; "": nothing."""
    closed: bool = False
    """A subcommand without an entry may be any program: it is not covered."""
    runs: bool = False
    """As a subcommand: its words are what it runs, so a rule must name one of them."""
    open: bool = False
    """An "always" with more words after the program's name, or the subcommand's, may be offered."""
    anywhere: bool = False
    """The program's own options also count after its subcommand."""
    sub: Mapping[str, "ProgramOptions"] = field(default_factory=lambda: MappingProxyType({}))

    def reaches(self, value: str) -> bool:
        """Say whether a word is an option, or has a value, that reaches further."""
        if value.startswith(self.starts) or self._value_of(value).startswith(self.starts):
            return bool(self.starts)
        if not value.startswith("-") or value in ("-", "--"):
            return bool(self.operands) and _compiled(self.operands).search(value) is not None
        if self.single:
            return self._single(value)
        return self._long(value) if value.startswith("--") else self._cluster(value[1:])

    def _value_of(self, value: str) -> str:
        if not value.startswith("-"):
            return "\0"
        return value.partition("=")[2] or (value[2:] if value[1:2] != "-" else "") or "\0"

    def _single(self, value: str) -> bool:
        name = value.partition("=")[0].lstrip("-")
        if "-" + name in self.harmless or "--" + name in self.harmless:
            return False
        for known in self.long:
            bare = known.lstrip("-")
            if name == bare or (bare.endswith("*") and name.startswith(bare[:-1])):
                return True
        return False

    def _long(self, value: str) -> bool:
        name = value.partition("=")[0]
        if value in self.long or name in self.long:
            return True
        judged = (self.harmless, self.long_flags, self.long_valued, self.text)
        if any(name in known for known in judged):
            return False
        # An unambiguous beginning is the option; what is ambiguous is refused by the program.
        return any(
            known.startswith(name) or (known[-1] in "-." and name.startswith(known))
            for known in self.long
        )

    def _cluster(self, letters: str) -> bool:
        for letter in letters:
            if letter in self.short:
                return True
            if letter in self.valued:
                return False
        return False


@cache
def _compiled(operands: str) -> re.Pattern[str]:
    # Where it is first needed: a command line has few programs, and the tables many.
    return re.compile(operands, re.IGNORECASE)


def entry(
    *,
    names: str = "",
    short: str = "",
    valued: str = "",
    flags: str = "",
    long: str = "",
    harmless: str = "",
    starts: str = "",
    text: str = "",
    code: str = "",
    long_flags: str = "",
    long_valued: str = "",
    single: bool = False,
    bundled: bool = False,
    stops: bool = False,
    module: str = "",
    operands: str = "",
    closed: bool = False,
    runs: bool = False,
    open: bool = False,
    anywhere: bool = False,
    sub: Mapping[str, ProgramOptions] | None = None,
) -> ProgramOptions:
    """Make an entry from words in one text each; subcommands share what holds for all of them."""
    known = frozenset(harmless.split())
    begun = tuple(starts.split())
    shared = {
        name: replace(
            each, single=single, harmless=known | each.harmless, starts=begun + each.starts
        )
        for name, each in (sub or {}).items()
    }
    return ProgramOptions(
        names=frozenset(names.split()),
        short=frozenset(short),
        valued=frozenset(valued),
        flags=frozenset(flags),
        long=tuple(long.split()),
        harmless=known,
        starts=begun,
        text=frozenset(text.split()),
        code=frozenset(code.split()),
        long_flags=frozenset(long_flags.split()),
        long_valued=frozenset(long_valued.split()),
        single=single,
        bundled=bundled,
        stops=stops,
        module=module,
        operands=operands,
        closed=closed,
        runs=runs,
        open=open,
        anywhere=anywhere,
        sub=MappingProxyType(shared),
    )
