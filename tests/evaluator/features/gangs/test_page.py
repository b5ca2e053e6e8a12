"""What the page of a pod says about its gang, also without --gangs."""

import pytest

from evaluator.core.model.pod import Pod, PodMeta, PodSpec, PodStatus, SchedulingGate
from evaluator.features.gangs.core.membership import GATE, GROUP_LABEL
from evaluator.features.gangs.core.page import GangOfPodFields
from evaluator.features.gangs.feature import NO_GANGS

FOREIGN = "example.com/quota"


def shown(*gates, group="train", node="", phase="Pending"):
    meta = PodMeta(name="web", namespace="ns", labels={GROUP_LABEL: group} if group else None)
    spec = PodSpec(node_name=node, scheduling_gates=[SchedulingGate(gate) for gate in gates])
    return NO_GANGS.pod(Pod(meta, spec, PodStatus(phase=phase)))


def test_only_the_gang_gate_is_ours():
    held = GangOfPodFields(gang="ns/train", turned_away_by_plimsoll=True)
    assert shown(FOREIGN, GATE) == held
    assert (shown(FOREIGN), shown()) == (None, None)


def test_gated_pod_without_a_group_is_a_gang_of_its_own():
    assert shown(GATE, group="").gang == "ns/web"


@pytest.mark.parametrize("state", [{"node": "a"}, {"phase": "Failed"}])
def test_bound_and_finished_pods_are_not_turned_away(state):
    assert shown(GATE, **state) == GangOfPodFields(gang="ns/train")
