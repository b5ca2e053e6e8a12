"""Pods on nodes, indexed by namespace."""

from collections.abc import Mapping

from evaluator.core.model.pod_record import PodRecord


class PodsByNamespace:
    """The pods that use resources of a node, by namespace and name. `change` is a listener of the PodCache."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, PodRecord]] = {}

    def of(self, namespace: str) -> Mapping[str, PodRecord]:
        """Return the pods of a namespace by name."""
        return self._pods.get(namespace, {})

    def change(self, before: PodRecord | None, after: PodRecord | None) -> None:
        """Replace a pod's previous state by its new state (None: absent)."""
        if after is not None and after.holds:
            self._pods.setdefault(after.namespace, {})[after.name] = after
        elif before is not None and before.holds:
            pods = self._pods[before.namespace]
            del pods[before.name]
            if not pods:
                del self._pods[before.namespace]
