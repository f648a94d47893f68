"""What a performance has told so far, as parts of the conversation."""

from typing import TypeAlias, assert_never

from quarterdeck.models.script.beats import Beat, Break, Rest, Say, Think, ToolPiece, ToolStart
from quarterdeck.wire.conversation import Message, Part, TextPart, ThinkingPart, ToolUsePart

__all__ = ["SIGNATURE", "VENDOR", "Told"]

SIGNATURE = "c2NyaXB0ZWQ="
"""The seal on every scripted thought."""
VENDOR = "scripted"

_Kind: TypeAlias = ToolStart | type[Say] | type[Think]


class Told:
    """Puts beats together to the parts of a reply."""

    def __init__(self) -> None:
        self._blocks: list[tuple[_Kind, list[str]]] = []

    def add(self, beat: Beat) -> None:
        """Append a beat; rests and breaks say nothing."""
        match beat:
            case Say(text) | Think(text):
                kind = type(beat)
                if not self._blocks or self._blocks[-1][0] is not kind:
                    self._blocks.append((kind, []))
                self._blocks[-1][1].append(text)
            case ToolStart():
                self._blocks.append((beat, []))
            case ToolPiece(_, text):
                self._blocks[-1][1].append(text)
            case Rest() | Break():
                pass
            case _:
                assert_never(beat)

    def parts(self) -> tuple[Part, ...]:
        """What has been told so far."""
        return tuple(_part(kind, "".join(pieces)) for kind, pieces in self._blocks)

    def message(self) -> Message:
        """What has been told so far, as the model's entry of the conversation."""
        return Message(role="assistant", parts=self.parts())


def _part(kind: _Kind, text: str) -> Part:
    if isinstance(kind, ToolStart):
        return ToolUsePart(id=f"call_{kind.id}", name=kind.name, arguments=text)
    if kind is Think:
        return ThinkingPart(text=text, vendor=VENDOR, signature=SIGNATURE)
    return TextPart(text=text)
