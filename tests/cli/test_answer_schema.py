"""The small schema validator agrees with the reference one."""

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterdeck.cli.headless.answer_schema import find_schema_problem
from tests.support.struct_strategies import json_values

SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "additionalProperties": False},
    {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
    {"type": ["string", "null"], "maxLength": 3},
    {"type": "string", "pattern": "^[a-z]+$", "minLength": 2},
    {"type": "number", "minimum": 0, "maximum": 10},
    {"enum": [1, "x", None]},
    {"const": "x"},
    {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 1}]},
    {"oneOf": [{"type": "number"}, {"type": "integer"}, {"type": "null"}]},
    {"allOf": [{"type": "object"}, {"required": ["b"]}]},
    {"$defs": {"n": {"type": "null"}}, "items": {"$ref": "#/$defs/n"}, "type": "array"},
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
@settings(deadline=None, max_examples=60)
@given(value=json_values | st.dictionaries(st.sampled_from("ab"), json_values, max_size=2))
def test_the_verdict_is_the_reference_validators(schema, value):
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert (find_schema_problem(value, schema) is None) == expected


def test_a_problem_says_where_and_what():
    schema = {"properties": {"people": {"items": {"required": ["name"]}}}}
    assert find_schema_problem({"people": [{}]}, schema) == "the answer.people[0] must have 'name'"
