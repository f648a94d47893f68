"""What the model is told about a command."""

from quarterdeck.system.port import Exit, OutputView

__all__ = ["ended", "printed", "title_of"]

_TITLE = 100


def title_of(line: str) -> str:
    """A call's title: the first line of the command, cut; never what the model says it does."""
    first, _, rest = line.strip().partition("\n")
    text = first if len(first) <= _TITLE else first[: _TITLE - 1] + "…"
    return f"{text} …" if rest else text


def printed(view: OutputView, file: str) -> str:
    """The output, with the number of bytes that are missing and where they are."""
    if not view.is_truncated:
        return view.text.rstrip("\n") or "(no output)"
    return (
        f"{view.head}\n[… {view.dropped} of {view.total} bytes are not shown; "
        f"the whole output is in {file} …]\n{view.tail}"
    ).rstrip("\n")


def ended(left: Exit | None, seconds: float) -> str:
    """How the command ended, in one line; None: it still runs."""
    return f"[{left or 'still running'}, {seconds:.1f} s]"
