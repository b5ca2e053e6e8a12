"""Lists: selectors, pages, and expired history."""

import pytest

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def five(api, node):
    """Nodes n0..n4: even ones in zone a, odd ones in b; n4 has a disk."""
    for index in range(5):
        labels = {"zone": "ab"[index % 2], **({"disk": "ssd"} if index == 4 else {})}
        await api.post(NODES, node(f"n{index}", labels=labels))


async def names(api, path=NODES, **query):
    reply = await api.get(path, **query)
    assert reply.code == 200, reply.body
    return [item["metadata"]["name"] for item in reply.body["items"]]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("zone=a", ["n0", "n2", "n4"]),
        ("zone==a,disk", ["n4"]),
        ("zone!=a", ["n1", "n3"]),
        ("zone in (b, c)", ["n1", "n3"]),
        ("zone notin (b)", ["n0", "n2", "n4"]),
        ("!disk,zone=a", ["n0", "n2"]),
        ("disk", ["n4"]),
        ("nosuch", []),
        ("nosuch!=x", ["n0", "n1", "n2", "n3", "n4"]),
        ("", ["n0", "n1", "n2", "n3", "n4"]),
    ],
)
async def test_label_selectors_are_evaluated(api, five, selector, expected):
    assert await names(api, labelSelector=selector) == expected


@pytest.mark.parametrize("selector", ["zone in (a", "=", "a=b,", "a b", "in (a)", "a=b c", "-x=1"])
async def test_invalid_label_selector_is_a_bad_request(api, selector):
    reply = await api.get(NODES, labelSelector=selector)
    assert (reply.code, reply.reason) == (400, "BadRequest")


async def test_field_selectors_are_evaluated(api, node, pod):
    await api.post(NODES, node("n0"))
    for name, place in (("a", "n0"), ("b", "n0"), ("c", None)):
        await api.post(PODS, pod(name, spec={"nodeName": place} if place else None))
    await api.patch(f"{PODS}/b/status", {"status": {"phase": "Running"}})
    assert await names(api, PODS, fieldSelector="spec.nodeName=n0") == ["a", "b"]
    assert await names(api, PODS, fieldSelector="spec.nodeName=") == ["c"]
    assert await names(api, PODS, fieldSelector="status.phase!=Running") == ["a", "c"]
    both = "spec.nodeName==n0,status.phase=Pending"
    assert await names(api, PODS, fieldSelector=both) == ["a"]
    assert await names(api, "/api/v1/pods", fieldSelector="metadata.name=c") == ["c"]
    assert await names(api, "/api/v1/pods", fieldSelector="metadata.namespace=other") == []


@pytest.mark.parametrize("selector", ["spec.color=red", "metadata.name", "a.b"])
async def test_unsupported_field_selectors_are_a_bad_request(api, selector):
    reply = await api.get(NODES, fieldSelector=selector)
    assert (reply.code, reply.reason) == (400, "BadRequest")


async def test_events_are_selected_by_involved_object(api):
    path = "/api/v1/namespaces/default/events"
    for name, about in (("a.1", "web"), ("b.1", "db")):
        involved = {"kind": "Pod", "namespace": "default", "name": about, "uid": f"uid-{about}"}
        await api.post(path, {"metadata": {"name": name}, "involvedObject": involved})
    query = "involvedObject.kind=Pod,involvedObject.name=web,involvedObject.uid=uid-web"
    assert await names(api, path, fieldSelector=query) == ["a.1"]


async def test_both_event_apis_share_one_store(api):
    event = {
        "metadata": {"name": "e.1"},
        "regarding": {"kind": "Pod", "name": "web"},
        "note": "hello",
        "reportingController": "plimsoll",
        "reason": "Refused",
        "type": "Warning",
    }
    created = await api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (created.code, created.body["note"]) == (201, "hello")
    core = (await api.get("/api/v1/namespaces/default/events/e.1")).body
    assert core["apiVersion"] == "v1"
    assert core["message"] == "hello"
    assert core["involvedObject"] == {"kind": "Pod", "name": "web"}
    assert core["reportingComponent"] == "plimsoll"
    listed = (await api.get("/apis/events.k8s.io/v1/events")).body["items"]
    assert [(item["apiVersion"], item["note"]) for item in listed] == [
        ("events.k8s.io/v1", "hello")
    ]


async def test_pages_of_a_list_are_of_one_revision(api, five, node):
    first = await api.get(NODES, limit="2")
    assert [item["metadata"]["name"] for item in first.body["items"]] == ["n0", "n1"]
    assert first.body["metadata"]["remainingItemCount"] == 3
    # Changes between the pages are not visible in them.
    await api.delete(f"{NODES}/n2")
    await api.post(NODES, node("n25"))
    await api.patch(f"{NODES}/n3", {"metadata": {"labels": {"late": "yes"}}})
    second = await api.get(NODES, limit="2", **{"continue": first.body["metadata"]["continue"]})
    third = await api.get(NODES, limit="2", **{"continue": second.body["metadata"]["continue"]})
    rest = [*second.body["items"], *third.body["items"]]
    assert [item["metadata"]["name"] for item in rest] == ["n2", "n3", "n4"]
    assert "late" not in rest[1]["metadata"]["labels"]
    assert "continue" not in third.body["metadata"]
    assert third.version == second.version == first.version


async def test_expired_continue_token_is_gone(api, server, five):
    first = await api.get(NODES, limit="2")
    server.expire_history()
    reply = await api.get(NODES, limit="2", **{"continue": first.body["metadata"]["continue"]})
    assert (reply.code, reply.reason) == (410, "Expired")


@pytest.mark.parametrize("token", ["x", "e30=", "bm90IGpzb24=", "W10="])
async def test_invalid_continue_token_is_a_bad_request(api, token):
    assert (await api.get(NODES, **{"continue": token})).code == 400


async def test_exact_revision_is_listed_as_it_was(api, node):
    await api.post(NODES, node("a"))
    then = await api.get(NODES)
    await api.delete(f"{NODES}/a")
    exact = {"resourceVersion": then.version, "resourceVersionMatch": "Exact"}
    assert await names(api, **exact) == ["a"]
    assert await names(api, resourceVersion=then.version) == []
    assert await names(api, resourceVersion="0") == []


async def test_future_revision_is_rejected(api):
    reply = await api.get(NODES, resourceVersion="999999")
    assert (reply.code, reply.reason) == (504, "Timeout")
    assert reply.causes[0]["reason"] == "ResourceVersionTooLarge"


async def test_non_numeric_revision_is_a_bad_request(api):
    assert (await api.get(NODES, resourceVersion="abc")).code == 400
    assert (await api.get(NODES, limit="many")).code == 400


async def test_list_can_return_metadata_only(api, five):
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    reply = await api.call("GET", NODES, headers={"Accept": accept}, limit="1")
    assert reply.body["kind"] == "PartialObjectMetadataList"
    assert reply.body["items"][0]["kind"] == "PartialObjectMetadata"
    assert set(reply.body["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_list_and_items_have_their_kinds(api, five):
    reply = await api.get(NODES)
    assert (reply.body["kind"], reply.body["apiVersion"]) == ("NodeList", "v1")
    assert reply.body["items"][0]["kind"] == "Node"
