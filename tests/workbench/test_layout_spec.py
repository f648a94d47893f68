"""Layouts as values: what is accepted, what is refused and how, and where things are placed."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.workbench.layout import edit
from quarterdeck.workbench.layout.files import BUILTIN, builtin_layout
from quarterdeck.workbench.layout.geometry import place_nodes
from quarterdeck.workbench.layout.spec import (
    DEPTH,
    Horizontal,
    Layout,
    LayoutError,
    PanelNode,
    Tab,
    TabsNode,
    Vertical,
    describe_format,
    dump_layout,
    panels_of,
    parse_layout,
)
from quarterdeck.workbench.panels.kinds import KINDS

calm = settings(deadline=None, max_examples=80)
sizes = st.one_of(
    st.integers(1, 100).map(lambda n: f"{n}%"),
    st.integers(1, 9).map(lambda n: f"{n}fr"),
    st.integers(1, 60).map(str),
    st.just("auto"),
)
KNOWN = ("agents", "chat", "inbox", "transcript")


@st.composite
def layouts(draw) -> Layout:
    count = iter(range(10_000))

    def panel():
        return PanelNode(
            id=f"p{next(count)}",
            widget=draw(st.sampled_from(KNOWN)),
            size=draw(sizes),
            title=draw(st.none() | st.just("a title")),
        )

    def node(depth: int):
        kind = draw(st.sampled_from(["panel", "horizontal", "vertical", "tabs"])) if depth else ""
        if kind in ("panel", ""):
            return panel()
        children = tuple(node(depth - 1) for _ in range(draw(st.integers(1, 3))))
        if kind == "tabs":
            active = draw(st.integers(0, len(children) - 1))
            return TabsNode(children=children, active=active, size=draw(sizes))
        if kind == "horizontal":
            below = draw(st.none() | st.integers(0, 120))
            return Horizontal(children=children, stack_below=below, size=draw(sizes))
        return Vertical(children=children, size=draw(sizes), stacked_size=draw(st.none() | sizes))

    tabs = [Tab(title="one", root=Vertical(children=(node(2), PanelNode(id="c", widget="chat"))))]
    tabs += [Tab(title="more", root=node(2)) for _ in range(draw(st.integers(0, 2)))]
    return Layout(tabs=tuple(tabs))


def panel(name: str = "chat", widget: str = "chat", **more: object) -> dict[str, object]:
    return {"type": "panel", "id": name, "widget": widget, **more}


def tab(*children: object, **more: object) -> dict[str, object]:
    root = {"type": "vertical", "children": list(children), **more}
    return {"tabs": [{"title": "one", "root": root}]}


@given(layouts())
@calm
def test_what_is_written_is_read_the_same(layout: Layout):
    data = msgspec.json.decode(msgspec.json.encode(dump_layout(layout)))
    assert parse_layout(data) == layout


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=20,
)


@given(
    json_values
    | st.fixed_dictionaries(
        {"version": json_values, "tabs": st.lists(json_values, max_size=3)},
    )
)
@calm
def test_data_of_any_kind_is_a_layout_or_a_layout_error(data: object):
    try:
        parse_layout(data)
    except LayoutError as error:
        assert str(error)


@given(layouts(), st.data())
@calm
def test_a_layout_that_is_damaged_anywhere_raises_nothing_else(layout: Layout, data):
    tree = msgspec.json.decode(msgspec.json.encode(dump_layout(layout)))
    node: object = tree
    for _ in range(data.draw(st.integers(1, 6))):
        if isinstance(node, dict) and node:
            key = data.draw(st.sampled_from(sorted(node)))
        elif isinstance(node, list) and node:
            key = data.draw(st.integers(0, len(node) - 1))
        else:
            break
        parent, node = node, node[key]
        if data.draw(st.booleans()):
            parent[key] = data.draw(json_values)
            break
    try:
        parse_layout(tree)
    except LayoutError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        (tab(panel(size="30")), None, ""),
        (
            tab(panel(), panel("x", "agents", size="3 %")),
            "tabs[0].root.children[1].size",
            "not a size",
        ),
        (tab(panel(size="0fr")), "tabs[0].root.children[0].size", "not a size"),
        (tab(panel(size="101%")), "tabs[0].root.children[0].size", "not a size"),
        (tab(panel(size=3)), "tabs[0].root.children[0].size", "Expected `str"),
        (tab(panel(), panel()), "tabs[0].root.children[1].id", "already"),
        (tab(panel("a b")), "tabs[0].root.children[0].id", "not a valid id"),
        (tab(panel(), panel("x", "clock")), "tabs[0].root.children[1].widget", "transcript"),
        (tab(panel(options={"agnt": "a"})), "tabs[0].root.children[0].options", "agnt"),
        (tab(panel(options={"agent": 3})), "tabs[0].root.children[0].options.agent", "str"),
        (tab(panel("x", "agents")), "tabs", "no panel is a chat"),
        (tab(), "tabs[0].root.children", "at least one child"),
        (tab({"type": "grid"}), "tabs[0].root.children[0].type", "horizontal"),
        (tab(panel(), speed=3), "tabs[0].root", "speed"),
        ({"tabs": []}, "tabs", "0"),
        ({"version": 2, "tabs": []}, "version", "newer"),
        ({"version": "1", "tabs": []}, "version", "int"),
        ([], "", "object"),
    ],
)
def test_an_error_names_its_field(data: object, field: str | None, words: str):
    if field is None:
        assert parse_layout(data)
        return
    with pytest.raises(LayoutError) as caught:
        parse_layout(data)
    assert caught.value.field == field
    assert words in str(caught.value)


def test_depth_and_number_are_bounded():
    node: dict[str, object] = panel()
    for _ in range(DEPTH):
        node = {"type": "vertical", "children": [node]}
    with pytest.raises(LayoutError, match="inside each other"):
        parse_layout({"tabs": [{"title": "t", "root": node}]})
    for _ in range(2_000):
        node = {"type": "vertical", "children": [node]}
    with pytest.raises(LayoutError, match="too large"):
        parse_layout({"tabs": [{"title": "t", "root": node}]})
    with pytest.raises(LayoutError, match="64 panels"):
        parse_layout(tab(*(panel(f"p{n}") for n in range(65))))


def test_the_description_names_every_type_and_widget():
    words = describe_format()
    for name in ("horizontal", "vertical", "tabs", "panel", *KINDS):
        assert name in words


@pytest.mark.parametrize("name", BUILTIN)
def test_built_in_layouts_are_valid(name: str):
    layout = builtin_layout(name)
    if {node.widget for node in panels_of(layout)} <= set(KINDS):
        assert parse_layout(dump_layout(layout)) == layout


# Places


@given(layouts(), st.integers(1, 200), st.integers(1, 60), st.data())
@calm
def test_what_is_placed_fills_the_room_without_overlap(
    layout: Layout, width: int, height: int, data
):
    wants = {p.id: data.draw(st.none() | st.integers(0, 30)) for p in panels_of(layout)}
    plan = place_nodes(
        layout.tabs[0].root,
        width,
        height,
        wants=lambda panel, width: wants[panel.id],
        heads=lambda panel: panel.widget != "chat",
        keep="c",
    )
    assert plan.panels
    rects = [*plan.panels.values(), *plan.strips.values(), *(b.rect for b in plan.bars.values())]
    rects += [rect for rect in plan.heads.values() if rect not in rects]
    seen: set[tuple[int, int]] = set()
    for rect in rects:
        cells = {
            (x, y)
            for x in range(rect.x, rect.x + rect.width)
            for y in range(rect.y, rect.y + rect.height)
        }
        assert rect.width > 0 and rect.height > 0
        assert not cells & seen
        seen |= cells
    assert seen == {(x, y) for x in range(width) for y in range(height)}
    assert "c" in plan.panels or wants["c"] == 0


def test_the_default_layout_stacks_where_it_is_narrow():
    root = builtin_layout().tabs[0].root
    lines = {"agents": 3, "inbox": 0, "chat": None}
    wide = place_nodes(root, 200, 50, wants=lambda panel, _: lines[panel.id])
    assert wide.panels["agents"].width == wide.panels["chat"].x - 1 == 46
    assert wide.panels["chat"].height == 50
    assert "inbox" not in wide.panels
    narrow = place_nodes(root, 80, 24, wants=lambda panel, _: lines[panel.id])
    assert narrow.panels["agents"] == (0, 0, 80, 3)
    assert narrow.panels["chat"] == (0, 4, 80, 20)


def test_where_there_is_no_room_the_panel_to_keep_stays():
    root = builtin_layout().tabs[0].root
    for width, height in ((20, 5), (1, 1), (7, 3)):
        assert "chat" in place_nodes(root, width, height, keep="chat").panels
        assert "agents" in place_nodes(root, width, height, keep="agents").panels


# Changes


@given(layouts(), st.data())
@calm
def test_every_change_gives_a_valid_layout(layout: Layout, data):
    names = [p.id for p in panels_of(layout)]
    at = data.draw(st.sampled_from(names))
    side = data.draw(st.sampled_from(["right", "down", "tabs"]))
    new = PanelNode(id=edit.free_id(layout, "transcript"), widget="transcript")
    changed = edit.split(layout, at, new, side)
    if _depth(changed) <= DEPTH:
        assert parse_layout(dump_layout(changed)) == changed
    assert sorted(p.id for p in panels_of(changed)) == sorted([*names, new.id])
    assert {p.id for p in panels_of(edit.activate(changed, new.id))} == {*names, new.id}
    assert sorted(p.id for p in panels_of(edit.close_panel(changed, new.id))) == sorted(names)
    while sum(p.widget == "chat" for p in panels_of(layout)) > 1:
        chat = next(p.id for p in panels_of(layout) if p.widget == "chat")
        layout = edit.close_panel(layout, chat)
        assert parse_layout(dump_layout(layout)) == layout
    last = next(p.id for p in panels_of(layout) if p.widget == "chat")
    with pytest.raises(LayoutError, match="last chat"):
        edit.close_panel(layout, last)


@given(layouts(), st.integers(30, 160), st.integers(12, 50), st.data())
@calm
def test_a_line_that_is_moved_and_reset(layout: Layout, width: int, height: int, data):
    plan = place_nodes(layout.tabs[0].root, width, height)
    if not plan.bars:
        return
    path, child = data.draw(st.sampled_from(sorted(plan.bars)))
    span = plan.spans[path]
    moved = edit.resize(layout, 0, path, span, child, data.draw(st.integers(-200, 200)))
    assert parse_layout(dump_layout(moved)) == moved
    again = place_nodes(moved.tabs[0].root, width, height).spans[path]
    assert sum(again.lengths) == sum(span.lengths)
    assert edit.reset_sizes(moved, layout) == layout


def test_a_line_goes_where_it_is_put():
    layout = builtin_layout()
    span = place_nodes(layout.tabs[0].root, 200, 50).spans[()]
    moved = edit.resize(layout, 0, (), span, 1, 10)
    plan = place_nodes(moved.tabs[0].root, 200, 50)
    assert plan.panels["chat"].x == span.lengths[0] + 1 + 10


def _depth(layout: Layout) -> int:
    def depth(node) -> int:
        return 1 + max((depth(child) for child in getattr(node, "children", ())), default=0)

    return max(depth(one.root) for one in layout.tabs)
