"""Finds the node of a series: by a label with the node's name, else by the `instance` that Prometheus scraped."""

from collections.abc import Iterable, Mapping

from evaluator.core.model.node import Node

_HOSTNAME = "kubernetes.io/hostname"
_OTHER_NAMES = {"InternalIP", "Hostname"}


class NodeNames:
    """Names and addresses of the cluster's nodes. One that two nodes share is ambiguous and ignored."""

    def __init__(self, nodes: Iterable[Node], label: str) -> None:
        self._label = label
        names = {node.metadata.name: node for node in nodes}
        self._known: dict[str, str | None] = {}
        for name, node in names.items():
            for alias in _aliases(node):
                shared = self._known.get(alias, name) != name
                self._known[alias] = None if shared else name
        self._known |= {name: name for name in names}

    def node(self, labels: Mapping[str, str]) -> str | None:
        """Return the node of a series with these labels; None if there is none.

        If the label names something else, `instance` is not used: a series about one node is often scraped from a pod
        on another.
        """
        if named := labels.get(self._label):
            return self._known.get(named)
        instance = labels.get("instance", "")
        return self._known.get(instance) or self._known.get(_host(instance))


def named(labels: Mapping[str, str], label: str) -> str | None:
    """Return the node that labels name where the cluster's nodes are not known: by `label`, else the host of `instance`."""
    return labels.get(label) or _host(labels.get("instance", "")) or None


def _aliases(node: Node) -> set[str]:
    found = {
        address.address
        for address in node.status.addresses or ()
        if address.type in _OTHER_NAMES and address.address
    }
    if hostname := (node.metadata.labels or {}).get(_HOSTNAME):
        found.add(hostname)
    return found


def _host(instance: str) -> str:
    """Return the host of `host:port` or `[address]:port`."""
    host, _, port = instance.rpartition(":")
    if not host or not port.isdigit():
        host = instance
    return host.removeprefix("[").removesuffix("]")
