"""What the memory adds to pages."""

from msgspec import UNSET

from evaluator.core.page_fields import (
    Fields,
    ListedPolicyFields,
    Maybe,
    PolicyFields,
    WrittenFields,
)


class DecayedScore(Fields, kw_only=True):
    """A score, as decayed until now."""

    score: float
    last_violation: str


class DeviceScore(DecayedScore):
    """The part of a score that comes from a device."""

    device: str


class PolicyScore(DecayedScore, kw_only=True):
    """A node's score in a policy."""

    violated: bool
    """Whether it is in violation now."""
    devices: list[DeviceScore]
    flapping: bool


class RememberedNode(PolicyScore):
    """A node with a score."""

    node: str


class ShownMemory(Fields, kw_only=True):
    """The memory of a policy."""

    half_life_seconds: float
    flapping_above: float | None
    """Null: no node flaps."""
    nodes: list[RememberedNode]
    """The highest scores first."""
    nodes_more: Maybe[int] = UNSET


class PolicyMemoryFields(PolicyFields):
    """Of a policy with a memory."""

    memory: ShownMemory


class FlappingFields(ListedPolicyFields):
    """Of a policy with a memory."""

    flapping: list[str]
    """Nodes that stay in violation."""
    flapping_more: Maybe[int] = UNSET


class WrittenMemoryFields(WrittenFields):
    """The scores in a node's annotation."""

    memory: dict[str, PolicyScore]
    """By policy."""


PAGES: tuple[type[Fields], ...] = (PolicyMemoryFields, FlappingFields, WrittenMemoryFields)
