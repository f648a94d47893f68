"""A session as one HTML page that loads nothing and runs nothing."""

from html import escape

from quarterdeck.wire.ids import SessionId

from .passages import Block, Passage
from .plain import one_line, shown, when

__all__ = ["HtmlWriter"]

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
section {{ border-left: 3px solid #8888; padding-left: 1rem; margin: 1.5rem 0; }}
section.prompt {{ border-color: #36c; }}
section.message {{ border-color: #393; }}
section.permission, section.question {{ border-color: #c63; }}
section.sub {{ margin-left: 2rem; }}
h2 {{ font-size: 1rem; margin: 0; overflow-wrap: anywhere; }}
time, .label {{ font-size: .8rem; opacity: .7; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: .5rem 0; }}
pre.input, pre.output, pre.diff {{ background: #8882; padding: .5rem; font-size: .85rem; }}
</style>
</head>
<body>
<h1>{title}</h1>
"""


class HtmlWriter:
    """Writes a page; every text in it is escaped and stands for itself."""

    def begin(self, session: SessionId) -> str:
        """The head."""
        return _HEAD.format(title=_line(f"Session {session}"))

    def write(self, passage: Passage) -> str:
        """A section."""
        classes = passage.kind + (" sub" if passage.parent else "")
        head = (
            f'<section class="{classes}" id="seq-{passage.seq}">\n<h2>{_line(passage.title)}</h2>\n'
            f"<time>{when(passage.time)}</time>\n"
        )
        return head + "".join(_block(block) for block in passage.blocks) + "</section>\n"

    def end(self) -> str:
        """The foot."""
        return "</body>\n</html>\n"


def _block(block: Block) -> str:
    label = f'<div class="label">{_line(block.label)}</div>\n' if block.label else ""
    # A line end right after <pre> would be swallowed.
    return f'{label}<pre class="{block.kind}" dir="ltr">\n{escape(shown(block.text))}</pre>\n'


def _line(text: str) -> str:
    return escape(one_line(text))
