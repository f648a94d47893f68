"""What a gate says of deeds that an agent has us do without asking."""

from quarterdeck.policy.call import Call, path_use
from quarterdeck.policy.gate import Gate


def write(path: str) -> Call:
    use = path_use(path, "write", cwd="/work")
    return Call(tool="write", kind="edit", cwd="/work", roots=("/work",), paths=(use,))


async def test_a_write_is_forbidden_where_the_mode_denies_it():
    reason = await Gate(mode="read-only").forbids(write("/work/a"))
    assert reason is not None and "read-only" in reason


async def test_what_would_be_asked_or_allowed_is_not_forbidden():
    assert await Gate(mode="ask").forbids(write("/work/a")) is None
    assert await Gate(mode="accept-edits").forbids(write("/work/a")) is None
