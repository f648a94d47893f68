"""What must survive a compaction does, whatever the model that summarises is worth."""

from pathlib import Path

import pytest

from tests.support.fidelity import MUST, SESSIONS, SUMMARIES, measure, row

PAGE = Path(__file__).parents[2] / "docs" / "context.md"


@pytest.mark.parametrize("session", SESSIONS)
async def test_what_must_survive_is_told_after_a_compaction(tmp_path: Path, session: str):
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for summary in SUMMARIES:
        folder = tmp_path / summary
        folder.mkdir()
        found[summary] = await measure(folder, session, summary)
        figures = [found[summary][what] for what in MUST if what in found[summary]]
        kept, planted = (sum(column) for column in zip(*figures, strict=True))
        assert planted >= 20
        assert kept / planted >= 0.95
    page = PAGE.read_text(encoding="utf-8")
    for what in MUST:
        if what in found["ideal"]:
            assert row(session, what, [found[summary][what] for summary in SUMMARIES]) in page
