from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.config.loader import (
    LayerName,
    SettingSource,
    flatten_layer,
    merge_layers,
    nest_layer,
)

NAMES = get_args(LayerName)
scalar = st.integers() | st.text(max_size=3) | st.booleans()
rules = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=3, unique=True)
values = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["v/one", "v/two"]),
        "mode": st.sampled_from(["ask", "plan"]),
        "limits": st.dictionaries(st.sampled_from(["seconds", "tokens"]), scalar, max_size=2),
        "vendors": st.dictionaries(
            st.sampled_from(["x", "y"]),
            st.dictionaries(st.sampled_from(["wire", "base_url"]), scalar, max_size=2),
            max_size=2,
        ),
        "permissions": st.dictionaries(st.sampled_from(["allow", "deny"]), rules, max_size=2),
        "sandbox": st.dictionaries(st.just("writable"), rules, max_size=1),
    },
)
stacks = st.lists(values, min_size=3, max_size=3)


def placed(stack: list[dict[str, Any]]):
    return [
        flatten_layer(v, SettingSource(n))
        for v, n in zip(stack, ("user", "project", "local"), strict=True)
    ]


@settings(deadline=None, max_examples=150)
@given(stacks)
def test_merging_is_associative_in_values_sources_and_order(stack: list[dict[str, Any]]):
    a, b, c = placed(stack)
    left, right = merge_layers(merge_layers(a, b), c), merge_layers(a, merge_layers(b, c))
    assert list(left.items()) == list(right.items()) == list(merge_layers(a, b, c).items())


@settings(deadline=None, max_examples=50)
@given(stacks)
def test_an_empty_layer_changes_nothing_and_layers_stay_as_they_are(stack: list[dict[str, Any]]):
    a, b, _ = placed(stack)
    before = dict(a)
    assert merge_layers(a, {}) == merge_layers({}, a) == a
    merge_layers(a, b)
    assert a == before


@settings(deadline=None, max_examples=150)
@given(stacks)
def test_every_entry_is_that_of_the_highest_layer_that_has_it(stack: list[dict[str, Any]]):
    layers = placed(stack)
    merged = merge_layers(*layers)
    assert set(merged) == {key for layer in layers for key in layer}
    for key, entry in merged.items():
        assert entry == next(layer[key] for layer in reversed(layers) if key in layer)


@settings(deadline=None, max_examples=150)
@given(values)
def test_flattening_and_nesting_keep_every_value(value: dict[str, Any]):
    layer = flatten_layer(value, SettingSource("user"))
    assert flatten_layer(nest_layer(layer), SettingSource("user")) == layer


@settings(deadline=None, max_examples=100)
@given(stacks)
def test_no_layer_can_take_a_rule_away(stack: list[dict[str, Any]]):
    denied = nest_layer(merge_layers(*placed(stack))).get("permissions", {}).get("deny", [])
    for value in stack:
        assert set(value.get("permissions", {}).get("deny", [])) <= set(denied)


def test_other_lists_replace_each_other():
    lower = flatten_layer({"sandbox": {"writable": ["a"]}}, SettingSource("user"))
    upper = flatten_layer({"sandbox": {"writable": ["b"]}}, SettingSource("project"))
    assert nest_layer(merge_layers(lower, upper)) == {"sandbox": {"writable": ["b"]}}
