"""Scores of policies of other namespaces: which rules read them, and that others do not learn whether they exist."""

import argparse
import json
import math
from dataclasses import replace

import pytest

from evaluator.config import Settings
from evaluator.core.cache.cluster import decode_node
from evaluator.core.policy.parse import parse
from evaluator.features.memory.feature import MemoryOptions
from evaluator.features.memory.readings import Memories
from evaluator.features.registry import VOCABULARY
from plimsoll import flags, rfc3339
from tests.evaluator.conftest import make_rule, make_tas

CLOSED = MemoryOptions(foreign_scores="none").words(VOCABULARY)


NOW = 1_790_000_000.0
UPGRADED = replace(
    VOCABULARY, of_policies=tuple(replace(row, since=NOW) for row in VOCABULARY.of_policies)
)
"""The words of policies with the default flags, where the upgrade was at NOW."""


def parsed(metric, vocabulary=CLOSED, created=NOW, namespace="shop", annotations=()):
    rules = [make_rule(f"{metric} GreaterThan 1"), make_rule("load GreaterThan 5")]
    made = make_tas("p", namespace, dontschedule=rules)
    made["metadata"] |= {
        "creationTimestamp": rfc3339.seconds(created),
        "annotations": dict(annotations),
    }
    return parse(made, vocabulary=vocabulary)


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


@pytest.mark.parametrize("kind", ["", ":peer_deviation"])
def test_policy_created_before_the_upgrade_reads_all_scores_and_a_later_one_public_scores(kind):
    assert parsed(f"violation_score_secret_p{kind}", UPGRADED).metrics == {
        f"violation_score_secret_p{kind}",
        "load",
    }
    assert parsed(f"violation_score_secret_p{kind}", UPGRADED, NOW + 1).metrics == {
        f"violation_score_secret_p{{public}}{kind}",
        "load",
    }
    own = parsed(f"violation_score_shop_q{kind}", UPGRADED, NOW + 1)
    assert own.metrics == {f"violation_score_shop_q{kind}", "load"}


def scores(metric, *policies):
    """The column of a metric over a node with scores of the policies secret/p and secret/gone."""
    memories = Memories(lambda: {policy.key: policy for policy in policies}, wall=lambda: NOW)
    entry = {"score": 3.0, "at": rfc3339.micros(NOW), "violated": False}
    found = {"systemUUID": "m", "scores": {"secret/p": entry, "secret/gone": entry}}
    meta = {"name": "node-a", "annotations": {"plimsoll.io/memory": json.dumps(found)}}
    node = {"metadata": meta, "status": {"nodeInfo": {"systemUUID": "m"}}}
    memories.changed("node-a", decode_node(json.dumps(node)))
    return memories.column(metric, ["node-a"], NOW)


def test_score_that_is_not_public_is_the_same_as_none():
    memory = {"plimsoll.io/memory": "3650d"}
    secret = parsed("load", VOCABULARY, namespace="secret", annotations=memory)
    public = {**memory, "plimsoll.io/score": "public"}
    shared = parsed("load", VOCABULARY, namespace="secret", annotations=public)
    metric = "violation_score_secret_p{public}"
    assert repr(scores(metric, secret)) == repr(scores(metric))
    assert scores(metric, shared).values.tolist() == [3.0]
    assert scores("violation_score_secret_p", secret).values.tolist() == [3.0]
    assert math.isnan(scores("violation_score_secret_gone{public}", shared).values[0])


def test_suffix_of_columns_is_no_metric_name():
    found = parsed("violation_score_secret_p{public}", UPGRADED)
    assert found.metrics == {"load"}


def test_flag_is_one_of_the_evaluator():
    parser = argparse.ArgumentParser()
    settings = flags.parse_settings(Settings, parser, argv=["--foreignScores=none"], env={})
    assert settings.options_of(MemoryOptions).foreign_scores == "none"
