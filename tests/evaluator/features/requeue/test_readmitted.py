"""Nodes that a policy accepts again, since when, and for how long that is kept."""

import numpy as np
import pytest

from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_index import NodeIndex, NodeMask
from evaluator.core.policy.decide import Decision, Decisions
from evaluator.core.policy.evaluate import MetricTable
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Policy
from evaluator.features.requeue import plan
from evaluator.features.requeue.plan import ReadmittedNodes

DEMO, OTHER = PolicyKey("ns", "demo"), PolicyKey("ns", "other")
MEMORY = 300.0


def refusing(*nodes, key=DEMO):
    return Decision(Policy(key), {StrategyName.DONTSCHEDULE: dict.fromkeys(nodes, "violating")})


NODES = NodeIndex(["a", "b", "c", "d"])


def mask(names):
    return NodeMask(NODES, np.isin(NODES, names))


def decided(*given):
    return Decisions(
        MetricTable(NODES, {}), policies={decision.policy.key: decision for decision in given}
    )


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (decided(refusing("a", "b")), decided(refusing("b", "c")), {DEMO: {"a"}}),
        (decided(refusing("a")), decided(refusing("a")), {}),
        (decided(refusing()), decided(refusing("a")), {}),
        (decided(refusing("a")), decided(), {DEMO: {"a"}}),
        (decided(), decided(refusing("a")), {}),
        (
            decided(refusing("a"), refusing("b", key=OTHER)),
            decided(refusing("a"), refusing(key=OTHER)),
            {OTHER: {"b"}},
        ),
    ],
    ids=[
        "one rejection less",
        "same rejections",
        "one rejection more",
        "policy deleted",
        "policy new",
        "of several policies",
    ],
)
def test_node_is_readmitted_when_no_longer_rejected(before, after, found):
    allowed = plan.newly_allowed(before, after)
    assert {key: set(nodes.names) for key, nodes in allowed.items()} == found


def test_times_are_of_feasible_nodes_not_rejected_again():
    opening = ReadmittedNodes().with_nodes(mask(["a", "b"]), 10.0).with_nodes(mask(["c"]), 20.0)
    everywhere = {"a", "b", "c", "d"}
    assert opening.times(everywhere, refusing()) == [10.0, 10.0, 20.0]
    assert opening.times(everywhere, refusing("a", "c")) == [10.0]
    assert opening.times({"c"}, refusing()) == [20.0]
    assert opening.times(everywhere, None) == [10.0, 10.0, 20.0], "its policy was deleted"


def test_node_readmitted_again_has_the_new_time():
    opening = ReadmittedNodes().with_nodes(mask(["a", "b"]), 10.0).with_nodes(mask(["a"]), 20.0)
    assert opening.times({"a"}, refusing()) == [20.0]
    assert opening.times({"a", "b"}, refusing()) == [10.0, 20.0]


def test_all_accepted_nodes_are_just_readmitted_after_startup():
    opening = plan.all_readmitted(decided(refusing("b")), 5.0)[DEMO]
    assert opening.times({"a"}, refusing("b")) == [5.0]
    assert opening.times({"b"}, refusing("b")) == []
    later = opening.with_nodes(mask(["b"]), 9.0)
    assert later.times({"b"}, refusing()) == [9.0], "it was rejected at the start"
    assert later.times({"a", "b"}, refusing()) == [5.0, 9.0]


def test_old_readmissions_are_forgotten():
    found = plan.remember(
        plan.all_readmitted(decided(refusing()), 0.0),
        {DEMO: mask(["a"])},
        now=10.0,
        memory=MEMORY,
    )
    assert found[DEMO].times({"a", "b"}, None) == [0.0, 10.0]
    for now, times in ((299.0, [0.0, 10.0]), (300.0, [10.0]), (309.0, [10.0])):
        found = plan.remember(found, {}, now=now, memory=MEMORY)
        assert found[DEMO].times({"a", "b"}, None) == times
    assert plan.remember(found, {}, now=310.0, memory=MEMORY) == {}


def test_unchanged_readmissions_are_the_same_object():
    """Readers that cached a result need not look again."""
    found = plan.remember({}, {DEMO: mask(["a"]), OTHER: mask(["b"])}, now=0.0, memory=MEMORY)
    later = plan.remember(found, {OTHER: mask(["c"])}, now=1.0, memory=MEMORY)
    assert later[DEMO] is found[DEMO]
    assert later[OTHER] is not found[OTHER]
