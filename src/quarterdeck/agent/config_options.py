"""A session's settings as people see and change them: mode, model, effort."""

from typing import get_args

from quarterdeck.models.model import Effort, ModelInfo
from quarterdeck.policy.modes import MODE_MEANINGS, MODES
from quarterdeck.policy.modes import Mode as ModeName
from quarterdeck.wire.errors import QuarterdeckError
from quarterdeck.wire.settings import ConfigChoice, ConfigOption, Mode

__all__ = ["EFFORTS", "UnknownEffortError", "effort_in", "modes_of", "options_of", "parse_effort"]

EFFORTS: tuple[Effort, ...] = get_args(Effort)
_EFFORT_NAMES: dict[Effort, str] = {
    "off": "Off",
    "low": "Low",
    "medium": "Medium",
    "high": "High",
}


class UnknownEffortError(QuarterdeckError):
    """There is no such effort."""


def parse_effort(name: str) -> Effort:
    """The effort of this name. Raises UnknownEffortError."""
    for effort in EFFORTS:
        if name == effort:
            return effort
    raise UnknownEffortError(f"there is no effort {name!r}; use one of {', '.join(EFFORTS)}")


_MODE_NAMES: dict[ModeName, str] = {
    "ask": "Ask",
    "accept-edits": "Accept edits",
    "plan": "Plan",
    "read-only": "Read only",
    "full-auto": "Full auto",
    "deny-all": "Deny all",
}


def modes_of() -> tuple[Mode, ...]:
    """The permission modes, in the order in which they are offered."""
    assert set(_MODE_NAMES) == set(MODES)
    return tuple(
        Mode(id=mode, name=name, description=_sentence(MODE_MEANINGS[mode]))
        for mode, name in _MODE_NAMES.items()
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def options_of(
    mode: ModeName, model: ModelInfo, models: tuple[str, ...], effort: Effort
) -> tuple[ConfigOption, ...]:
    """The settings, complete, the most important first."""
    names = models if model.name in models else (model.name, *models)
    options = [
        ConfigOption(
            id="mode",
            name="Permissions",
            type="select",
            category="mode",
            current_value=mode,
            options=tuple(
                ConfigChoice(value=each.id, name=each.name, description=each.description)
                for each in modes_of()
            ),
        ),
        ConfigOption(
            id="model",
            name="Model",
            type="select",
            category="model",
            current_value=model.name,
            options=tuple(ConfigChoice(value=name, name=name) for name in names),
        ),
    ]
    if model.thinking:
        options.append(
            ConfigOption(
                id="effort",
                name="Thinking",
                type="select",
                category="thought_level",
                current_value=effort,
                options=tuple(
                    ConfigChoice(value=value, name=_EFFORT_NAMES[value]) for value in EFFORTS
                ),
            )
        )
    return tuple(options)


def effort_in(options: tuple[ConfigOption, ...]) -> Effort | None:
    """The effort that a list of options says, if it does."""
    for option in options:
        if option.id == "effort":
            return next((effort for effort in EFFORTS if effort == option.current_value), None)
    return None
