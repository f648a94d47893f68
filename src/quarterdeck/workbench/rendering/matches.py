"""What was searched for, marked where it stands."""

import re

from .lines import Line, Span, text_of

__all__ = ["is_exact", "marked", "pattern"]


def is_exact(words: str) -> bool:
    """Whether capital letters count: they do once somebody types one."""
    return words != words.lower()


def pattern(words: str) -> "re.Pattern[str]":
    """What finds the words in a line."""
    return re.compile(re.escape(words), re.NOFLAG if is_exact(words) else re.IGNORECASE)


def marked(line: Line, words: "re.Pattern[str]") -> Line:
    """The line with each match in a span of its own, whose role is ``match``."""
    found = [match.span() for match in words.finditer(text_of(line))]
    if not found:
        return line
    spans: list[Span] = []
    begin = 0
    for text, role in line:
        at = 0
        for start, end in found:
            left, right = max(at, start - begin), min(len(text), end - begin)
            if left < right:
                spans += [(text[at:left], role), (text[left:right], "match")]
                at = right
        spans.append((text[at:], role))
        begin += len(text)
    return tuple(span for span in spans if span[0])
