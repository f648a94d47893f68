"""What settings take: numbers, texts and names with their limits, and how each is described."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

__all__ = [
    "Allowance",
    "BranchPattern",
    "BudgetText",
    "CallKind",
    "Count",
    "Days",
    "Delay",
    "Dollars",
    "Gigabytes",
    "HostName",
    "HostUrl",
    "Minutes",
    "ModelName",
    "Occasion",
    "PersonName",
    "QuietHours",
    "Retries",
    "Seconds",
    "ServerName",
    "Share",
    "Url",
    "Variable",
]

Occasion: TypeAlias = Literal["needed", "done", "failed", "conflict"]
"""The occasions of notifications."""
CallKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "fetch"]
"""What a tool call does, as far as agents say so."""

Count: TypeAlias = Annotated[int, Meta(ge=1, description="a whole number, at least 1")]
Retries: TypeAlias = Annotated[int, Meta(ge=0, description="a whole number, at least 0")]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, description="a number of seconds above 0")]
Dollars: TypeAlias = Annotated[float, Meta(ge=0, description="a number of US dollars")]
Share: TypeAlias = Annotated[
    float, Meta(gt=0, le=1, description="a part of the whole, above 0, at most 1")
]
Minutes: TypeAlias = Annotated[float, Meta(ge=0, description="a number of minutes")]
Delay: TypeAlias = Annotated[float, Meta(ge=0, description="a number of seconds")]
Days: TypeAlias = Annotated[float, Meta(ge=0, description="a number of days")]
Gigabytes: TypeAlias = Annotated[float, Meta(gt=0, description="a number of gigabytes above 0")]
BranchPattern: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[^\s]*\{agent\}[^\s]*$", description="a name of a branch with {agent} in it"),
]
QuietHours: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$",
        description="two times of the day in the form 22:00-07:00",
    ),
]
BudgetText: TypeAlias = Annotated[
    str,
    Meta(
        pattern=(
            r"^([0-9][0-9_]*([.][0-9]+)?|[.][0-9]+) ?"
            r"(usd|[$]|[km]?tok(en)?s?|calls?|s|sec|m|min|h|hours?|agents?)$"
        ),
        description="a budget in the form 5usd, 200ktok, 50calls, 30min or 8agents",
    ),
]
Allowance: TypeAlias = Annotated[
    float, Meta(ge=0, le=1, description="a part of the whole, from 0 to 1")
]
Url: TypeAlias = Annotated[
    str, Meta(pattern=r"^https?://[^\s]+$", description="a URL with http:// or https://")
]
ModelName: TypeAlias = Annotated[
    str, Meta(pattern=r"^[^/\s]+/\S+$", description="a model's name in the form vendor/id")
]
ServerName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^(?!.*__)[A-Za-z0-9][A-Za-z0-9_-]{0,31}$",
        description="a name of at most 32 letters, digits, '-' and '_', no two '_' together",
    ),
]
HostName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        description="a name of at most 64 letters, digits, '-', '_' and '.'",
    ),
]
HostUrl: TypeAlias = Annotated[
    str, Meta(pattern=r"^ssh://[^\s]+$", description="a URL with ssh://")
]
PersonName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$",
        description="a name of at most 64 letters, digits, '-', '_', '.' and '@'",
    ),
]
Variable: TypeAlias = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="the name of an environment variable"),
]
