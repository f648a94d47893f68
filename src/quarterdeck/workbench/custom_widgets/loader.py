"""Running a custom widget's source, and finding the panel in it."""

import linecache
import sys
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from textual.css.errors import StylesheetError
from textual.css.tokenizer import TokenError
from textual.widget import Widget

from ..panels.panel import Panel
from ..sanitize import sanitize_line
from .library import CustomWidgetError, WidgetSource

if TYPE_CHECKING:
    from textual.app import App

__all__ = ["MARK", "WidgetBlockedError", "describe_error", "load_widget", "locate_error"]

MARK = "<widget "
"""What the file names of custom code begin with."""


class WidgetBlockedError(BaseException):
    """Thrown into custom code that does not come to an end.

    No ``Exception``: code that catches those shall not catch this.
    """


def load_widget(source: WidgetSource, app: "App[Any]") -> type[Panel]:
    """Run a source and give the panel that it defines.

    Raises:
        CustomWidgetError: it does not run, defines no panel, or its style sheet is wrong.
        WidgetBlockedError: it did not come to an end.
    """
    module = ModuleType(f"quarterdeck_widgets.{source.name.replace('-', '_')}")
    file = f"{MARK}{source.name}>"
    linecache.cache[file] = (len(source.text), None, source.text.splitlines(True), file)
    try:
        code = compile(source.text, file, "exec", dont_inherit=True)
        sys.modules[module.__name__] = module  # dataclasses and the like look it up
        exec(code, module.__dict__)
    except WidgetBlockedError:
        raise
    except BaseException as error:
        raise CustomWidgetError(f"cannot load it: {describe_error(error)}") from error
    mine = [one for one in vars(module).values() if _is_panel(one, module.__name__)]
    if len(mine) != 1:
        raise CustomWidgetError(f"it defines {len(mine)} subclasses of Panel; define exactly one")
    _check_css(module, app)
    return mine[0]


def describe_error(error: BaseException) -> str:
    """An error in a line: what it says, and where in the widget's file."""
    if isinstance(error, SystemExit):
        words = f"it called sys.exit({error.code!r})"
    elif isinstance(error, WidgetBlockedError):
        words = str(error)
    elif isinstance(error, SyntaxError):
        return sanitize_line(f"SyntaxError: {error.msg}, line {error.lineno}", 400)
    else:
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    line = locate_error(error.__traceback__)
    return sanitize_line(words, 400) + (f" (line {line})" if line else "")


def locate_error(traceback: TracebackType | None) -> int | None:
    """The line of custom code that an error came from."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename.startswith(MARK):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _is_panel(value: object, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, Panel) and value.__module__ == module


def _check_css(module: ModuleType, app: "App[Any]") -> None:
    """A rule that cannot be read would fail much later, in the style sheet of everything."""
    from textual.css.stylesheet import Stylesheet, StylesheetParseError

    for name, value in vars(module).items():
        if isinstance(value, type) and issubclass(value, Widget) and "DEFAULT_CSS" in vars(value):
            trial = Stylesheet(variables=app.get_css_variables())
            trial.add_source(value.DEFAULT_CSS, read_from=(name, "DEFAULT_CSS"))
            try:
                trial.parse()
            except (StylesheetError, StylesheetParseError, TokenError) as error:
                raise CustomWidgetError(f"the DEFAULT_CSS of {name} is invalid") from error
