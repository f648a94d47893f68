"""How results are shown: side by side, with the goal beside the ratio."""

from dataclasses import dataclass

__all__ = ["Row", "show"]


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    figure: str
    ratio: str = ""
    goal: str = ""
    met: bool | None = None


def show(title: str, rows: list[Row]) -> None:
    print(f"\n{title}")
    widths = [max(len(getattr(row, name)) for row in rows) for name in ("what", "figure", "ratio")]
    for row in rows:
        mark = {None: "", True: "  met", False: "  MISSED"}[row.met]
        cells = (
            row.what.ljust(widths[0]),
            row.figure.rjust(widths[1]),
            row.ratio.rjust(widths[2]),
            f"goal {row.goal}{mark}" if row.goal else "",
        )
        print("  " + "  ".join(cells).rstrip())
