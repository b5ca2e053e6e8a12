"""Scores of policies of other namespaces: with --foreignScores=none, rules read neither them nor whether they exist."""

import argparse

import pytest

from evaluator.config import Settings
from evaluator.core.policy.parse import parse
from evaluator.features.memory.feature import MemoryOptions
from evaluator.features.registry import VOCABULARY
from plimsoll import flags
from tests.evaluator.conftest import make_rule, make_tas

CLOSED = MemoryOptions(foreign_scores="none").words(VOCABULARY)


def parsed(metric, vocabulary=CLOSED):
    rules = [make_rule(f"{metric} GreaterThan 1"), make_rule("load GreaterThan 5")]
    return parse(make_tas("p", "shop", dontschedule=rules), vocabulary=vocabulary)


@pytest.mark.parametrize("kind", ["", ":peer_deviation"])
def test_score_of_another_namespace_is_refused_whether_or_not_there_is_one(kind):
    found = [parsed(f"violation_score_secret_{name}{kind}") for name in ("p", "none")]
    for policy, name in zip(found, ("p", "none"), strict=True):
        assert policy.metrics == {"load"}
        assert policy.problems == (
            f"dontschedule: rule 1: violation_score_secret_{name}: scores of policies of other namespaces are not read "
            "(--foreignScores=none): left out",
        )


@pytest.mark.parametrize("metric", ["violation_score_q", "violation_score_shop_q"])
def test_score_of_the_own_namespace_is_read(metric):
    policy = parsed(metric)
    assert policy.metrics == {"violation_score_shop_q", "load"}
    assert policy.problems == ()


def test_scores_of_all_namespaces_are_read_by_default():
    words = MemoryOptions().words(VOCABULARY)
    assert words is VOCABULARY
    assert parsed("violation_score_secret_p", words).problems == ()


def test_flag_is_one_of_the_evaluator():
    parser = argparse.ArgumentParser()
    settings = flags.parse_settings(Settings, parser, argv=["--foreignScores=none"], env={})
    assert settings.options_of(MemoryOptions).foreign_scores == "none"
