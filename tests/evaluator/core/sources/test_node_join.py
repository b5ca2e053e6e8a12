"""The node of a series: by its label, else by the scraped instance."""

import pytest

from evaluator.core.model.names import ObjectMeta
from evaluator.core.model.node import Address, Node, NodeStatus
from evaluator.core.sources.answer import NodeNames


def node(name, *addresses, hostname=None):
    labels = {"kubernetes.io/hostname": hostname} if hostname else None
    status = NodeStatus(addresses=[Address(*address) for address in addresses])
    return Node(ObjectMeta(name, labels=labels), status=status)


NODES = [
    node("node-a", ("InternalIP", "10.0.0.1"), ("Hostname", "host-a"), hostname="label-a"),
    node(
        "node-b", ("InternalIP", "10.0.0.2"), ("InternalIP", "fd00::2"), ("ExternalIP", "1.2.3.4")
    ),
    node("node-c", ("InternalIP", "10.0.0.9"), hostname="node-a"),
    node("node-d", ("InternalIP", "10.0.0.9")),
]


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({"node": "node-a"}, "node-a"),
        ({"node": "node-a", "instance": "10.0.0.2:9100"}, "node-a"),
        ({"node": "label-a"}, "node-a"),
        ({"node": "ksm", "instance": "10.0.0.2:9100"}, None),  # about something else than a node
        ({"node": "", "instance": "10.0.0.2:9100"}, "node-b"),
        ({"instance": "node-b"}, "node-b"),
        ({"instance": "node-b:9100"}, "node-b"),
        ({"instance": "NODE-B:9100"}, "node-b"),
        ({"instance": "[FD00::2]:9100"}, "node-b"),
        ({"node": "Label-A"}, "node-a"),
        ({"instance": "10.0.0.1:9100"}, "node-a"),
        ({"instance": "10.0.0.1"}, "node-a"),
        ({"instance": "host-a:9100"}, "node-a"),
        ({"instance": "label-a:9100"}, "node-a"),
        ({"instance": "[fd00::2]:9100"}, "node-b"),
        ({"instance": "[fd00::2]"}, "node-b"),
        ({"instance": "fd00::2"}, "node-b"),
        ({"instance": "1.2.3.4:9100"}, None),
        ({"instance": "10.0.0.9:9100"}, None),  # of two nodes
        ({"instance": "http://node-b:9100/"}, None),
        ({"instance": ":9100"}, None),
        ({"instance": ""}, None),
        ({}, None),
    ],
)
def test_node_of_a_series_is_found(labels, found):
    assert NodeNames(NODES, "node").node(labels) == found


def test_node_label_is_configurable():
    names = NodeNames(NODES, "kubernetes_node")
    assert names.node({"kubernetes_node": "node-b", "node": "node-a"}) == "node-b"


def test_node_name_precedes_other_addresses():
    """The address of node-c is "node-a"."""
    assert NodeNames(NODES, "node").node({"instance": "node-a:9100"}) == "node-a"


def test_node_without_addresses_has_its_name():
    assert NodeNames([Node(ObjectMeta("x"))], "node").node({"instance": "x:1"}) == "x"
