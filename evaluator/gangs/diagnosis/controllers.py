"""How many pods the controllers of a gang's pods would make, and why they make no more. No I/O.

Kinds of others, such as operators of trainings, are not looked into: nothing is claimed of what they would make.
"""

import re
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from evaluator.gangs.diagnosis import create_failures
from evaluator.gangs.diagnosis.quota_usage import Reference

KINDS = {
    ("batch/v1", "Job"): "jobs",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("v1", "ReplicationController"): "replicationcontrollers",
}
"""The resource by apiVersion and kind, of those that are looked into: a Job of another API is another thing."""

_DESIRED = "deployment.kubernetes.io/desired-replicas"
"""The annotation of a ReplicaSet that says how many pods its Deployment wants in the end."""

_NUMBER = re.compile("[0-9]{1,10}")
"""Of 32 bits. Anybody who may change a ReplicaSet may write anything there."""


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Reference] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    replicas: int | None = None
    pod_management_policy: str = ""


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    message: str = ""


class _Status(msgspec.Struct, rename="camel"):
    active: int = 0
    succeeded: int = 0
    current_revision: str = ""
    update_revision: str = ""
    updated_replicas: int = 0
    conditions: list[_Condition] | None = None


class Controller(msgspec.Struct):
    """One of KINDS: the parts that say how many pods it makes."""

    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    def condition(self, kind: str) -> _Condition | None:
        """A condition that is true now."""
        told = self.status.conditions or ()
        return next((one for one in told if (one.type, one.status) == (kind, "True")), None)


class Most(NamedTuple):
    """How many pods there can be at once, and by which fields."""

    pods: int
    fields: str


class Rollout(NamedTuple):
    """Pods that are replaced by ones of a new template: by whom, how many by now, and how many there are in all."""

    by: str
    replaced: int
    replicas: int


@dataclass(frozen=True, slots=True)
class PodController:
    """A controller of pods as it is now; `found` is None where there is none of that name and uid any more."""

    reference: Reference
    found: Controller | None

    def __str__(self) -> str:
        return str(self.reference)

    @property
    def halted(self) -> str:
        """Why it makes no pods at all; empty if it does."""
        if self.found is None:
            return "does not exist any more"
        if self.found.metadata.deletion_timestamp is not None:
            return "is being deleted"
        if self.found.spec.suspend:
            return "is suspended"
        ends = {"Failed": "has failed", "Complete": "is complete"}
        return next((said for kind, said in ends.items() if self.found.condition(kind)), "")

    @property
    def most(self) -> Most:
        """How many it makes. Kubernetes fills in each of the numbers that a manifest leaves out."""
        if self.found is None or self.halted:
            return Most(0, "")
        spec = self.found.spec
        if self.reference.kind != "Job":
            return Most(_or_one(spec.replicas), "replicas")
        bounds = (Most(_or_one(spec.parallelism), "parallelism"), self._left())
        least = min(bound.pods for bound in bounds)
        fields = dict.fromkeys(bound.fields for bound in bounds if bound.pods == least)
        return Most(least, " and ".join(fields))

    @property
    def ordered(self) -> bool:
        """Whether it makes a pod only when the one before it is ready."""
        stateful = self.reference.kind == "StatefulSet"
        told = self.found is not None and self.found.spec.pod_management_policy
        return stateful and told in {"", "OrderedReady"}

    @property
    def rollout(self) -> Rollout | None:
        """What gives it more pods of its present template by and by; None where it has all that are wanted."""
        if self.found is None:
            return None
        match self.reference.kind:
            case "ReplicaSet":
                return self._of_deployment(self.found)
            case "StatefulSet":
                return self._of_itself(self.found)
            case _:
                return None

    @property
    def refused(self) -> str:
        """Why the API server did not let it make a pod, as far as it says so itself; empty where all went well."""
        failure = self.found and self.found.condition("ReplicaFailure")
        return create_failures.reason(failure.message) if failure else ""

    def _of_deployment(self, found: Controller) -> Rollout | None:
        owner = next((one for one in found.metadata.owner_references or () if one.controller), None)
        desired = (found.metadata.annotations or {}).get(_DESIRED, "")
        if owner is None or not _NUMBER.fullmatch(desired):
            return None
        rollout = Rollout(f"Deployment {owner.name}", self.most.pods, int(desired))
        return rollout if 0 < rollout.replaced < rollout.replicas else None

    def _of_itself(self, found: Controller) -> Rollout | None:
        status = found.status
        if status.update_revision == status.current_revision:
            return None
        rollout = Rollout(str(self), status.updated_replicas, self.most.pods)
        return rollout if rollout.replaced < rollout.replicas else None

    def _left(self) -> Most:
        """What a Job has still to do; one that counts no completions makes no more pods once one has succeeded."""
        assert self.found is not None
        completions, status = self.found.spec.completions, self.found.status
        if completions is not None:
            return Most(max(0, completions - status.succeeded), "completions")
        most = status.active if status.succeeded else _or_one(self.found.spec.parallelism)
        return Most(most, "parallelism")


def _or_one(number: int | None) -> int:
    return 1 if number is None else number
