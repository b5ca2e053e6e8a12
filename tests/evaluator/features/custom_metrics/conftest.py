"""The custom metrics API over a store and a cluster, without network."""

import json

import pytest
from prometheus_client import CollectorRegistry

from evaluator.core.cache.cluster import ClusterCache
from evaluator.core.model.node import Node, NodeMeta
from evaluator.core.model.pod_record import PodRecord
from evaluator.core.policy.decide import Decisions
from evaluator.core.readings.store import Store
from evaluator.core.signals import PodChanged
from evaluator.features.custom_metrics.api import ApiMetrics, CustomMetricsApi
from evaluator.features.custom_metrics.lists import MetricLists, PodsByNamespace
from evaluator.features.custom_metrics.readings import CurrentReadings
from plimsoll.http.types import Parts, Request
from wire.codec import Delta

ROOT = "/apis/custom.metrics.k8s.io"
EPOCH = 1_700_000_000.0
"""Unix time at 0 of the clock."""


class World:
    """Nodes, pods and readings; `now` is the clock."""

    def __init__(self, *metrics):
        self.now = 1000.0
        self.served = tuple(sorted(metrics))
        self.missing = []
        self.unready = []
        self.store = Store(stale_after=30.0, started=0.0)
        self.store.subscribe(metrics)
        self.cluster, self.pods = ClusterCache(), PodsByNamespace()
        self.registry = CollectorRegistry()
        self.metrics = ApiMetrics(self.registry)
        readings = CurrentReadings(
            self.store,
            lambda: self.cluster.names,
            Decisions,
            clock=self.clock,
            wall=lambda: EPOCH + self.now,
        )
        lists = MetricLists(
            readings,
            self.cluster,
            self.pods,
            left_out=self.metrics.custom_metrics_left_out.inc,
            clock=self.clock,
        )
        self.api = CustomMetricsApi(
            lists,
            self.metrics,
            served=lambda: self.served,
            missing=lambda: self.missing,
            unready=lambda: self.unready,
        )

    def clock(self):
        return self.now

    def node(self, name, **labels):
        self.cluster.nodes.put(Node(NodeMeta(name=name, uid=name, labels=labels)))

    def pod(self, name, node, namespace="default", phase="Running", **labels):
        fields = dict.fromkeys(("uid", "kind"), name) | dict.fromkeys(
            ("bound", "created", "crashed")
        )
        self.pods.change(
            PodChanged(
                None,
                PodRecord(
                    namespace=namespace,
                    name=name,
                    node=node,
                    phase=phase,
                    requests=(),
                    leaving=False,
                    ready=True,
                    restarts=0,
                    crashing=False,
                    labels=tuple(sorted(labels.items())),
                    **fields,
                ),
            )
        )

    def report(self, node, *, several=None, absent=(), **values):
        self.store.report(node, Delta(values, absent, several or {}), self.now)

    async def get(self, path, *, method="GET", query=None, **headers):
        """Return the response, with its body joined."""
        path = path if path.startswith("/") else f"{ROOT}/{path}"
        found = {name.replace("_", "-"): value for name, value in headers.items()}
        response = await self.api.answer(Request(method, path, query or {}, found))
        body = response.body
        content = b"".join(body.parts) if isinstance(body, Parts) else bytes(body)
        assert len(content) == response.size
        return response, content

    async def items(self, path, **query):
        """Return the items of a list as name → value."""
        response, body = await self.get(path, query={k: [v] for k, v in query.items()})
        assert response.status == 200, body
        return {
            item["describedObject"]["name"]: item["value"] for item in json.loads(body)["items"]
        }

    async def refused(self, path, **query):
        """Return status, reason and message of an error."""
        response, body = await self.get(path, query={k: [v] for k, v in query.items()})
        found = json.loads(body)
        assert (found["kind"], found["status"]) == ("Status", "Failure")
        assert found["code"] == response.status
        return int(response.status), found["reason"], found["message"]

    def count(self, name, **labels):
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def world():
    return World
