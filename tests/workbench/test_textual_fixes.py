"""A timer that fires once fires, however busy the machine is, and so a new size is never lost."""

import pytest
from textual.app import App
from textual.timer import Timer

from quarterdeck.workbench.textual_fixes import ReliableTimer, use_reliable_textual


@pytest.mark.parametrize(("kind", "fires"), [(ReliableTimer, True), (Timer, False)])
async def test_what_is_to_happen_once_happens_late(
    kind: type[Timer], fires: bool, monkeypatch: pytest.MonkeyPatch
):
    """The process waits for a second between two looks at the clock. Once the second of these
    fails, Textual does it right by itself."""
    times = iter([0.0])
    monkeypatch.setattr("textual.timer._time.get_time", lambda: next(times, 1.0))
    ticks: list[object] = []

    async def tick(**facts: object) -> None:
        ticks.append(facts)

    app = App[None]()
    timer = kind(app, 0.01, repeat=0)
    monkeypatch.setattr(timer, "_tick", tick)
    await timer._run()
    assert bool(ticks) is fires


async def test_an_app_has_such_timers_and_intervals_still_leave_out_what_they_missed():
    use_reliable_textual()
    app = App[None]()
    async with app.run_test():
        assert isinstance(app.set_timer(60, app.bell), ReliableTimer)
        assert not app.set_timer(60, app.bell)._skip
        assert app.set_interval(60, app.bell)._skip
