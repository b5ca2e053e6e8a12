"""The label writes of all nodes, compared at once: what a plan that is kept up to date must agree with."""

from collections.abc import Mapping

from evaluator.core.model.node_labels import LabelApply, LabelConflict, NodeLabels, compare


def label_writes(
    nodes: Mapping[str, NodeLabels], desired: Mapping[str, Mapping[str, str]]
) -> tuple[list[LabelApply], list[LabelConflict]]:
    """Return the writes that turn the current labels into the desired ones, and the conflicts."""
    compared = [compare(name, seen, desired.get(name, {})) for name, seen in nodes.items()]
    applies = [found.apply for found in compared if found.apply is not None]
    return applies, [conflict for found in compared for conflict in found.conflicts]
