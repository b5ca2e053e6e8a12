"""docs/scorers.md documents every scorer and how to call it."""

import re
from pathlib import Path

from evaluator.config import Settings
from evaluator.features.scorers import registry
from plimsoll import flags

TEXT = (Path(__file__).parents[2] / "docs/scorers.md").read_text()
LOADED = {name: registry.load(Settings(scorers=(name,)))[name] for name in registry.BUILT_IN}


def test_every_scorer_has_a_row_and_all_except_the_template_a_section():
    rows = re.findall(r"^\| `(\w+)` \| ", TEXT, re.MULTILINE)
    headings = re.findall(r"^## (\w+)$", TEXT, re.MULTILINE)
    assert sorted(set(rows)) == sorted(registry.BUILT_IN)
    assert set(headings) >= set(registry.BUILT_IN) - {"template"}


def test_every_path_of_kube_safe_scheduler_is_documented():
    for scorer in LOADED.values():
        for name in (*scorer.predicates, *scorer.priorities):
            assert f"`{name}`" in TEXT


def test_every_flag_of_a_scorer_is_documented():
    """docs/flags.md describes each flag; this page its topic."""
    own = [
        option.flag
        for _, option in flags.options(Settings)
        if any(option.flag.startswith(name) for name in registry.BUILT_IN)
    ]
    assert len(own) > 10
    assert [flag for flag in own if f"`--{flag}" not in TEXT] == []
