"""Removes our conditions and taints from a node, for the command `clean`."""

from collections.abc import Iterator
from dataclasses import dataclass

from evaluator.core.model.node import Node
from evaluator.core.options import FeatureOptions
from evaluator.core.policy.actions import names
from evaluator.core.writes.removal import NodeOperations, Removal
from evaluator.features.node_actions import conditions, taints
from plimsoll.flags import option


@dataclass(frozen=True, kw_only=True)
class RemovalOptions(FeatureOptions):
    """The flags of `clean` for taints."""

    taint_prefix: str = option(
        "taintPrefix",
        names.DOMAIN,
        "prefix of taint keys beside the usual ones, as the evaluator's flag",
        metavar="PREFIX",
        parse=names.taint_prefix,
    )


def removals(options: RemovalOptions, node: Node) -> Iterator[Removal]:
    """Yield the writes that remove conditions that our field manager owns, and taints with our prefixes."""
    name, prefixes = node.metadata.name, names.own_prefixes(options.taint_prefix)
    if states := conditions.compare(node, {}):
        kinds = ", ".join(sorted(states.before))
        yield Removal(f"condition {kinds}", NodeOperations(name, states.removal, "/status"))
    if patch := taints.compare(node, {}, prefixes):
        keys = sorted({key for key, _ in taints.own_taints(node, prefixes)})
        yield Removal(f"taint {', '.join(keys)}", NodeOperations(name, patch.operations))
