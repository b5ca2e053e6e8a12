"""The ungater over a real socket: its requests, and each way in which an API server rejects them."""

import pytest
from prometheus_client import CollectorRegistry

from evaluator.features.gangs.core.membership import ADMITTED, GATE
from evaluator.features.gangs.core.podgroup import GangKey
from evaluator.features.gangs.core.types import GangReason, GangRelease
from evaluator.features.gangs.metrics import GangMetrics
from evaluator.features.gangs.ungater import Ungater

TRAIN = GangKey("default", "train")
AT = "2027-01-15T08:00:00.000Z"


def pod(name, *, gated=True, uid="", group="train", minimum="2", **meta):
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": "1",
            "annotations": {"team": "ml"},
            "labels": {"podGroup": group, "minAvailable": minimum} if group else {},
            **meta,
        },
        "spec": {"schedulingGates": [{"name": GATE}] if gated else [], "containers": []},
        "status": {"phase": "Pending"},
    }


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
async def ungater(stub_server, connect, registry):
    return Ungater(
        await connect(stub_server.url), GangMetrics(registry), clock=lambda: 1_800_000_000.0
    )


@pytest.fixture
def counted(registry):
    def count(result):
        name = "plimsoll_gang_gates_lifted_total"
        return registry.get_sample_value(name, {"result": result}) or 0

    return count


@pytest.fixture
def release(a_pod):
    pods = tuple(a_pod(name, "train", 2) for name in ("a", "b"))
    return GangRelease(TRAIN, GangReason.ADMITTED, pods)


def names(ungate_patch):
    return [pod.name for pod in ungate_patch.pods]


def patched(stub_server):
    """The patched pods in order."""
    return [asked.path.rpartition("/")[2] for asked in stub_server.asked if asked.method == "PATCH"]


async def test_gang_is_listed_again_and_each_gate_lifted(
    stub_server, answer, ungater, release, counted
):
    stub_server.then(answer.lists(pod("a"), pod("b")), answer.says(200, {}), answer.says(200, {}))
    ungate_patch = await ungater.ungate_pods(release)
    assert (names(ungate_patch), ungate_patch.why_not) == (["a", "b"], "")
    listed, first, second = stub_server.asked
    assert listed.path == "/api/v1/namespaces/default/pods"
    assert listed.query["labelSelector"] == "podGroup=train"
    assert "resourceVersion" not in listed.query  # a read without it might be answered from a cache
    assert first.headers["Content-Type"] == "application/json-patch+json"
    assert (first.path, second.path) == (f"{listed.path}/a", f"{listed.path}/b")
    assert first.json == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-a"},
        {
            "op": "test",
            "path": "/metadata/labels",
            "value": {"podGroup": "train", "minAvailable": "2"},
        },
        {"op": "test", "path": "/spec/schedulingGates/0/name", "value": GATE},
        {"op": "remove", "path": "/spec/schedulingGates/0"},
        {"op": "add", "path": "/metadata/annotations/plimsoll.io~1admitted-at", "value": AT},
    ]
    assert ADMITTED == "plimsoll.io/admitted-at"
    assert counted("ok") == 2


async def test_gang_is_listed_by_each_spelling_of_its_label(stub_server, answer, ungater, a_pod):
    newer = "scheduling.x-k8s.io/pod-group"
    pods = (a_pod("a", "train", 2), a_pod("b", "train", 2, group_label=newer))
    both = {"podGroup": "train", newer: "train", "minAvailable": "2"}
    first, second = pod("a", labels=both), pod("b", labels={newer: "train", "minAvailable": "2"})
    stub_server.then(answer.lists(first), answer.lists(first, second))
    stub_server.then(answer.says(200, {}), answer.says(200, {}))
    lifted = await ungater.ungate_pods(GangRelease(TRAIN, GangReason.ADMITTED, pods))
    assert names(lifted) == ["a", "b"]
    selectors = [asked.query["labelSelector"] for asked in stub_server.asked[:2]]
    assert selectors == ["podGroup=train", f"{newer}=train"]


async def test_gang_of_several_pages_is_one_gang(stub_server, answer, ungater, release):
    stub_server.then(answer.lists(pod("a"), more="more"), answer.lists(pod("b")))
    stub_server.then(answer.says(200, {}), answer.says(200, {}))
    assert names(await ungater.ungate_pods(release)) == ["a", "b"]
    assert stub_server.asked[1].query["continue"] == "more"


async def test_single_pod_is_read_by_name(stub_server, answer, ungater, a_pod):
    stub_server.then(answer.lists(pod("a", group="")), answer.says(200, {}))
    alone = GangRelease(GangKey("default", "a", alone=True), GangReason.ADMITTED, (a_pod("a"),))
    assert names(await ungater.ungate_pods(alone)) == ["a"]
    assert stub_server.asked[0].query["fieldSelector"] == "metadata.name=a"


async def test_nothing_is_ungated_of_a_gang_no_longer_complete(
    stub_server, answer, ungater, release
):
    going = pod("b", deletionTimestamp="2027-01-15T07:59:59Z")
    stub_server.then(answer.lists(pod("a"), going, pod("c", group="other")))
    ungate_patch = await ungater.ungate_pods(release)
    assert ungate_patch.pods == ()
    assert "no pod is to be released" in ungate_patch.why_not
    assert patched(stub_server) == []


async def test_pods_that_count_without_min_available_are_found_too(
    stub_server, answer, ungater, release
):
    """A pod of the same podGroup without minAvailable: the gang index counts it, so the last check must too."""
    beside = pod("c", gated=False)
    del beside["metadata"]["labels"]["minAvailable"]
    stub_server.then(answer.lists(pod("a"), beside), answer.says(200, {}))
    assert names(await ungater.ungate_pods(release)) == ["a"]


async def test_pod_deleted_meanwhile_delays_no_other(
    stub_server, answer, ungater, release, counted
):
    stub_server.then(answer.lists(pod("a"), pod("b"), pod("c")))
    stub_server.then(answer.says(200, {}), answer.refuses(404), answer.says(200, {}))
    ungate_patch = await ungater.ungate_pods(release)
    assert (names(ungate_patch), ungate_patch.why_not) == (["a", "c"], "")
    assert (counted("gone"), counted("ok")) == (1, 2)


async def test_gang_is_counted_again_if_its_first_pod_is_deleted_meanwhile(
    stub_server, answer, ungater, release
):
    """Nothing of it runs yet: one pod of two would be half a gang."""
    stub_server.then(answer.lists(pod("a"), pod("b")), answer.refuses(404), answer.lists(pod("b")))
    ungate_patch = await ungater.ungate_pods(release)
    assert (ungate_patch.pods, patched(stub_server)) == ((), ["a"])
    assert "no pod is to be released" in ungate_patch.why_not


async def test_gang_stays_whole_if_one_pod_cannot_be_ungated(stub_server, answer, ungater, release):
    for _ in range(3):
        stub_server.then(answer.lists(pod("a"), pod("b")), answer.refuses(422))
    ungate_patch = await ungater.ungate_pods(release)
    assert (ungate_patch.pods, patched(stub_server)) == ((), ["a", "a", "a"])
    assert "422" in ungate_patch.why_not


@pytest.mark.parametrize("status", [409, 422])
async def test_changed_pod_is_read_again(stub_server, answer, ungater, release, counted, status):
    stub_server.then(answer.lists(pod("a"), pod("b")), answer.says(200, {}), answer.refuses(status))
    stub_server.then(answer.lists(pod("a", gated=False), pod("b", uid="new")), answer.says(200, {}))
    ungate_patch = await ungater.ungate_pods(release)
    assert (names(ungate_patch), ungate_patch.why_not) == (["a", "b"], "")
    assert stub_server.asked[-1].json[0]["value"] == "new"
    assert (counted("changed"), counted("ok")) == (1, 2)


async def test_gate_lifted_by_another_client_is_no_error(stub_server, answer, ungater, release):
    stub_server.then(answer.lists(pod("a"), pod("b")), answer.says(200, {}), answer.refuses(422))
    stub_server.then(answer.lists(pod("a", gated=False), pod("b", gated=False)))
    ungate_patch = await ungater.ungate_pods(release)
    assert (names(ungate_patch), ungate_patch.why_not) == (["a"], "")


async def test_repeated_changes_end_the_attempt_with_the_reason(
    stub_server, answer, ungater, release
):
    for _ in range(3):
        stub_server.then(answer.lists(pod("a"), pod("b", gated=False)))
        stub_server.then(answer.refuses(422, message="not while it rains"))
    ungate_patch = await ungater.ungate_pods(release)
    assert ungate_patch.pods == ()
    assert "not while it rains" in ungate_patch.why_not


@pytest.mark.parametrize("status", [400, 403, 429, 500, 503])
async def test_error_ends_the_attempt_and_ungated_pods_are_reported(
    stub_server, answer, ungater, release, counted, status
):
    stub_server.then(answer.lists(pod("a"), pod("b"), pod("c")), answer.says(200, {}))
    stub_server.then(answer.refuses(status, message="no"))
    ungate_patch = await ungater.ungate_pods(release)
    assert names(ungate_patch) == ["a"]
    assert ungate_patch.error.status == status
    assert patched(stub_server) == ["a", "b"]
    assert (counted("ok"), counted("error")) == (1, 1)


async def test_nothing_is_ungated_without_a_list(stub_server, answer, ungater, release):
    stub_server.otherwise(answer.breaks)
    ungate_patch = await ungater.ungate_pods(release)
    assert (ungate_patch.pods, ungate_patch.error.status) == ((), 0)
    assert patched(stub_server) == []


async def test_unreadable_pod_does_not_count(stub_server, answer, ungater, release):
    stub_server.then(answer.lists({**pod("a"), "spec": "none"}, pod("b")))
    assert (await ungater.ungate_pods(release)).pods == ()
