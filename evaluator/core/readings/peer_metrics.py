"""Names of peer metrics, which compare a node's reading with those of nodes alike: its peers.

`<metric>:peer_deviation` is the distance from the median of the group, in scaled median absolute deviations;
`<metric>:peer_ratio` is the reading divided by that median. `peers` computes both.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
"""The node label that makes the groups, unless a policy names another."""
ALL_NODES = "*"
"""Instead of a label: all nodes are one group."""
LEAST = 8
"""Nodes with a reading that a group needs, unless a policy names another number."""
FEWEST, LARGEST = 3, 100_000
"""Bounds of the least size. The median of two is no one's standard."""


class PeerKind(StrEnum):
    """How a reading is compared with its group."""

    DEVIATION = "peer_deviation"
    RATIO = "peer_ratio"


class PeerMetric(NamedTuple):
    """One peer metric. `label`: the node label whose values are the groups; `least`: readings that a group needs."""

    base: str
    kind: PeerKind
    label: str = INSTANCE_TYPE
    least: int = LEAST

    def __str__(self) -> str:
        """Return the name of the column: unique, and as in the policy where its groups are the usual ones."""
        usual = (self.label, self.least) == (INSTANCE_TYPE, LEAST)
        groups = "" if usual else f"{{by={self.label},min={self.least}}}"
        return f"{self.base}:{self.kind}{groups}"

    @property
    def groups(self) -> str:
        """The groups in words."""
        return "all nodes" if self.label == ALL_NODES else f"nodes with the same {self.label}"


_NAME = re.compile(
    rf"(?P<base>[^:]+):(?P<kind>{'|'.join(PeerKind)})(\{{by=(?P<label>[^,]*),min=(?P<least>\d+)\}})?"
)


@lru_cache(maxsize=1 << 14)
def _parsed(name: str) -> PeerMetric | None:
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    base, kind = found["base"], PeerKind(found["kind"])
    if found["label"] is None:
        return PeerMetric(base, kind)
    return PeerMetric(base, kind, found["label"], int(found["least"]))


def peer_metric(name: str) -> PeerMetric | None:
    """Return the peer metric that a column's name stands for; None if it is one that sources provide."""
    return _parsed(name) if ":" in name else None


def base_metric(name: str) -> str:
    """Return the metric that a column is computed from: of a peer metric its base, else the metric itself."""
    found = peer_metric(name)
    return name if found is None else found.base
