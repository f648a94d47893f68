"""What the help shows: gathered from the bindings themselves, so that it cannot differ."""

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from .commands import COMMANDS

__all__ = ["help_parts"]


def help_parts() -> list[tuple[str, list[tuple[str, str]]]]:
    """Titles, and below each the keys and what they do."""
    from .app import Workbench
    from .screens.permission import PermissionScreen
    from .screens.question import QuestionScreen
    from .widgets.chat import ChatInput
    from .widgets.transcript import TranscriptView

    return [
        ("Everywhere", [*_keys(Workbench.BINDINGS), ("ctrl+p", "every command by name")]),
        ("In the input", [*_keys(ChatInput.BINDINGS), ("/name", "a command, see below")]),
        ("In the transcript (f3)", _keys(TranscriptView.BINDINGS)),
        ("When an agent asks for leave", _keys(PermissionScreen.BINDINGS, hidden=False)),
        ("When an agent asks something", _keys(QuestionScreen.BINDINGS)),
        ("Commands", [(f"/{command.name}", command.help) for command in COMMANDS]),
    ]


def _keys(bindings: Iterable[BindingType], *, hidden: bool = True) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for binding in bindings:
        if isinstance(binding, Binding) and binding.description and (binding.show or hidden):
            keys = binding.key.replace("right_square_bracket", "]").replace(
                "left_square_bracket", "["
            )
            found.append((keys.replace(",", ", "), binding.description))
    return found
