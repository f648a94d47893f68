"""The options of cassettes on the command line, and what is refused before an agent starts."""

from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "fixtures" / "cassettes" / "version-1.cassette"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("run", "--record", "it", "hi"), "--record needs another agent: -a NAME"),
        (("run", "--replay", str(GOLDEN), "hi"), "--replay needs another agent: -a NAME"),
        (
            ("run", "-a", "codex", "--record", "it", "--replay", str(GOLDEN), "hi"),
            "--record and --replay exclude each other",
        ),
        (("run", "-a", "codex", "--record", "it", "-c", "hi"), "begins with a new session"),
        (("replay", str(GOLDEN), "--rules", "deny bash(rm:*)"), "--rules does not apply"),
        (("replay", "ses_1", "-e", "A=1"), "--cwd and --env apply to a cassette"),
    ],
)
def test_options_that_do_not_fit_are_refused(run, words: tuple[str, ...], reason: str):
    done = run(*words)
    assert done.returncode == 2, done.stderr
    assert reason in done.stderr


def test_a_cassette_of_another_agent_or_a_bad_one_is_refused_by_name(run, work: Path):
    done = run("run", "-a", "claude", "--replay", str(GOLDEN), "hi")
    assert done.returncode == 1
    assert "is a cassette of 'codex' and cannot answer 'claude'" in done.stderr
    (work / "cut.cassette").write_bytes(GOLDEN.read_bytes()[:-100])
    done = run("replay", "cut.cassette")
    assert done.returncode == 1
    assert "is refused: truncated" in done.stderr
    # The agent's file knows no address of the name that was recorded.
    done = run("replay", str(GOLDEN))
    assert done.returncode == 1
    assert "has no address 'it'" in done.stderr
    (work / "notes.txt").write_text("mine")
    done = run("run", "-a", "codex", "--record", "notes.txt", "hi")
    assert done.returncode == 1
    assert "is no cassette" in done.stderr
    assert (work / "notes.txt").read_text() == "mine"
