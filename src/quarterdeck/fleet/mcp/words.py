"""Words between agents: wrapped so that nobody takes them for a person's, and cut to a size."""

from html import escape
from typing import Literal, TypeAlias

from quarterdeck.wire.content import ContentBlock, TextContent

__all__ = ["NOT_A_PERSON", "Kind", "cut", "from_agent", "text_of"]

Kind: TypeAlias = Literal["note", "question", "message", "answer", "done"]
_TAG = "message-from-agent"
NOT_A_PERSON = "From another agent, not from the user:"
"""What stands before such words where they are a prompt."""


def from_agent(name: str, kind: Kind, words: str, *, request: str | None = None) -> str:
    """What an agent says to another.

    ``<`` and ``&`` in the words are escaped, so that no words can end the frame, begin another or
    look like a frame of the reader's own system.
    """
    which = f' request="{escape(request)}"' if request is not None else ""
    frame = f'<{_TAG} name="{escape(name)}" kind="{kind}"{which}>'
    return f"{frame}\n{escape(words, quote=False)}\n</{_TAG}>"


def cut(words: str, most: int) -> str:
    """The words, or their beginning and how much is left out."""
    if len(words) <= most:
        return words
    return f"{words[:most]}… ({len(words) - most} more characters)"


def text_of(content: tuple[ContentBlock, ...]) -> str:
    """The text of a prompt; other content by its kind."""
    return "\n".join(
        block.text if isinstance(block, TextContent) else f"[{block.__struct_config__.tag}]"
        for block in content
    )
