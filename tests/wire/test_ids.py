"""Ids are unique, sortable by time, and say what they name."""

import time

from quarterdeck.wire import ids


def test_ids_never_collide():
    made = [ids.new_session_id() for _ in range(20_000)]
    assert len(set(made)) == len(made)


def test_ids_sort_by_the_time_they_were_made():
    first = ids.new_session_id()
    time.sleep(0.003)
    assert first < ids.new_session_id()


def test_ids_say_what_they_name():
    makers = [getattr(ids, name) for name in ids.__all__ if name.startswith("new_")]
    prefixes = [make().partition("_")[0] for make in makers]
    assert len(set(prefixes)) == len(makers)


def test_ids_are_safe_in_paths_and_urls():
    assert ids.new_session_id().replace("_", "").isalnum()
