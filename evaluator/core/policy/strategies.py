"""The table of strategies: one row has the meaning of a strategy's rules, and the feature that reads its result.

Code that treats strategies alike asks the row. Code of one strategy names it: kube-scheduler's filter reads
dontschedule, its prioritize reads scheduleonmetric, and `labeling` sets labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRow:
    """What the evaluator knows of one strategy.

    Timers of a violation are restored after a restart from what it left on the node: the label of `marks`, the rules' labels
    of `sets_labels`, and for strategies that `determines_compliance` what actions recorded (`ActionPart.records`).
    """

    condition: str
    """Type of its condition in a policy's status."""
    consequence: str
    """What follows on a node where it is violated, for `check`."""
    explained: str
    """Begin of the sentence about it on pages; the rules' combination follows, or the first rule if it `ranks`."""
    determines_compliance: bool = False
    """Whether a node that violates it violates the policy: it is named in status and pages, and actions act on it."""
    per_pod: bool = False
    """Whether rules on derived metrics are evaluated for each pod, in requests of kube-scheduler."""
    ranks: bool = False
    """Whether its first rule orders nodes: others are ignored, and it has no violation and no timers."""
    marks: bool = False
    """Whether violating nodes get the label `<policy>=violating`."""
    sets_labels: bool = False
    """Whether its rules name labels, which violating nodes get."""


class StrategyName(StrEnum):
    """The strategies of a policy, each with its row, in the order in which messages list them."""

    _value_: str
    row: StrategyRow

    def __new__(cls, name: str, row: StrategyRow) -> Self:
        """Return the name as a string that has its row."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.row = row
        return member

    DONTSCHEDULE = (
        "dontschedule",
        StrategyRow(
            condition="DontScheduleViolated",
            consequence="no new pod of this policy is scheduled on the node",
            explained="Pods of this policy are not scheduled on nodes where",
            determines_compliance=True,
            per_pod=True,
        ),
    )
    SCHEDULEONMETRIC = (
        "scheduleonmetric",
        StrategyRow(
            condition="ScheduleOnMetricReady",
            consequence="nodes are ranked for new pods of this policy",
            explained="Pods of this policy prefer nodes where",
            per_pod=True,
            ranks=True,
        ),
    )
    DESCHEDULE = (
        "deschedule",
        StrategyRow(
            condition="DescheduleViolated",
            consequence="pods of this policy are to leave the node",
            explained="Pods of this policy should leave nodes where",
            determines_compliance=True,
            marks=True,
        ),
    )
    LABELING = (
        "labeling",
        StrategyRow(
            condition="LabelingViolated",
            consequence="the node gets the labels",
            explained="Nodes get the labels of each rule that holds",
            sets_labels=True,
        ),
    )


STRATEGIES: Mapping[str, StrategyName] = {name.value: name for name in StrategyName}
"""The table by name, as policies have it."""
COMPLIANCE = tuple(name for name in StrategyName if name.row.determines_compliance)
"""The strategies whose violations are violations of the policy."""
STRONGEST_FIRST = (
    StrategyName.DESCHEDULE,
    *(name for name in COMPLIANCE if name is not StrategyName.DESCHEDULE),
)
"""The strategies that taints and conditions are set for. A node condition names the first that the node violates."""
PER_POD = tuple(name for name in StrategyName if name.row.per_pod)
"""The strategies that are evaluated per pod, in requests of kube-scheduler."""
