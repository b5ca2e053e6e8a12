"""The backtest acts on nodes as the live evaluator does: taints, conditions and limits are equal at every moment."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from evaluator.core.model.node import (
    ConditionOwner,
    Node,
    NodeCondition,
    NodeMeta,
    NodeSpec,
    NodeStatus,
    Taint,
)
from evaluator.core.model.node_labels import FIELD_MANAGER
from evaluator.core.policy import parse
from evaluator.core.signals import NodeActionsChanged, on_node
from evaluator.core.writes import conditions
from evaluator.features.node_actions import writes
from evaluator.features.node_actions.annotations import TaintsAndConditions
from evaluator.features.node_actions.limit import NodeLimit
from evaluator.features.node_actions.planner import NodeActionMetrics, NodeActionPlanner
from evaluator.features.node_actions.types import VALUE, ActionSettings
from evaluator.features.registry import VOCABULARY
from lab.adapters.node_actions import ActionReplay
from lab.interface import Period
from lab.replay.replay import Replay, Timing
from plimsoll import rfc3339
from tests.evaluator.conftest import make_tas
from tests.examples import examples
from tests.lab.conftest import rule
from tests.lab.replay.test_differential import (
    NODES,
    STALE,
    START,
    STEP,
    Live,
    bodies,
    recording,
    report,
    scrapes,
)

limits = st.sampled_from(["1", "50%", "100%"])


@st.composite
def policies(draw):
    found = []
    for name in draw(st.sampled_from([("p",), ("p", "q")])):
        names = draw(st.sets(st.sampled_from(["dontschedule", "deschedule"]), min_size=1))
        made = make_tas(name, **{one: draw(bodies(labels=False)) for one in sorted(names)})
        made["metadata"]["annotations"] = {
            "plimsoll.io/actions": draw(st.sampled_from(["taint", "condition", "taint,condition"])),
            "plimsoll.io/taint-effect": draw(
                st.sampled_from(["PreferNoSchedule", "NoSchedule", "NoExecute"])
            ),
            "plimsoll.io/max-nodes": draw(limits),
        }
        found.append(parse.parse(made, vocabulary=VOCABULARY))
    return found


class LiveActions:
    """The evaluator's decisions and plans; what it plans is on the nodes at once."""

    def __init__(self, wanted, settings_):
        self.live = Live(wanted, START)
        self.cluster = self.live.cluster
        self.planner = NodeActionPlanner(
            self.cluster,
            self.live.loop,
            NodeActionMetrics(CollectorRegistry()),
            settings_,
            clock=lambda: self.live.now,
        )
        self.cluster.signals.connect([on_node(NodeActionsChanged, self.planner.changed)])
        self.writes = Counter()

    async def decide(self, now):
        self.live.decide(now)
        await self.planner.plan()
        for _ in range(10):
            if not self.write():
                return
            await self.planner.plan()
        raise AssertionError("plans and writes do not end")

    def write(self):
        """Write the plan to all nodes; return whether anything changed."""
        plan, changed = self.planner.latest, False
        for name in NODES:
            node = self.cluster.nodes.objects[name]
            wanted = plan.taints.get(name, {})
            patch = writes.compare_taints(node, wanted, self.planner.prefixes)
            state = conditions.compare(node, plan.conditions.get(name, {}), FIELD_MANAGER)
            if patch is None and state is None:
                continue
            changed = True
            if patch:
                own = [(t.key, t.effect) for t in node.spec.taints or ()]
                after = [tuple(one.rsplit(":", 1)) for one in wanted]
                self.writes.update({("taint", key): 1 for key, _ in {*own} ^ {*after}})
            if state:
                self.count_conditions(node, state)
            self.cluster.nodes.put(self.written(node, plan, state))
        return changed

    def count_conditions(self, node, state):
        before = {c.type: f"{c.status}/{c.reason}" for c in node.status.conditions}
        for kind in before.keys() | state.states.keys():
            self.writes["condition", kind] += before.get(kind) != state.states.get(kind)

    def written(self, node, plan, state):
        """The node after the writes; the API server stores times in whole seconds."""
        name = node.metadata.name
        made = [
            Taint(key, VALUE, effect)
            for key, effect in (one.rsplit(":", 1) for one in plan.taints.get(name, {}))
        ]
        found = node.status.conditions
        if state:

            def since(kind):
                at = plan.policies[plan.owners[kind]].since[plan.nodes.position[name]]
                return self.live.now if at != at else float(at)

            def planned(_node, kind, wanted):
                return NodeCondition.in_state(kind, wanted)._replace(since=since(kind))

            found = [
                NodeCondition(
                    one["type"],
                    one["status"],
                    one["reason"],
                    rfc3339.parse(one["lastTransitionTime"]),
                )
                for one in state.body(planned)
            ]
        meta = NodeMeta(name=name, uid=name)
        ours = (ConditionOwner(FIELD_MANAGER, applied=True),)
        meta.condition_owners = tuple((one.type, ours) for one in found)
        return Node(meta, NodeSpec(taints=made), NodeStatus(conditions=found))


def state(plan):
    return {
        "taints": {node: dict(plan.taints.get(node, {})) for node in NODES},
        "conditions": {node: dict(plan.conditions.get(node, {})) for node in NODES},
        "policies": {
            key: (one.limit, one.of, one.acted, one.held_back, one.problems)
            for key, one in plan.policies.items()
        },
    }


@settings(max_examples=examples(25), deadline=None)
@given(policies(), scrapes(), st.sampled_from(["1", "60%", "100%"]))
async def test_every_action_is_that_of_the_live_evaluator(wanted, table, most):
    found = parse_limit(most)
    flags = ActionSettings(taints=True, conditions=True, no_execute=True, evict=True, most=found)
    end = len(table) + 8
    period = Period(START, START + STEP * end)
    replay = Replay(wanted, NODES, Timing(STEP, STALE), start=START)
    actions = ActionReplay(flags, wanted, NODES, period)
    live, delivered = LiveActions(wanted, flags), 0
    steps = {step.at: step for step in replay.run(recording(table), period.end)}
    for now in sorted({*steps, *(START + STEP * tick for tick in range(end + 1))}):
        while delivered < len(table) and START + STEP * (delivered + 1) <= now:
            delivered += 1
            live.live.wait(START + STEP * delivered)
            for node, values in table[delivered - 1].items():
                report(live.live.store, node, values, START + STEP * delivered)
        if now in steps:
            actions.step(now, steps[now].decisions)
        await live.decide(now)
        assert state(actions.plan) == state(live.planner.latest), now - START
    for policy in wanted:
        writes = actions.totals(policy.key).writes
        assert (
            writes["taints"]
            == live.writes["taint", f"plimsoll.io/{policy.key.namespace}.{policy.key.name}"]
        )
        kind = policy.actions.part(TaintsAndConditions).condition
        owned = live.planner.latest.owners.get(kind) == policy.key
        written = live.writes["condition", kind] if owned else 0
        assert writes["conditions"] == written


def parse_limit(text):
    return NodeLimit(int(text.rstrip("%")), percent=text.endswith("%"))


def test_the_limit_of_nodes_trips(backtest):
    backtest.annotations = {
        "plimsoll.io/actions": "taint",
        "plimsoll.io/taint-effect": "NoSchedule",
        "plimsoll.io/max-nodes": "1",
    }
    series = {
        f'load1{{node="n{n}"}}': [1, 7 if n < 3 else 1, 1, 7 if n < 2 else 1, 1] for n in range(10)
    }
    assert backtest(series, "-o", "json", "--fail-if", "trips>1") == 1
    limit = backtest.json()["limit"]
    assert (limit["nodes"], limit["of"], limit["trips"]) == (1, 10, 2)
    assert backtest.json()["writes"]["taints"] == 4


def test_the_limit_is_that_of_the_last_readings(backtest):
    backtest.annotations = {
        "plimsoll.io/actions": "taint",
        "plimsoll.io/taint-effect": "NoSchedule",
    }
    series = {f'load1{{node="n{n}"}}': [7, 7] if n < 3 else [1, 1] for n in range(10)}
    flags = ("--staleAfter=2m", "--to=2025-11-15T00:30:00Z")
    assert backtest(series, "-o", "json", *flags) == 0
    limit = backtest.json()["limit"]
    assert (limit["nodes"], limit["of"], limit["trips"]) == (2, 10, 1)


def test_eviction_counts_each_time_a_node_is_emptied(backtest):
    series = {
        f'load1{{node="n{n}"}}': [1, 7 if n == 0 else 1, 1, 7 if n == 0 else 1, 1]
        for n in range(10)
    }
    assert backtest(series, "-o", "json", deschedule=[rule()]) == 0
    assert backtest.json()["writes"] == {
        "labels": 4,
        "taints": 0,
        "conditions": 0,
        "nodesEmptied": 2,
    }
