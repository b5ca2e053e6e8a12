"""Pods on nodes by namespace, as the watch of all pods changes them."""

import msgspec

from evaluator.core.cache.pods import PodCache
from evaluator.core.model import pod_record
from evaluator.features.custom_metrics.pods_by_namespace import PodsByNamespace


def pod(name, node="node-a", *, namespace="default", phase="Running", uid="1", **labels):
    return pod_record.decode(
        msgspec.Raw(
            msgspec.json.encode(
                {
                    "metadata": {
                        "name": name,
                        "namespace": namespace,
                        "uid": uid,
                        "labels": labels,
                    },
                    "spec": {"nodeName": node},
                    "status": {"phase": phase},
                }
            )
        ),
        labels=True,
    )


def watched():
    cache, found = PodCache(clock=lambda: 0.0, wall=lambda: 0.0), PodsByNamespace()
    cache.listeners.append(found.change)
    return cache.pods, found


def test_bound_pods_are_found_by_namespace():
    pods, found = watched()
    pods.replace(
        [pod("a"), pod("b", namespace="other"), pod("c", node=""), pod("d", phase="Failed")]
    )
    assert set(found.of("default")) == {"a"}
    assert set(found.of("other")) == {"b"}
    assert not found.of("none")


def test_pod_is_known_from_its_binding_to_its_end():
    pods, found = watched()
    pods.put(pod("a", node=""))
    assert not found.of("default")
    pods.put(pod("a", node="node-b"))
    assert found.of("default")["a"].node == "node-b"
    pods.put(pod("a", node="node-b", phase="Succeeded"))
    assert not found.of("default")
    pods.drop(pod("a"))
    assert not found.of("default")


def test_deleted_and_replaced_pods_are_dropped():
    pods, found = watched()
    pods.replace([pod("a"), pod("b")])
    pods.put(pod("a", node="node-c", uid="2"))
    assert found.of("default")["a"].node == "node-c"
    pods.replace([pod("b")])
    assert set(found.of("default")) == {"b"}


def test_labels_are_kept_only_on_request_and_shared():
    one, other = pod("a", app="web", zone="1"), pod("b", zone="1", app="web")
    assert one.labels == (("app", "web"), ("zone", "1"))
    assert one.labels is other.labels
    raw = msgspec.Raw(b'{"metadata":{"name":"a","namespace":"n","labels":{"app":"web"}}}')
    assert pod_record.decode(raw).labels == ()
