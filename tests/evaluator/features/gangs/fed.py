"""An index of gangs and a tracker of capacity that follow their caches, as `GangManager` wires them."""

from evaluator.core.signals import NodeCapacityChanged, NodeUsageChanged, PodChanged, on, on_node
from evaluator.features.gangs.core.capacity import CapacityTracker
from evaluator.features.gangs.core.podgroup import GangIndex


def fed_index(inventory, **options):
    """Return the index of a cache of pods."""
    index = GangIndex(inventory, **options)
    inventory.signals.connect([on(PodChanged, index.pod_changed)])
    return index


def fed_tracker(cluster, inventory, decisions):
    """Return the tracker of caches of nodes and pods."""
    tracker = CapacityTracker(cluster, inventory, decisions)
    cluster.signals.connect([on_node(NodeCapacityChanged, tracker.node_changed)])
    inventory.signals.connect(
        [
            on(PodChanged, tracker.pod_changed),
            on_node(NodeUsageChanged, tracker.node_changed),
        ]
    )
    return tracker
