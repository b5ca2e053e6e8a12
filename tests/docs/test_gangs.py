"""docs/gangs.md documents every state of a gang, and every flag and metric about gangs."""

import re
from pathlib import Path

from evaluator.features.gangs.core.membership import (
    ADMITTED,
    GATE,
    GROUP_LABEL,
    MINIMUM_LABEL,
    PRIORITY_LABEL,
)
from evaluator.features.gangs.core.types import GangState
from evaluator.features.gangs.options import GangOptions
from plimsoll import flags

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/gangs.md").read_text()


def test_every_state_has_a_row_with_its_event():
    rows = re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", TEXT, re.MULTILINE)
    told = {state: event for state, event in rows if state in set(GangState)}
    assert set(told) == {str(state) for state in GangState}
    assert all(event in {"", f"Gang{state}"} for state, event in told.items())
    assert [state for state in GangState if state.waits and not told[state]] == []


def test_every_other_event_has_a_row():
    written = set(
        re.findall(
            r'"(Gang[A-Z]\w+)"', (ROOT / "evaluator/features/gangs/core/messages.py").read_text()
        )
    )
    rows = set(re.findall(r"^\| `(Gang\w+)` \|", TEXT, re.MULTILINE))
    assert len(written) > 3
    assert rows == written


def test_every_flag_of_gangs_is_documented():
    """docs/flags.md describes each flag; this page its topic."""
    own = {option.flag for _, option in flags.options(GangOptions)}
    assert len(own) > 5
    assert [flag for flag in sorted(own) if f"`--{flag}`" not in TEXT] == []


def test_every_metric_of_gangs_is_documented():
    known = set(re.findall(r"`(plimsoll_gang\w+)`", (ROOT / "docs/metrics.md").read_text()))
    assert len(known) > 6
    assert set(re.findall(r"`(plimsoll_gang\w+)`", TEXT)) == known


def test_every_label_and_annotation_of_pods_is_documented():
    for name in (GATE, ADMITTED, GROUP_LABEL, MINIMUM_LABEL, PRIORITY_LABEL):
        assert f"`{name}`" in TEXT
