"""Curves: the rule for what is flat, the picture of it, and that the bench names what grows."""

import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.__main__ import report_missed
from bench.curves import Curve, CurveChart, draw_curves, format_tick, place_ticks
from bench.docs import write_docs
from bench.flatness import FEWEST_POINTS, Tolerance, judge_flatness
from bench.table import Row, Table, format_markdown

CHART = CurveChart(
    "life-memory",
    "Memory <of> the host & more",
    "hours",
    "MB",
    (Curve("RSS", ((1, 60), (2, 80.5), (3, 81))), Curve("PSS", ((1, 50), (2, 70), (3, 70)))),
)


def test_a_leak_is_not_flat_and_a_cache_that_fills_is():
    leak = [50 + 0.5 * hour for hour in range(24)]
    cache = [min(50 + 4 * hour, 90) for hour in range(24)]
    assert judge_flatness(leak, Tolerance(0.05, 1)).is_flat is False
    assert judge_flatness(leak, Tolerance(0.05, 1)).growth == pytest.approx(5.5)
    assert judge_flatness(cache, Tolerance(0.05, 1)).is_flat is True
    assert judge_flatness(leak[::-1], Tolerance(0.0, 0.0)).is_flat is True


def test_a_few_busy_moments_do_not_make_a_slope():
    curve = [10.0] * 24
    curve[17], curve[22], curve[23] = 40, 35, 60
    assert judge_flatness(curve, Tolerance(0.05, 0)).is_flat is True


def test_too_few_points_are_not_judged():
    assert judge_flatness([1, 2, 3], Tolerance(0, 0)).is_flat is None
    assert judge_flatness(range(FEWEST_POINTS), Tolerance(0, 0)).is_flat is False
    with pytest.raises(ValueError, match="without points"):
        judge_flatness([], Tolerance(0, 0))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1e6, 1e6), min_size=FEWEST_POINTS, max_size=30), st.floats(-1000, 1000))
def test_an_offset_changes_no_growth(values: list[float], offset: float):
    moved = [value + offset for value in values]
    before, after = (judge_flatness(one, Tolerance(0, 1)).growth for one in (values, moved))
    assert after == pytest.approx(before, abs=1e-3)


def test_a_chart_is_whole_svg_in_both_schemes():
    root = xml.fromstring(draw_curves(CHART))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [line.attrib["class"] for line in lines] == ["curve k0", "curve k1"]
    assert all(len((line.attrib["points"]).split()) == 3 for line in lines)
    assert {"Memory <of> the host & more", "RSS", "PSS", "MB", "hours"} <= set(texts)
    assert "prefers-color-scheme: dark" in draw_curves(CHART)


def test_points_lie_within_the_picture():
    chart = CurveChart("a", "a", "x", "", (Curve("one", ((5.0, -2.0), (9.0, 1e9))),))
    (line,) = xml.fromstring(draw_curves(chart)).findall("{http://www.w3.org/2000/svg}polyline")
    places = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert all(0 <= x <= 640 for x, _ in places)
    assert places[1][1] < places[0][1]  # more is higher


@pytest.mark.parametrize(
    "curves", [(), (Curve("empty", ()),), (Curve("no number", ((0, float("nan")),)),)]
)
def test_a_chart_without_proper_points_is_refused(curves: tuple[Curve, ...]):
    with pytest.raises(ValueError, match="'life-x' needs points"):
        draw_curves(CurveChart("life-x", "x", "hours", "MB", curves))


def test_more_curves_than_there_are_kinds_are_refused():
    with pytest.raises(ValueError, match="make two of it"):
        draw_curves(CurveChart("a", "a", "x", "", (Curve("one", ((1, 1),)),) * 6))


@settings(deadline=None, max_examples=50)
@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_ticks_span_what_they_are_for(one: float, other: float):
    low, high = sorted((one, other))
    ticks = place_ticks(low, high)
    assert ticks[0] <= low and ticks[-1] >= high
    assert 2 <= len(ticks) <= 8


def test_ticks_are_written_without_zeros_that_say_nothing():
    assert [format_tick(value) for value in (0.0, 0.5, 2_000.0)] == ["0", "0.5", "2,000"]


def test_the_page_shows_the_curves_of_a_table(tmp_path: Path):
    page = tmp_path / "bench.md"
    page.write_text("<!-- bench:life -->\n<!-- /bench:life -->\n")
    table = Table("A day", [Row("RSS", "60 MB")], (), (CHART,))
    write_docs({"life": [table]}, "*today*", page)
    assert "](bench/life-memory.svg)" in page.read_text()
    assert (tmp_path / "bench" / "life-memory.svg").read_text() == draw_curves(CHART)
    assert "svg" not in format_markdown(Table("None", []))


def test_what_is_missed_is_named(capsys: pytest.CaptureFixture[str]):
    rows = [
        Row("RSS", "60 → 90 MB", "+9 MB", "≤ +4 MB", False),
        Row("tasks", "4", "", "", True),
    ]
    assert len(report_missed({"life": [Table("A day", rows)]})) == 1
    assert "missed: life: A day: RSS (60 → 90 MB +9 MB, goal ≤ +4 MB)" in capsys.readouterr().err
    assert report_missed({"life": [Table("A day", rows[1:])]}) == []
