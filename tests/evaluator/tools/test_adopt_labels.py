"""The command adopt-labels on the sandbox's API server: ownership moves, labels stay, output and exit status;
which labels are adopted, and the resulting `managedFields`.
"""

import json
import sys

import pytest

from evaluator.core.kube.transport import KubeError
from evaluator.tools.adopt_labels import (
    PASSES,
    IncompleteError,
    LabelMigration,
    adopted,
    candidates,
)
from tests import preloaded

DEMO, CARD = "demo", "telemetry.aware.scheduling.demo/card0"
NODES = ("node-a", "node-b")
POLICY = {
    "apiVersion": "telemetry.intel.com/v1alpha1",
    "kind": "TASPolicy",
    "metadata": {"name": "demo", "namespace": "default"},
    "spec": {"strategies": {}},
}
BOTH = {DEMO, CARD}
ALL = dict.fromkeys(NODES, BOTH)
PREFIX = "telemetry.aware.scheduling."


def named(node):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}


@pytest.fixture
async def cluster(api):
    """A policy and two nodes with labels of TAS; node-b has no managedFields."""
    await api.policies()
    await api.policy(POLICY)
    for name in NODES:
        await api.node(name)
        if name == "node-a":
            await api.apply(f"/api/v1/nodes/{name}", named(name), "somebody")
        labels = {DEMO: "violating", CARD: "true", "mine": "1"}
        await api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    await api.node("node-c")
    return api


@pytest.fixture
async def kube(cluster, connect):
    return await connect(cluster.url)


async def owned(api, name):
    """Return the label keys that Plimsoll owns on a node."""
    node = await api.get(f"/api/v1/nodes/{name}")
    return {
        field.removeprefix("f:")
        for entry in node["metadata"].get("managedFields", ())
        if entry["manager"] == "plimsoll" and entry["operation"] == "Apply"
        for field in entry["fieldsV1"].get("f:metadata", {}).get("f:labels", {})
    }


class Reports(dict):
    def __call__(self, node, labels):
        assert node not in self
        self[node] = set(labels)


@pytest.mark.parametrize("name", NODES)
async def test_ownership_moves_and_no_label_changes(cluster, kube, name):
    before = await cluster.labels(name)
    reports = Reports()
    await LabelMigration(kube, pause=0.0).run(reports)
    assert reports == ALL
    assert await owned(cluster, name) == BOTH
    assert await cluster.labels(name) == before
    await cluster.apply(f"/api/v1/nodes/{name}", named(name), "plimsoll")
    assert await cluster.labels(name) == {"mine": "1"}, "the next apply can remove them"


async def test_second_run_has_nothing_to_do(cluster, kube):
    await LabelMigration(kube, pause=0.0).run(Reports())
    again, planned = Reports(), Reports()
    await LabelMigration(kube, pause=0.0).run(again)
    await LabelMigration(kube).plan(planned)
    assert again == planned == {}


async def test_plan_reports_the_same_nodes_and_writes_nothing(cluster, kube):
    before = [await cluster.get(f"/api/v1/nodes/{name}") for name in NODES]
    reports = Reports()
    await LabelMigration(kube).plan(reports)
    assert reports == ALL
    assert [await cluster.get(f"/api/v1/nodes/{name}") for name in NODES] == before


class InterruptedKube:
    """A Kube whose `put_managed_fields` first awaits `before(node name, attempt)`."""

    def __init__(self, kube, before):
        self._kube = kube
        self._before = before
        self.tries = []

    def __getattr__(self, name):
        return getattr(self._kube, name)

    async def put_managed_fields(self, node, fields):
        name = node["metadata"]["name"]
        self.tries.append(name)
        await self._before(name, self.tries.count(name))
        await self._kube.put_managed_fields(node, fields)


async def test_node_changed_since_the_list_is_retried(cluster, kube):
    async def change_first(name, attempt):
        if attempt == 1:
            await cluster.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": {"new": "1"}}})

    interposed, reports = InterruptedKube(kube, change_first), Reports()
    await LabelMigration(interposed, pause=0.0).run(reports)
    assert reports == ALL
    assert all(interposed.tries.count(name) == 2 for name in NODES)
    assert (await cluster.labels("node-a"))["new"] == "1"


async def test_deleted_node_is_skipped(cluster, kube):
    async def delete(name, _attempt):
        if name == "node-a":
            await cluster.delete(f"/api/v1/nodes/{name}")

    reports = Reports()
    await LabelMigration(InterruptedKube(kube, delete), pause=0.0).run(reports)
    assert reports == {"node-b": BOTH}


async def test_lasting_conflict_ends_with_an_error_and_other_nodes_are_done(cluster, kube):
    async def keep_changing(name, attempt):
        if name == "node-a":
            labels = {"new": str(attempt)}
            await cluster.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})

    interposed, reports = InterruptedKube(kube, keep_changing), Reports()
    with pytest.raises(IncompleteError, match="not taken over"):
        await LabelMigration(interposed, pause=0.0).run(reports)
    assert reports == {"node-b": BOTH}
    assert interposed.tries.count("node-a") == PASSES


async def test_forbidden_write_ends_at_once(cluster, kube):
    async def forbid(_name, _attempt):
        raise KubeError(403, "nodes is forbidden")

    interposed = InterruptedKube(kube, forbid)
    with pytest.raises(KubeError, match="forbidden"):
        await LabelMigration(interposed, pause=0.0).run(Reports())
    assert len(interposed.tries) == 1


async def adopt_labels(*flags):
    """Run the command; return exit status, stdout, stderr."""
    return await preloaded.run((sys.executable, "-P", "-m", "evaluator", "adopt-labels", *flags))


@pytest.mark.e2e
async def test_command_prints_each_node_and_a_total(cluster, kubeconfig):
    config = f"--kubeConfig={kubeconfig(cluster.url)}"
    for verb, more in (("would take over", ("--dry-run",)), ("took over", ())):
        status, out, err = await adopt_labels(config, *more)
        assert (status, err) == (0, "")
        *lines, last = out.splitlines()
        assert sorted(lines) == [f"{name}: {verb} {DEMO}, {CARD}" for name in NODES]
        assert last == f"{verb} 4 labels on 2 nodes"
    assert await adopt_labels(config) == (0, "took over 0 labels on 0 nodes\n", "")


@pytest.mark.e2e
async def test_command_without_the_crd_exits_with_status_1(api, kubeconfig):
    status, _, err = await adopt_labels(f"--kubeConfig={kubeconfig(api.url)}")
    assert status == 1
    (line,) = err.splitlines()
    assert line.startswith("plimsoll adopt-labels: GET /apis/telemetry.intel.com")


@pytest.mark.e2e
async def test_command_without_a_kubeconfig_exits_with_status_1(tmp_path):
    status, out, err = await adopt_labels(f"--kubeConfig={tmp_path}/none")
    assert (status, out) == (1, "")
    assert err.startswith("plimsoll adopt-labels: no kubeconfig at ")


def node(labels, *managers):
    """A node with labels and managed fields: (manager, operation, keys) each."""
    entries = [
        {
            "manager": name,
            "operation": operation,
            "apiVersion": "v1",
            "time": "T0",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {f"f:{key}": {} for key in keys}}},
        }
        for name, operation, keys in managers
    ]
    return {"metadata": {"name": "n", "labels": labels, "managedFields": entries}}


@pytest.mark.parametrize(
    ("key", "value", "ours"),
    [
        ("demo", "violating", True),
        ("demo", "mine", False),
        ("other", "violating", False),
        (f"{PREFIX}demo/card0", "true", True),
        (f"{PREFIX}demo/card0", "anything", True),
        (f"{PREFIX}other/card0", "true", False),
        (f"{PREFIX}demo", "true", False),
        ("demo/card0", "true", False),
        (f"x.{PREFIX}demo/card0", "true", False),
    ],
)
def test_only_labels_of_policies_are_candidates(key, value, ours):
    found = node({key: value}, ("tas", "Update", [key]))
    assert candidates(found, {"demo"}).keys() == ({key} if ours else set())


@pytest.mark.parametrize(
    ("managers", "ours"),
    [
        ([("tas", "Update", ["demo"])], True),
        ([("tas", "Update", ["demo"]), ("plimsoll", "Apply", ["demo"])], True),
        ([("tas", "Update", ["demo"]), ("argocd", "Apply", ["demo"])], False),
        ([("argocd", "Apply", ["demo"])], False),
        ([("plimsoll", "Apply", ["demo"])], False),
        ([], True),
    ],
    ids=[
        "owned by TAS",
        "shared with us",
        "shared with an applier",
        "owned by an applier",
        "ours",
        "no managed fields",
    ],
)
def test_labels_applied_by_another_manager_are_no_candidates(managers, ours):
    found = node({"demo": "violating"}, *managers)
    assert candidates(found, {"demo"}).keys() == ({"demo"} if ours else set())


def test_other_owners_keep_their_other_fields():
    found = node({}, ("tas", "Update", ["demo", "mine"]), ("kubelet", "Update", ["zone"]))
    found["metadata"]["managedFields"][1]["fieldsV1"]["f:status"] = {"f:x": {}}
    before = json.dumps(found)
    tas, kubelet, ours = adopted(found, {"demo"}, at="T1")
    assert json.dumps(found) == before, "the input is not modified"
    assert tas["fieldsV1"]["f:metadata"]["f:labels"] == {"f:mine": {}}
    assert kubelet == found["metadata"]["managedFields"][1]
    assert ours == {
        "manager": "plimsoll",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "T1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:demo": {}}}},
    }


def test_entries_without_fields_are_dropped():
    found = node({}, ("tas", "Update", ["demo"]), ("plimsoll", "Apply", ["own"]))
    (ours,) = adopted(found, {"demo"}, at="T1")
    assert ours["fieldsV1"]["f:metadata"]["f:labels"] == {"f:own": {}, "f:demo": {}}
