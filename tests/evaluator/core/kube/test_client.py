"""The Kubernetes client over a real socket: its requests, and each failure as a KubeError."""

import json

import pytest

from evaluator.core.kube.resources import LINKED_PODS, NODES, POLICIES
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import PolicyKey
from evaluator.core.model.node_labels import LabelApply

NODE = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "7"}}


@pytest.fixture
async def kube(stub_server, connect):
    return await connect(stub_server.url)


async def test_list_is_requested_in_pages(stub_server, answer, kube):
    stub_server.then(answer.lists(NODE, version="5", more="token=/+"), answer.lists(version="5"))
    page = await kube.list_page(NODES)
    assert (page.resource_version, page.more) == ("5", "token=/+")
    assert [json.loads(bytes(item)) for item in page.items] == [NODE]
    assert (await kube.list_page(NODES, page.more)).more == ""
    first, second = stub_server.asked
    assert (first.method, first.path, first.query) == ("GET", "/api/v1/nodes", {"limit": "250"})
    assert second.query == {"limit": "250", "continue": "token=/+"}
    assert first.headers["Accept"] == "application/json"


async def test_only_pods_with_a_policy_are_listed(stub_server, answer, kube):
    stub_server.then(answer.lists())
    await kube.list_page(LINKED_PODS)
    assert stub_server.asked[0].path == "/api/v1/pods"
    assert stub_server.asked[0].query["labelSelector"] == "telemetry-policy"


async def test_policies_are_listed_in_all_namespaces(stub_server, answer, kube):
    stub_server.then(answer.lists())
    await kube.list_page(POLICIES)
    assert stub_server.asked[0].path == "/apis/telemetry.intel.com/v1alpha1/taspolicies"


async def test_empty_list_may_have_null_items(stub_server, answer, kube):
    stub_server.then(answer.says(200, {"metadata": {"resourceVersion": "1"}, "items": None}))
    assert (await kube.list_page(NODES)).items == []


async def test_watch_yields_one_document_per_event(stub_server, answer, kube):
    events = [("ADDED", NODE), ("MODIFIED", NODE), ("BOOKMARK", NODE)]
    stub_server.then(answer.streams(*events))
    lines = [line async for line in kube.watch(NODES, "5", timeout=300.7)]
    assert [json.loads(line)["type"] for line in lines] == ["ADDED", "MODIFIED", "BOOKMARK"]
    assert stub_server.asked[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "300",
    }


async def test_watch_joins_split_documents(stub_server, answer, kube):
    whole = b"".join(answer.line(("ADDED", NODE)) for _ in range(3))
    pieces = [whole[i : i + 7] for i in range(0, len(whole), 7)]
    stub_server.then(answer.streams(*pieces, b"\n\r\n", answer.line(("DELETED", NODE))[:-1]))
    lines = [line async for line in kube.watch(NODES, "5", timeout=60)]
    assert [json.loads(line)["type"] for line in lines] == ["ADDED"] * 3 + ["DELETED"]


@pytest.mark.parametrize("size", [70_000, 140_000, 1_500_000])
async def test_watch_accepts_objects_of_any_size(stub_server, answer, kube, size):
    """A pod or policy may be as large as etcd accepts: 1.5 MB."""
    large = {"metadata": {"name": "n", "annotations": {"x": "y" * size}}}
    stub_server.then(answer.streams(("ADDED", large), ("ADDED", NODE)))
    lines = [line async for line in kube.watch(NODES, "5", timeout=60)]
    assert [len(line) > size for line in lines] == [True, False]


async def test_apply_names_manager_fields_and_node(stub_server, answer, kube):
    stub_server.then(answer.says(200, NODE))
    node = await kube.apply_node_labels(LabelApply("n", "u", {"p": "v"}))
    assert node.metadata.resource_version == "7"
    (asked,) = stub_server.asked
    assert (asked.method, asked.path, asked.query) == (
        "PATCH",
        "/api/v1/nodes/n",
        {"fieldManager": "plimsoll"},
    )
    assert asked.headers["Content-Type"] == "application/apply-patch+yaml"
    assert asked.json == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "uid": "u", "labels": {"p": "v"}},
    }


async def test_conflict_names_the_conflicting_fields(stub_server, answer, kube):
    cause = {"reason": "FieldManagerConflict", "field": ".metadata.labels.p", "message": "x"}
    stub_server.then(answer.refuses(409, "Conflict", "conflict with kubectl", [cause]))
    with pytest.raises(KubeError, match="409 conflict with kubectl") as refused:
        await kube.apply_node_labels(LabelApply("n", "u", {"p": "v"}))
    assert (refused.value.status, refused.value.causes) == (409, (cause,))


async def test_policy_status_is_merged(stub_server, answer, kube):
    stub_server.then(answer.says(200, {}))
    await kube.patch_policy_status(PolicyKey("ns", "p"), {"compliance": "Compliant"})
    (asked,) = stub_server.asked
    assert asked.path == "/apis/telemetry.intel.com/v1alpha1/namespaces/ns/taspolicies/p/status"
    assert (asked.method, asked.headers["Content-Type"]) == (
        "PATCH",
        "application/merge-patch+json",
    )
    assert asked.json == {"status": {"compliance": "Compliant"}}


async def test_subresource_is_created_below_its_pod(stub_server, answer, kube):
    stub_server.then(
        answer.says(201, {}), answer.refuses(429, "TooManyRequests", "would violate the budget")
    )
    await kube.create_subresource("ns", "web", "eviction", {"kind": "Eviction"})
    (asked,) = stub_server.asked
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/ns/pods/web/eviction")
    assert asked.json == {"kind": "Eviction"}
    with pytest.raises(KubeError, match="would violate the budget") as refused:
        await kube.create_subresource("ns", "web", "eviction", {})
    assert refused.value.status == 429


async def test_event_is_created_in_its_namespace(stub_server, answer, kube):
    stub_server.then(answer.says(201, {}))
    await kube.create_event({"metadata": {"name": "e", "namespace": "ns"}})
    assert stub_server.asked[0].path == "/api/v1/namespaces/ns/events"


async def test_names_are_quoted(stub_server, answer, kube):
    stub_server.then(answer.says(200, NODE))
    await kube.apply_node_labels(LabelApply("../secrets?x=", "u", {}))
    assert stub_server.asked[0].path.startswith("/api/v1/nodes/")
    assert "x" not in stub_server.asked[0].query


async def test_token_is_sent_with_every_request(stub_server, answer, connect):
    kube = await connect(stub_server.url, token="secret")
    stub_server.then(answer.lists(), answer.streams())
    await kube.list_page(NODES)
    assert [line async for line in kube.watch(NODES, "1", timeout=60)] == []
    assert [asked.headers["Authorization"] for asked in stub_server.asked] == ["Bearer secret"] * 2


async def test_replaced_token_is_read_again_after_a_401(stub_server, answer, connect, tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    kube = await connect(stub_server.url, tokenFile=str(token))
    token.write_text("new")
    stub_server.then(answer.refuses(401), answer.lists(), answer.lists())
    await kube.list_page(NODES)
    await kube.list_page(NODES)
    sent = [asked.headers["Authorization"] for asked in stub_server.asked]
    assert sent == ["Bearer old", "Bearer new", "Bearer new"]


async def test_rejection_of_the_only_token_is_an_error(stub_server, answer, connect, tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    kube = await connect(stub_server.url, tokenFile=str(token))
    stub_server.then(answer.refuses(401), answer.refuses(401))
    for _ in range(2):
        with pytest.raises(KubeError) as refused:
            await kube.list_page(NODES)
        assert refused.value.status == 401
    assert len(stub_server.asked) == 2, "rejected requests are not sent again"


async def test_missing_kubeconfig_is_an_error_of_the_request(
    stub_server, answer, connect, tmp_path
):
    kube = await connect(stub_server.url, token="old")
    (tmp_path / "kubeconfig").unlink()
    stub_server.then(answer.refuses(401))
    with pytest.raises(KubeError, match="no kubeconfig"):
        await kube.list_page(NODES)


async def test_without_credentials_no_authorization_is_sent(stub_server, answer, kube):
    stub_server.then(answer.lists())
    await kube.list_page(NODES)
    assert "Authorization" not in stub_server.asked[0].headers


async def test_token_is_reviewed_for_an_audience(stub_server, answer, kube):
    status = {
        "authenticated": True,
        "user": {"username": "u", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}},
        "audiences": ["us"],
    }
    stub_server.then(answer.says(201, {"kind": "TokenReview", "status": status}))
    review = await kube.review_token("secret", "us")
    assert (review.authenticated, review.audiences) == (True, ["us"])
    assert (review.user.username, review.user.extra) == ("u", {"k": ["v"]})
    (asked,) = stub_server.asked
    assert (asked.method, asked.path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert asked.json["spec"] == {"token": "secret", "audiences": ["us"]}


async def test_token_repeated_by_the_server_is_not_logged(stub_server, answer, connect):
    stub_server.otherwise(answer.refuses(403, message="Bearer eyJhbGciOi may not"))
    kube = await connect(stub_server.url, token="eyJhbGciOi")
    with pytest.raises(KubeError, match=r"403 Bearer \[hidden] may not"):
        await kube.read_config_map("n", "c")


async def test_token_that_is_no_valid_header_is_an_error(stub_server, connect):
    kube = await connect(stub_server.url, token="two\nlines")
    with pytest.raises(KubeError, match=r"GET /api/v1/nodes: .*header"):
        await kube.list_page(NODES)
    assert stub_server.asked == []


@pytest.mark.parametrize(
    ("status", "gone"), [(400, False), (403, False), (410, True), (429, False), (500, False)]
)
async def test_rejections_keep_their_status(stub_server, answer, kube, status, gone):
    stub_server.then(answer.refuses(status, message="because"), answer.refuses(status))
    with pytest.raises(KubeError, match=f"GET /api/v1/nodes: {status} because") as refused:
        await kube.list_page(NODES)
    assert (refused.value.status, refused.value.gone) == (status, gone)
    with pytest.raises(KubeError) as refused:
        _ = [line async for line in kube.watch(NODES, "1", timeout=60)]
    assert (refused.value.status, refused.value.gone) == (status, gone)


@pytest.mark.parametrize(
    "body", [b"", b"<html>502</html>", b"\xff\xfe", b"[]", b'"no"', b'{"message":5}']
)
async def test_rejection_in_a_proxys_words_is_an_error_too(stub_server, answer, kube, body):
    stub_server.then(answer.says(502, body, "text/html"))
    with pytest.raises(KubeError, match="502") as refused:
        await kube.list_page(NODES)
    assert refused.value.status == 502


@pytest.mark.parametrize("body", [b"", b"<html>hello</html>", b"[]", b'{"items":5}', b'{"items":'])
async def test_unreadable_list_is_an_error(stub_server, answer, kube, body):
    stub_server.then(answer.says(200, body))
    with pytest.raises(KubeError, match="GET /api/v1/nodes") as refused:
        await kube.list_page(NODES)
    assert refused.value.status == 0


async def test_oversized_adapter_response_is_not_kept(stub_server, answer, kube):
    stub_server.then(answer.says(200, b"x" * 10_000), answer.says(200, b"x" * 10_001))
    assert (await kube.get_raw("/apis/g/v1/m", largest=10_000))[0] == b"x" * 10_000
    with pytest.raises(KubeError, match="a response of more than 10000 bytes"):
        await kube.get_raw("/apis/g/v1/m", largest=10_000)


async def test_unreadable_response_to_an_apply_is_an_error(stub_server, answer, kube):
    stub_server.then(answer.says(200, b"<html>hello</html>"))
    with pytest.raises(KubeError, match="PATCH /api/v1/nodes/n"):
        await kube.apply_node_labels(LabelApply("n", "u", {}))


async def test_reset_connection_is_an_error(stub_server, answer, kube):
    stub_server.then(answer.breaks, answer.breaks)  # the HTTP client tries a GET twice by itself
    with pytest.raises(KubeError, match="GET /api/v1/nodes") as refused:
        await kube.list_page(NODES)
    assert refused.value.status == 0


async def test_broken_watch_is_an_error_after_its_events(stub_server, answer, kube):
    stub_server.then(answer.streams(("ADDED", NODE), end="reset"))
    events = kube.watch(NODES, "1", timeout=60)
    assert json.loads(await anext(events))["type"] == "ADDED"
    with pytest.raises(KubeError, match="watch of nodes broke"):
        await anext(events)


async def test_refused_connection_is_an_error(stub_server, kube):
    await stub_server.stop()
    with pytest.raises(KubeError, match="GET /api/v1/nodes: Cannot connect") as refused:
        await kube.list_page(NODES)
    assert refused.value.status == 0


async def test_cancelled_watch_frees_its_connection(stub_server, answer, kube):
    stub_server.then(answer.streams(("ADDED", NODE), end="hang"), answer.lists())
    events = kube.watch(NODES, "1", timeout=60)
    await anext(events)
    await events.aclose()
    await kube.list_page(NODES)


async def test_controller_is_read_through_its_own_api(stub_server, answer, kube):
    stub_server.then(answer.says(200, {"kind": "Job"}), answer.says(200, {}), answer.refuses(404))
    assert await kube.read_controller("batch/v1", "jobs", "ns", "j") == {"kind": "Job"}
    await kube.read_controller("v1", "replicationcontrollers", "ns", "c")
    assert await kube.read_controller("apps/v1", "replicasets", "ns", "r") is None
    assert [asked.path for asked in stub_server.asked] == [
        "/apis/batch/v1/namespaces/ns/jobs/j",
        "/api/v1/namespaces/ns/replicationcontrollers/c",
        "/apis/apps/v1/namespaces/ns/replicasets/r",
    ]


async def test_events_of_one_object_are_listed_in_pages(stub_server, answer, kube):
    stub_server.then(
        answer.lists({"reason": "a"}, more="there is more"), answer.lists({"reason": "b"})
    )
    found = await kube.list_events_about("ns", "uid-1")
    assert [json.loads(bytes(event))["reason"] for event in found] == ["a", "b"]
    for asked in stub_server.asked:
        assert asked.path == "/api/v1/namespaces/ns/events"
        assert asked.query["fieldSelector"] == "involvedObject.uid=uid-1"
