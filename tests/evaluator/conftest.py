"""What the evaluator's tests share: policies in a few words, and the API server's side of server-side apply."""

from dataclasses import dataclass, field

import pytest

from evaluator import policy
from evaluator.labels import FIELD_MANAGER, NodeLabels


def make_tas(name="demo", namespace="ns", *, generation=1, **strategies):
    """A TASPolicy object; each strategy is a list of rules, or whatever else is given."""
    wrapped = {
        strategy: {"rules": body} if isinstance(body, list) else body
        for strategy, body in strategies.items()
    }
    return {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "generation": generation,
        },
        "spec": {"strategies": wrapped},
    }


def make_rule(text, *labels):
    """`health Equals 1` as a rule's JSON, with labels as `name=value`."""
    metric, operator, target = text.split()
    body = {"metricname": metric, "operator": operator, "target": int(target)}
    return {**body, "labels": list(labels)} if labels else body


@pytest.fixture(scope="session")
def tas():
    return make_tas


@pytest.fixture(scope="session")
def rule():
    return make_rule


@pytest.fixture(scope="session")
def parsed():
    """A Policy from the words of `tas`."""
    return lambda *args, **kwargs: policy.parse(make_tas(*args, **kwargs))


class ApplyConflictError(Exception):
    """What the API server answers with 409; `keys` are the labels in dispute, none if it is about the uid."""

    def __init__(self, *keys):
        super().__init__(*keys)
        self.keys = keys


@dataclass
class LabelledNode:
    uid: str
    labels: dict[str, str] = field(default_factory=dict)
    owners: dict[str, set[str]] = field(default_factory=dict)
    """Label key → the managers that applied or wrote it."""


class ApplyServer:
    """Nodes with labels and who owns them, under the API server's rules for server-side apply."""

    def __init__(self):
        self.nodes = {}
        self.writes = 0

    def add(self, name, **labels):
        """A node of which nobody has applied anything; its labels belong to its kubelet."""
        self.nodes[name] = LabelledNode(f"uid-{name}")
        for key, value in labels.items():
            self.update(name, key, value, manager="kubelet")

    def update(self, name, key, value, manager="kubectl"):
        """A write that is no apply: it takes the key over if it changes it, and deletes it for None."""
        node = self.nodes[name]
        if value is None:
            node.labels.pop(key, None)
            node.owners.pop(key, None)
        elif node.labels.get(key) != value:
            node.labels[key] = value
            node.owners[key] = {f"{manager}/update"}

    def apply(self, name, uid, labels, manager=FIELD_MANAGER):
        node = self.nodes.get(name)
        if node is None or node.uid != uid:
            raise ApplyConflictError
        disputed = [
            key
            for key, value in labels.items()
            if node.labels.get(key, value) != value and node.owners[key] - {manager}
        ]
        if disputed:
            raise ApplyConflictError(*disputed)
        before = dict(node.labels)
        for key in [key for key, owners in node.owners.items() if manager in owners]:
            if key not in labels:
                node.owners[key].discard(manager)
                if not node.owners[key]:
                    del node.owners[key], node.labels[key]
        for key, value in labels.items():
            node.labels[key] = value
            node.owners.setdefault(key, set()).add(manager)
        self.writes += before != node.labels

    def seen(self):
        """Every node as the labeler sees it."""
        return {
            name: NodeLabels(
                node.uid,
                dict(node.labels),
                frozenset(k for k, owners in node.owners.items() if FIELD_MANAGER in owners),
            )
            for name, node in self.nodes.items()
        }


@pytest.fixture(scope="session")
def apply_server():
    """The class itself: hypothesis needs a new one for each example."""
    return ApplyServer


@pytest.fixture(scope="session")
def apply_conflict():
    return ApplyConflictError
