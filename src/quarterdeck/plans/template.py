r"""Templates: texts with names in double braces, such as ``{{inputs.module}}``.

Names are ``inputs.NAME``, ``tasks.NAME.output`` and, in the message after a failed check,
``check.name``, ``check.reason`` and ``check.output``. ``\{{`` is two braces. Values are put in
once: what an agent wrote is never read as a template.
"""

import re
from collections.abc import Callable, Iterator, Mapping

__all__ = ["fill_template", "list_names"]

_FORM = re.compile(r"\\\{\{|\{\{(.*?)\}\}|\{\{", re.DOTALL)


def list_names(text: str) -> Iterator[tuple[str, int]]:
    """The names in a template, each with the lines before it; an open brace has the name ``{{``."""
    for found in _FORM.finditer(text):
        if found[0] != r"\{{":
            name = found[1].strip() if found[1] is not None else "{{"
            yield name, text.count("\n", 0, found.start())


def fill_template(
    text: str, values: Mapping[str, str], quote: Callable[[str], str] = lambda value: value
) -> str:
    """Put values into a template.

    Args:
        text: the template.
        values: by name.
        quote: makes a value fit for where it goes.

    Raises:
        KeyError: a name has no value; a plan that was checked has none of those.
    """

    def put(found: re.Match[str]) -> str:
        return "{{" if found[0] == r"\{{" else quote(values[(found[1] or "").strip()])

    return _FORM.sub(put, text)
