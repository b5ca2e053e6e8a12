"""How many pods a gang's controllers create, and why they create no more. No I/O.

Only the kinds in KINDS are read; nothing is claimed about controllers of other kinds, such as training operators.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from evaluator.core.model.pod_spec_view import OwnerReference
from evaluator.features.gangs.core.membership import Owner
from plimsoll.text import one_line

_FAILED = frozenset({"FailedCreate", "FailedCreatePod"})
_CREATED = frozenset({"SuccessfulCreate", "SuccessfulCreatePod"})
"""Event reasons of Kubernetes' own controllers, and of many operators."""

# The prefix names the rejected pod; each attempt has a new name.
_PREFIX = re.compile(
    r"(?:\(combined from similar events\): )?"
    r"(?:Error creating: |[Cc]reate Pod \S+ in StatefulSet \S+ failed error: )?"
    r"(?:[Pp]ods? \"[^\"]*\" is (?:forbidden|invalid): )?"
)
KINDS = {
    ("batch/v1", "Job"): "jobs",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("v1", "ReplicationController"): "replicationcontrollers",
}
"""Supported kinds, by apiVersion and kind, with their resource. A Job of another API group is another kind."""
_DESIRED = "deployment.kubernetes.io/desired-replicas"
"""Annotation of a ReplicaSet: the replicas of its Deployment."""
_NUMBER = re.compile("[0-9]{1,10}")
"""At most 32 bits: users with write access to a ReplicaSet can put any text into the annotation."""


class EventSeries(msgspec.Struct, rename="camel"):
    """core/v1 EventSeries."""

    last_observed_time: str | None = None


class ControllerEvent(msgspec.Struct, rename="camel"):
    """core/v1 Event about a controller. Times are RFC 3339."""

    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None

    @property
    def last_seen(self) -> str:
        """When it last occurred, cut to the second, so that MicroTime and Time compare as texts."""
        time = (self.series and self.series.last_observed_time) or self.last_timestamp
        return (time or self.event_time or "")[: len("2006-01-02T15:04:05")]


def last_failure(events: Iterable[ControllerEvent]) -> str:
    """Return the error of a controller's last attempt to create a pod; empty if it succeeded since."""
    known = list(events)
    failed = max(
        (event for event in known if event.reason in _FAILED), key=_last_seen, default=None
    )
    created = max((event.last_seen for event in known if event.reason in _CREATED), default="")
    if failed is None or failed.last_seen < created:
        return ""
    return failure_reason(failed.message)


def failure_reason(message: str) -> str:
    """Return the API server's message without the name of the pod, in one line."""
    return one_line(_PREFIX.sub("", message, count=1))


def _last_seen(event: ControllerEvent) -> str:
    return event.last_seen


class ControllerMetadata(msgspec.Struct, rename="camel"):
    """ObjectMeta of a controller."""

    uid: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class ControllerSpec(msgspec.Struct, rename="camel"):
    """The fields of the specs of all KINDS that bound their number of pods."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    replicas: int | None = None
    pod_management_policy: str = ""


class ControllerCondition(msgspec.Struct):
    """JobCondition or ReplicaSetCondition."""

    type: str = ""
    status: str = ""
    message: str = ""


class ControllerStatus(msgspec.Struct, rename="camel"):
    """The fields of the statuses of all KINDS that say how far they are."""

    active: int = 0
    succeeded: int = 0
    current_revision: str = ""
    update_revision: str = ""
    updated_replicas: int = 0
    conditions: list[ControllerCondition] | None = None


class ControllerObject(msgspec.Struct):
    """An object of one of KINDS, reduced to the fields that determine its number of pods."""

    metadata: ControllerMetadata = msgspec.field(default_factory=ControllerMetadata)
    spec: ControllerSpec = msgspec.field(default_factory=ControllerSpec)
    status: ControllerStatus = msgspec.field(default_factory=ControllerStatus)

    def condition(self, kind: str) -> ControllerCondition | None:
        """Return the condition of this type if its status is True, else None."""
        conditions = self.status.conditions or ()
        return next(
            (
                condition
                for condition in conditions
                if (condition.type, condition.status) == (kind, "True")
            ),
            None,
        )


class PodLimit(NamedTuple):
    """The most pods a controller keeps at once, and the fields that set this limit."""

    pods: int
    fields: str


class Rollout(NamedTuple):
    """An unfinished rollout: the controller, the pods replaced so far, and the pods in total."""

    by: str
    replaced: int
    replicas: int


@dataclass(frozen=True, slots=True)
class PodController:
    """A controller of pods; `obj` is None if no object of this name and uid exists."""

    owner: Owner
    obj: ControllerObject | None

    def __str__(self) -> str:
        return str(self.owner)

    @property
    def halted(self) -> str:
        """Why it creates no pods at all; empty if it does."""
        if self.obj is None:
            return "no longer exists"
        if self.obj.metadata.deletion_timestamp is not None:
            return "is being deleted"
        if self.obj.spec.suspend:
            return "is suspended"
        ends = {"Failed": "has failed", "Complete": "is complete"}
        return next((text for kind, text in ends.items() if self.obj.condition(kind)), "")

    @property
    def limit(self) -> PodLimit:
        """The most pods it keeps at once. A missing number counts as the API server's default, 1."""
        if self.obj is None or self.halted:
            return PodLimit(0, "")
        spec = self.obj.spec
        if self.owner.kind != "Job":
            return PodLimit(_or_one(spec.replicas), "replicas")
        bounds = (PodLimit(_or_one(spec.parallelism), "parallelism"), self._remaining())
        least = min(bound.pods for bound in bounds)
        fields = dict.fromkeys(bound.fields for bound in bounds if bound.pods == least)
        return PodLimit(least, " and ".join(fields))

    @property
    def ordered(self) -> bool:
        """Whether it creates each pod only after the previous one is ready."""
        stateful = self.owner.kind == "StatefulSet"
        policy = self.obj is not None and self.obj.spec.pod_management_policy
        return stateful and policy in {"", "OrderedReady"}

    @property
    def rollout(self) -> Rollout | None:
        """The rollout that is replacing its pods; None if none is under way."""
        if self.obj is None:
            return None
        match self.owner.kind:
            case "ReplicaSet":
                return self._deployment_rollout(self.obj)
            case "StatefulSet":
                return self._stateful_set_rollout(self.obj)
            case _:
                return None

    @property
    def create_failure(self) -> str:
        """The error of its last attempt to create a pod, from its conditions; empty if there is none."""
        failure = self.obj and self.obj.condition("ReplicaFailure")
        return failure_reason(failure.message) if failure else ""

    def _deployment_rollout(self, replica_set: ControllerObject) -> Rollout | None:
        owner = next(
            (
                reference
                for reference in replica_set.metadata.owner_references or ()
                if reference.controller
            ),
            None,
        )
        desired = (replica_set.metadata.annotations or {}).get(_DESIRED, "")
        if owner is None or not _NUMBER.fullmatch(desired):
            return None
        rollout = Rollout(f"Deployment {owner.name}", self.limit.pods, int(desired))
        return rollout if 0 < rollout.replaced < rollout.replicas else None

    def _stateful_set_rollout(self, stateful_set: ControllerObject) -> Rollout | None:
        status = stateful_set.status
        if status.update_revision == status.current_revision:
            return None
        rollout = Rollout(str(self), status.updated_replicas, self.limit.pods)
        return rollout if rollout.replaced < rollout.replicas else None

    def _remaining(self) -> PodLimit:
        """Return the completions a Job still needs; a Job without `completions` creates no pods after its first success."""
        assert self.obj is not None
        completions, status = self.obj.spec.completions, self.obj.status
        if completions is not None:
            return PodLimit(max(0, completions - status.succeeded), "completions")
        pods = status.active if status.succeeded else _or_one(self.obj.spec.parallelism)
        return PodLimit(pods, "parallelism")


def _or_one(number: int | None) -> int:
    return 1 if number is None else number
