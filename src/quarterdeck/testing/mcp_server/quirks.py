"""What the server can be told to do wrong."""

from dataclasses import dataclass, field

__all__ = ["Quirks", "quirks_of"]


@dataclass(kw_only=True)
class Quirks:
    """Told as ``name`` or ``name=value`` on the command line."""

    era: str = "legacy"
    """``legacy``, ``modern`` or ``dual``."""
    silent: bool = False
    """Answers nothing at all."""
    slow: float = 0.0
    """Seconds before it answers the greeting."""
    garbage: bool = False
    """Writes what is no message between messages."""
    leaves: bool = False
    """Ends at once when it is asked anything before ``initialize``."""
    dies: bool = False
    """Ends after it has listed its tools, once; see ``mark``."""
    always_dies: bool = False
    """Ends after it has listed its tools, every time."""
    broken: bool = False
    """Ends before it says anything, with words on standard error."""
    schemas: bool = False
    """Lists tools whose schemas are wrong, beside good ones."""
    paged: bool = False
    """Lists one tool on each page."""
    endless: bool = False
    """Lists pages without end."""
    tardy: float = 0.0
    """Seconds that it takes to list its tools, from the second time on."""
    storm: int = 0
    """How many changes of its tools it tells at once when a tool is called."""
    version: str = ""
    """The version that it claims to speak."""
    token: str = ""
    """Over HTTP: the bearer token that it wants."""
    old: bool = False
    """Over HTTP: the transport that there was at first."""
    forgets: bool = False
    """Over HTTP: forgets its session once, after the first call."""
    mark: str = ""
    """A file that is made when it has died once."""
    seen: list[str] = field(default_factory=list[str])
    """What has been cancelled, deleted and resumed."""


def quirks_of(words: tuple[str, ...]) -> Quirks:
    """Read the words of the command line. Raises SystemExit for one that is not known."""
    quirks = Quirks()
    for word in words:
        name, _, value = word.partition("=")
        name = name.replace("-", "_")
        known = getattr(quirks, name, None)
        if isinstance(known, bool):
            setattr(quirks, name, True)
        elif isinstance(known, str | int | float):
            setattr(quirks, name, type(known)(value))
        else:
            raise SystemExit(f"mcp-server: there is no quirk {name!r}")
    return quirks
