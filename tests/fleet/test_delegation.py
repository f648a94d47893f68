"""Which modes are wider than which."""

import pytest

from quarterdeck.fleet.permissions.delegation import is_wider
from quarterdeck.policy.modes import MODES, Mode


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ask", "read-only"),
        ("ask", "plan"),
        ("plan", "read-only"),
        ("accept-edits", "ask"),
        ("full-auto", "ask"),
        ("full-auto", "accept-edits"),
        ("read-only", "deny-all"),
    ],
)
def test_wider(one: Mode, other: Mode):
    assert is_wider(one, other) and not is_wider(other, one)


def test_a_mode_is_not_wider_than_itself():
    assert not any(is_wider(mode, mode) for mode in MODES)
