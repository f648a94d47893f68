"""A field with a list: typing filters, keys and the mouse choose, nothing wrong can be chosen."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.events import AppBlur, AppFocus
from textual.pilot import Pilot
from textual.widgets import Input

from quarterdeck.workbench.widgets.select import (
    SelectField,
    SelectList,
    SelectOption,
    filter_options,
)
from tests.support.screen_strips import render_screen
from tests.support.workbench_app import until

FRUIT = (
    SelectOption(value="apple", words="red", group="here"),
    SelectOption(value="apricot", words="orange", group="here"),
    SelectOption(value="banana", words="yellow", group="here"),
    SelectOption(value="quince", group="not here", problem="out of season"),
)


class Form(App[None]):
    """A field, another to go to, and what is heard of the first."""

    CSS = ".select-list { overlay: screen; constrain: inside inside; }"

    def __init__(self, **how: Any) -> None:
        super().__init__()
        self._how: dict[str, Any] = {"options": FRUIT, **how}
        self.heard: list[object] = []
        self.submitted = 0

    @property
    def field(self) -> SelectField:
        return self.query_one("#fruit", SelectField)

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield SelectField(id="fruit", **self._how)
            yield Input(id="other")

    def on_select_field_taken(self, event: SelectField.Taken) -> None:
        self.heard.append(event.value)

    def on_select_field_refused(self, event: SelectField.Refused) -> None:
        self.heard.append(event.option)

    def on_input_submitted(self) -> None:
        self.submitted += 1


@asynccontextmanager
async def form(**how: Any) -> AsyncGenerator[tuple[Form, Pilot[None]]]:
    app = Form(**how)
    async with app.run_test(size=(60, 20)) as pilot:
        app.field.focus()
        await pilot.pause()
        yield app, pilot


def text(app: App[None]) -> str:
    return "\n".join(strip.text for strip in render_screen(app))


async def test_typing_filters_and_enter_takes_the_best():
    async with form() as (app, pilot):
        await pilot.press(*"apr")
        await until(pilot, lambda: app.field.is_open)
        assert "apricot" in text(app) and "banana" not in text(app)
        await pilot.press("enter")
        assert (app.field.value, app.field.is_open, app.heard) == ("apricot", False, ["apricot"])
        assert not app.submitted
        await pilot.press("enter")
        assert app.submitted == 1


async def test_keys_that_are_faster_than_the_list_choose_the_same():
    async with form() as (app, _):
        app.field.insert_text_at_cursor("ban")  # its message is not there yet
        await app.field.action_submit()
        assert app.field.value == "banana" and not app.submitted


async def test_arrows_walk_through_all_and_tab_takes_and_goes_on():
    async with form(value="apple") as (app, pilot):
        await pilot.press("down")
        assert app.field.is_open and app.field.value == "apple"
        await pilot.press("down", "tab")
        await pilot.pause()
        assert app.field.value == "banana" and app.focused is not app.field
        assert not app.field.is_open


async def test_escape_closes_the_list_and_keeps_the_value():
    async with form(value="apple") as (app, pilot):
        await pilot.press(*"ban")
        await until(pilot, lambda: app.field.is_open)
        await pilot.press("escape")
        assert (app.field.value, app.field.is_open, app.heard) == ("apple", False, [])


async def test_what_cannot_be_chosen_is_shown_with_its_reason_and_refused():
    async with form(value="apple") as (app, pilot):
        await pilot.press(*"qui")
        await until(pilot, lambda: "out of season" in text(app))
        await pilot.press("enter")
        await pilot.pause()
        assert app.field.value == "apple" and app.heard == [FRUIT[3]]


async def test_another_window_decides_nothing():
    async with form(value="apple") as (app, pilot):
        await pilot.press(*"ban")
        await until(pilot, lambda: app.field.is_open)
        app.post_message(AppBlur())
        await until(pilot, lambda: app.focused is None)
        assert app.field.value == "ban" and app.heard == []
        app.post_message(AppFocus())
        await until(pilot, lambda: app.focused is app.field)
        await pilot.press("enter")
        assert app.field.value == "banana"


async def test_a_strict_field_takes_nothing_that_is_not_in_the_list():
    async with form(value="apple", is_needed=True) as (app, pilot):
        await pilot.press(*"zzz")
        await until(pilot, lambda: "nothing matches" in text(app))
        await pilot.press("tab")
        await pilot.pause()
        assert app.field.value == "apple"


async def test_a_field_that_is_not_needed_can_be_emptied_and_a_needed_one_cannot():
    for is_needed, value in ((False, ""), (True, "apple")):
        async with form(value="apple", is_needed=is_needed) as (app, pilot):
            await pilot.press("backspace", "tab")
            await pilot.pause()
            assert app.field.value == value


async def test_other_values_can_be_typed_where_they_are_allowed():
    async with form(is_free=True) as (app, pilot):
        await pilot.press(*"app")
        await until(pilot, lambda: "as typed" in text(app))
        await pilot.press("tab")
        await pilot.pause()
        assert app.field.value == "app"
        app.field.focus()
        await pilot.pause()
        await pilot.press(*"kiwi", "enter")
        assert app.field.value == "kiwi" and app.submitted == 1


async def test_the_mouse_opens_the_list_and_chooses():
    async with form() as (app, pilot):
        await pilot.click("#fruit")
        await until(pilot, lambda: app.field.is_open)
        shown = app.query_one(SelectList)
        await pilot.click(SelectList, offset=(4, 3))  # below the title of the group
        await until(pilot, lambda: app.field.value == "banana")
        assert not shown.display and app.focused is app.field


async def test_options_that_are_found_while_typing_complete_with_tab():
    async def find(typed: str) -> Sequence[SelectOption]:
        return [SelectOption(value=f"{typed}/one"), SelectOption(value=f"{typed}/two")]

    async with form(is_free=True, find=find) as (app, pilot):
        await pilot.press(*"/a")
        await until(pilot, lambda: "/a/two" in text(app))
        await pilot.press("down", "tab")
        assert app.field.value == "/a/two" and app.focused is app.field
        await pilot.press("tab")
        assert app.focused is not app.field


async def test_the_list_opens_above_where_there_is_no_room_below():
    app = Form(value="apple")
    async with app.run_test(size=(40, 6)) as pilot:
        app.field.styles.margin = (4, 0, 0, 0)
        app.field.focus()
        await pilot.pause()
        await pilot.press("down")
        await until(pilot, lambda: app.query_one(SelectList).region.height)
        assert app.query_one(SelectList).region.bottom <= app.field.region.y


def test_every_typed_word_has_to_be_there():
    assert [one.value for one in filter_options(FRUIT, "here red")] == ["apple"]
    assert [one.value for one in filter_options(FRUIT, "")] == [one.value for one in FRUIT]
    assert filter_options(FRUIT, "red yellow") == []
