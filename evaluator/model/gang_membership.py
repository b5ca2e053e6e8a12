"""What a pod says of the gang that it belongs to, and of how it is held. Times are Unix seconds."""

from enum import IntEnum
from typing import NamedTuple

import msgspec

from evaluator.model.names import PolicyKey

GATE = "plimsoll.io/gang"
"""The scheduling gate that holds a pod: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/."""
ADMITTED = "plimsoll.io/admitted-at"
"""The annotation that a pod is given as its gate is lifted: when, RFC 3339 with milliseconds, in UTC.

Not one that is let through for its age: by the annotation its gang would count as admitted.
"""

GROUP_LABEL = "podGroup"
MINIMUM_LABEL = "minAvailable"
PRIORITY_LABEL = "groupPriority"


class QoS(IntEnum):
    """Quality of service classes, in the order in which they are served."""

    GUARANTEED = 0
    BURSTABLE = 1
    BEST_EFFORT = 2


class Owner(NamedTuple):
    """The controller of a pod; all empty for one that has none."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class Where(msgspec.Struct, frozen=True):
    """What a pod asks of a node beside room, as JSON that `Places` compares; the same object for all that ask the same."""

    asked: bytes = b""


class Membership(msgspec.Struct, frozen=True, gc=False):
    """Of a pod that names a gang, or bears the gate. Its name, node, phase, requests and age are the Resident's."""

    group: str = ""
    """The label `podGroup`; empty where the pod belongs to no gang."""
    minimum: int = 0
    """The label `minAvailable`; 0 where there is no gang: no group, no number, or 1 or less."""
    beside: str = ""
    """The label `podGroup` of a pod that belongs to no gang by its own number: for that of others it counts all the same."""
    priority: int = 0
    """The label `groupPriority`, higher first; 0 where there is none, or none that is a number."""
    problems: tuple[str, ...] = ()
    """What is wrong with these labels, in sentences that name no pod."""
    qos: QoS = QoS.BEST_EFFORT
    owner: Owner = Owner()
    gated: bool = False
    """Whether our gate holds it."""
    foreign: tuple[str, ...] = ()
    """The gates of others that hold it."""
    admitted: float | None = None
    """When it was admitted; None where it never had our gate, still has it, or was let through for its age."""
    native: bool = False
    """Whether Kubernetes itself schedules it as one of a group (`spec.schedulingGroup`): not ours to hold or to count."""
    policy: PolicyKey | None = None
    """The policy that it follows."""
    where: Where = Where()

    @property
    def held(self) -> bool:
        """Whether any gate holds it."""
        return self.gated or bool(self.foreign)
