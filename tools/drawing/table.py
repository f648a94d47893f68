"""A small application with a table, a list and a field, to be recorded."""

from typing import cast

from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.widgets import DataTable, Footer, Header, Input, Label, ListItem, ListView, ProgressBar


class Table(App[None]):
    """Draws much of what such applications draw."""

    TITLE = "Harbour"
    CSS = "ListView { width: 24; border: round green; } DataTable { border: heavy $accent; }"
    BINDINGS = [  # noqa: RUF012 - as it is done in such applications
        ("ctrl+q", "quit", "Quit"),
        ("f2", "nothing", "Weigh anchor"),
    ]

    def compose(self) -> ComposeResult:
        """Make its widgets."""
        yield Header()
        with Horizontal():
            yield ListView(*[ListItem(Label(f"berth {n} 港")) for n in range(6)])
            yield DataTable[str](cursor_type="row")
        yield ProgressBar(total=100, show_eta=False)
        yield Input(placeholder="name of a ship")
        yield Footer()

    def on_mount(self) -> None:
        """Fill them."""
        table = cast("DataTable[str]", self.query_one(DataTable))
        table.add_columns("ship", "flag", "tons")
        for n in range(20):
            table.add_row(f"ship [b]{n}[/b]", "🇳🇴" if n % 2 else "日本", str(n * 1000))
        self.query_one(ProgressBar).advance(40)


if __name__ == "__main__":
    Table().run()
