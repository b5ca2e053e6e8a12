"""A fifth strategy, and a third action on nodes, are a folder and a line: both are added to a copy of the tree."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COPIED = ("evaluator", "plimsoll", "wire", "collectors")

FEATURE = '''
"""Nodes to reboot: where the strategy reboot is violated."""

from evaluator.core.feature import Feature
from evaluator.core.policy_status import Effects
from evaluator.core.wiring import Wired
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy_status import Effect, listed


class Reboots(Effects):
    def effects(self, decision, table):
        nodes = sorted(decision.violations[StrategyName.REBOOT])
        yield Effect("nodesRebooted", f"reboot {listed(nodes, len(table.nodes))}", nodes)


def wire(core, options):
    return Wired(effects=Reboots())


FEATURE = Feature(name="reboot", options=FeatureOptions, wire=wire)
'''
ROW = """
    REBOOT = (
        "reboot",
        StrategyRow(
            condition="RebootViolated",
            consequence="the node is to be rebooted",
            explained="Nodes are rebooted where",
            determines_compliance=True,
            marks=True,
        ),
    )
"""

CORDON = '''
"""Cordons nodes that violate a policy."""

from dataclasses import dataclass

from evaluator.core.feature import Feature
from evaluator.core.wiring import Wired
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.types import ActionPart
from evaluator.core.policy.vocabulary import NodeActions
from evaluator.core.policy.vocabulary import Vocabulary

UNTIL = "plimsoll.io/cordon-until"


@dataclass(frozen=True, slots=True)
class Cordons(ActionPart):
    until: str = ""

    def records(self, policy, strategy):
        if self.kinds:
            yield f"cordon {policy.key}", strategy

    def described(self, policy):
        if self.kinds:
            yield f"cordon of violating nodes until {self.until}"

    def advice(self, policy):
        if self.until == "never":
            yield "the node stays cordoned"


def parse(policy, annotations, kinds, problems):
    until = str(annotations.get(UNTIL, "cleared"))
    if until not in ("cleared", "never"):
        problems.append(f"annotation {UNTIL}: {until} is unknown: no node is cordoned")
        kinds = frozenset()
    return Cordons(kinds, until)


FEATURE = Feature(
    name="cordon",
    options=FeatureOptions,
    wire=lambda core, options: Wired(),
    vocabulary=Vocabulary(actions=(NodeActions(("cordon",), parse, (UNTIL,)),)),
)
'''

COMMON = """
from pathlib import Path

import evaluator
from evaluator.core.model.names import PolicyKey
from plimsoll.steps import finished
from evaluator.core.policy.decide import decide
from evaluator.core.policy.parse import parse
from evaluator.core.readings.store import Store
from evaluator.features.registry import FEATURES, VOCABULARY
from wire.codec import Delta

assert Path(evaluator.__file__).is_relative_to(Path.cwd())
KEY = PolicyKey("ns", "demo")


def policy(strategies, vocabulary=VOCABULARY, **annotations):
    found = {f"plimsoll.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    meta = {"name": "demo", "namespace": "ns", "annotations": found}
    return parse({"metadata": meta, "spec": {"strategies": strategies}}, vocabulary=vocabulary)


def store(**values):
    made = Store(stale_after=30.0, started=0.0)
    made.subscribe(["heat"])
    for node, value in values.items():
        made.report(node, Delta({"heat": value}), 1.0)
    return made


RULES = {"rules": [{"metricname": "heat", "operator": "GreaterThan", "target": 80}]}
"""
FORKS = """
import json, os, sys, traceback
import evaluator.app

for line in sys.stdin:
    if not (child := os.fork()):
        raised = ""
        try:
            exec(json.loads(line))
        except BaseException:
            raised = traceback.format_exc()
        print(json.dumps(raised), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
"""Runs each script in a fork of its own, and prints what it raised: importing takes longer than any script."""


class Tree:
    """A copy of the evaluator's tree to which features are added."""

    def __init__(self, folder):
        self.folder = folder
        for name in COPIED:
            ignored = shutil.ignore_patterns("*.pyc.*")  # bytecode that is being written
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)

    def add_feature(self, name, module):
        """Add the folder of a feature and its line in the list of features."""
        folder = self.folder / "evaluator/features" / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "feature.py").write_text(module)
        self.insert("features/registry.py", ')\n"""In the order', f'    "{name}",\n')

    def insert(self, module, before, text):
        """Insert a text into a module of the evaluator, before another."""
        path = self.folder / "evaluator" / module
        source = path.read_text()
        assert source.count(before) == 1, f"{module} has not one {before!r}"
        path.write_text(source.replace(before, text + before))

    @contextlib.contextmanager
    def running(self):
        """Run a process that `run` forks."""
        with subprocess.Popen(
            [sys.executable, "-c", COMMON + FORKS],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as self._process:
            yield self
            self._process.stdin.close()

    def run(self, script):
        """Run a script with the copy's packages. It fails by an assertion."""
        self._process.stdin.write(f"{json.dumps(textwrap.dedent(script))}\n")
        self._process.stdin.flush()
        raised = json.loads(self._process.stdout.readline())
        assert not raised, raised


@pytest.fixture(scope="module")
def fifth(tmp_path_factory):
    """A tree with a fifth strategy: its folder, and its row in the table."""
    tree = Tree(tmp_path_factory.mktemp("strategy"))
    tree.add_feature("reboot", FEATURE)
    tree.insert("core/policy/strategies.py", "\n\nSTRATEGIES:", ROW)
    with tree.running():
        yield tree


@pytest.fixture(scope="module")
def cordoning(tmp_path_factory):
    """A tree with a further action on nodes: its folder."""
    tree = Tree(tmp_path_factory.mktemp("action"))
    tree.add_feature("cordon", CORDON)
    with tree.running():
        yield tree


def test_added_strategy_is_parsed_and_decided(fifth):
    fifth.run("""
        made = policy({"reboot": RULES})
        assert not made.problems, made.problems
        assert policy({"restart": RULES}).problems == (
            "strategy 'restart' is unknown (one of dontschedule, scheduleonmetric, deschedule, labeling, reboot): left out",
        )
        decisions = decide([made], ["a", "b"], store(a=90.0, b=10.0), now=1.0)
        decision = decisions.policies[KEY]
        assert decision.violations["reboot"] == {"a": "violating demo: heat GreaterThan 80"}
        assert decision.labels == decisions.labels == {"a": {"demo": "violating"}}
        assert not decision.dontschedule and not decision.deschedule
    """)


def test_violation_of_an_added_strategy_is_restored_from_its_label(fifth):
    fifth.run("""
        made = policy({"reboot": {**RULES, "clearAfter": "5m"}})
        after = decide(
            [made], ["a"], store(a=10.0), now=1.0, labels_of=lambda _: {"demo": "violating"}
        )
        assert [*after.policies[KEY].violations["reboot"]] == ["a"]
    """)


@pytest.mark.features("status")
def test_added_strategy_has_its_condition_events_and_effects(fifth):
    fifth.run("""
        from evaluator.features.status import plan
        from evaluator.features.status.plan import statuses

        (feature,) = (one for one in FEATURES if one.name == "reboot")
        made = policy({"reboot": RULES}, enforcement="observe")
        decisions = decide([made], ["a", "b"], store(a=90.0, b=10.0), now=1.0)
        effects = [feature.wire(None, None).effects]
        ((_, status),) = statuses(decisions, effects)
        conditions = {one.type: one for one in status.conditions}
        assert (status.compliance, status.violating) == ("Violated", 1)
        assert conditions["RebootViolated"].status == "True"
        assert "reboot 1 of 2 nodes (a)" in conditions["Enforced"].message
        reported = plan.reported_state(decisions.policies[KEY])
        (event,) = plan.diff(plan.ReportedState(), reported)
        assert "the condition RebootViolated names the nodes" in event.message
        body = status.body(lambda _: "2026-01-01T00:00:00Z")
        assert plan.previously_reported(body, reported, 0).violated == {"reboot"}
    """)


@pytest.mark.features("pages")
def test_added_strategy_is_explained_and_described(fifth):
    fifth.run("""
        from evaluator.features.pages.explain.nodes import nodes
        from evaluator.features.pages.explain.policy import explain, row
        from evaluator.tools.check.report import describe

        made, readings = policy({"reboot": RULES}), store(a=90.0, b=10.0)
        decisions = decide([made], ["a", "b"], readings, now=1.0)
        page = finished(explain(decisions, KEY, readings, now=1.0))
        assert page.head.strategies["reboot"].words == "Nodes are rebooted where this rule holds"
        assert page.head.strategies["reboot"].rules[0].broken == ["a"]
        assert dict(page.nodes)["a"].reboot == "violating demo: heat GreaterThan 80"
        assert row(KEY, decisions.policies[KEY], decisions.table).reboot == ["a"]
        assert dict(finished(nodes(decisions)))["a"].violates == {"ns/demo": ["reboot"]}
        first, *_ = describe(made)
        assert first == (
            "reboot: where this rule matches, the node is labelled demo=violating, and the node is to be rebooted"
        )
    """)


@pytest.mark.features("node_actions")
def test_actions_are_taken_for_an_added_strategy(fifth):
    fifth.run("""
        from evaluator.features.node_actions.plan import planning
        from evaluator.features.node_actions.types import ActionPlan, ActionSettings, Observed

        made = policy({"reboot": RULES}, actions="taint,condition")
        assert not made.problems, made.problems
        decisions = decide([made], ["a", "b"], store(a=90.0, b=10.0), now=1.0)
        settings = ActionSettings(taints=True, conditions=True)
        plan = finished(planning(decisions, Observed(), ActionPlan(), settings, now=1.0))
        assert plan.taints == {"a": {"plimsoll.io/ns.demo:PreferNoSchedule": "violating"}}
        assert plan.conditions == {"a": {"plimsoll.io/Demo": "True/RebootViolated"}}
        after = decide(
            [policy({"reboot": {**RULES, "clearAfter": "5m"}}, actions="condition")],
            ["a"],
            store(a=10.0),
            now=1.0,
            labels_of=lambda _: {"condition plimsoll.io/Demo": "True/RebootViolated"},
        )
        assert [*after.policies[KEY].violations["reboot"]] == ["a"]
    """)


@pytest.mark.features("node_actions")
def test_added_action_is_parsed(cordoning):
    cordoning.run("""
        made = policy({"dontschedule": RULES}, actions="cordon,taint")
        assert not made.problems, made.problems
        assert made.actions.kinds == {"cordon", "taint"}
        assert policy({"dontschedule": RULES}, actions="drain").problems == (
            "annotation plimsoll.io/actions: 'drain' is unknown (one of label, taint, condition, cordon): left out",
        )
        flawed = policy({"dontschedule": RULES}, actions="cordon,taint", cordon_until="noon")
        assert flawed.actions.kinds == {"taint"}
        assert flawed.problems == (
            "annotation plimsoll.io/cordon-until: noon is unknown: no node is cordoned",
        )
    """)


@pytest.mark.features("node_actions")
def test_added_action_is_described_and_restores_violations(cordoning):
    cordoning.run("""
        from evaluator.tools.check.advice import advice
        from evaluator.tools.check.report import describe

        strategies = {"dontschedule": {**RULES, "clearAfter": "5m"}}
        made = policy(strategies, actions="cordon", cordon_until="never")
        assert "cordon of violating nodes until never" in [*describe(made)]
        assert "the node stays cordoned" in [*advice(made, {"spec": {"strategies": strategies}})]
        after = decide(
            [made], ["a"], store(a=10.0), now=1.0,
            labels_of=lambda _: {"cordon ns/demo": "dontschedule"},
        )
        assert [*after.policies[KEY].dontschedule] == ["a"]
    """)


@pytest.mark.features("node_actions")
def test_actions_of_a_feature_that_is_not_in_the_list_are_unknown(cordoning):
    cordoning.run("""
        from evaluator.core.policy.vocabulary import merged

        kept = merged(one.vocabulary for one in FEATURES if one.name != "node_actions")
        made = policy({"dontschedule": RULES}, kept, actions="taint,cordon", max_nodes="many")
        assert made.actions.kinds == {"cordon"}
        assert made.problems == (
            "annotation plimsoll.io/actions: 'taint' is unknown (one of label, cordon): left out",
        )
    """)
