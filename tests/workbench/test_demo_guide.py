"""The guide of the demo: stages from facts, and captions that fit."""

from dataclasses import replace
from typing import get_args

import pytest

from quarterdeck.workbench.demo import (
    CAPTIONS,
    CaptionBar,
    DemoFacts,
    DemoStage,
    find_stage,
)
from quarterdeck.workbench.rendering.lines import text_of, width_of

IDLE = DemoFacts(is_busy=False, has_changes=True)
STAGES: list[tuple[DemoStage, DemoFacts]] = [
    ("start", DemoFacts()),
    ("command", DemoFacts(request="command")),
    ("edit", DemoFacts(request="edit", has_changes=True)),
    ("work", DemoFacts(has_changes=True)),
    ("radar", replace(IDLE, has_conflict=True)),
    ("clear", IDLE),
    ("review", replace(IDLE, is_reviewing=True, has_reviewed=True, has_conflict=True)),
    ("ready", replace(IDLE, has_reviewed=True, has_conflict=True)),
    ("land", replace(IDLE, queue="asks", has_reviewed=True)),
    ("queue", replace(IDLE, queue="runs", has_reviewed=True)),
    ("handed", DemoFacts(queue="done", landed=1, is_handed_back=True, is_busy=True)),
    ("fix", DemoFacts(landed=1, is_handed_back=True, is_busy=True)),
    ("merge", DemoFacts(request="edit", landed=1, is_handed_back=True)),
    ("again", DemoFacts(landed=1, is_handed_back=True, is_busy=False)),
    ("end", replace(IDLE, landed=2, has_reviewed=True)),
]


@pytest.mark.parametrize(("stage", "facts"), STAGES)
def test_each_stage_is_reached_by_its_facts(stage: DemoStage, facts: DemoFacts):
    assert find_stage(facts) == stage


def test_every_stage_has_facts_here_and_a_caption():
    assert {stage for stage, _ in STAGES} == set(get_args(DemoStage)) == set(CAPTIONS)


def test_steps_only_go_forward_in_the_order_of_the_story():
    steps = [CAPTIONS[stage].step for stage, _ in STAGES]
    assert steps == sorted(steps) and steps[-1] == 7


def test_a_person_who_denied_one_edit_gets_to_the_end():
    only_one = replace(IDLE, landed=1, to_land=1, has_reviewed=True)
    assert find_stage(only_one) == "end"


def test_who_lands_without_a_review_gets_to_the_end():
    assert find_stage(replace(IDLE, landed=2)) == "end"


@pytest.mark.parametrize("stage", CAPTIONS)
def test_a_caption_takes_few_lines_and_names_a_key(stage: DemoStage):
    bar = CaptionBar(CAPTIONS[stage])
    lines = bar.lines(78)
    assert len(lines) <= 3 and all(width_of(line) <= 78 for line in lines)
    shown = "\n".join(map(text_of, lines))
    assert f"demo {CAPTIONS[stage].step}/7" in shown and "f12" in shown and "ctrl+q" in shown
    assert all(width_of(line) <= 18 for line in bar.lines(18))
