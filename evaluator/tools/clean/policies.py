"""Removes the status of all policies: without an evaluator it is out of date."""

from collections.abc import AsyncIterator

import msgspec

from evaluator.core.kube.client import Kube
from evaluator.core.kube.resources import POLICIES
from evaluator.core.kube.transport import KubeError
from evaluator.core.model.names import PolicyKey
from plimsoll.decode import UNREADABLE

_NOT_FOUND = 404
_WRITTEN = frozenset(
    [
        "compliance",
        "message",
        "violatingNodes",
        "enforcement",
        "pods",
        "observedGeneration",
        "conditions",
    ]
)
"""The fields of a status that the evaluator writes (plans/status.py); others stay."""


class _Policy(msgspec.Struct):
    class Meta(msgspec.Struct):
        name: str
        namespace: str

    metadata: Meta
    status: dict[str, msgspec.Raw] | None = None


async def remove_statuses(kube: Kube, *, dry_run: bool) -> AsyncIterator[PolicyKey]:
    """Remove the status of each policy that has one, or only find them; yield the policies. Raises KubeError."""
    async for policy in _policies(kube):
        key = PolicyKey(policy.metadata.namespace, policy.metadata.name)
        fields = _WRITTEN & (policy.status or {}).keys()
        if fields and not dry_run:
            try:
                await kube.patch_policy_status(key, dict.fromkeys(sorted(fields)))
            except KubeError as error:
                if error.status == _NOT_FOUND:  # deleted since the list
                    continue
                raise
        if fields:
            yield key


async def _policies(kube: Kube) -> AsyncIterator[_Policy]:
    """Yield all policies; none without their CRD."""
    more = ""
    while True:
        try:
            page = await kube.list_page(POLICIES, more)
        except KubeError as error:
            if error.status == _NOT_FOUND:
                return
            raise
        for raw in page.items:
            try:
                yield msgspec.json.decode(raw, type=_Policy)
            except UNREADABLE:
                continue  # without a status that the evaluator has written
        if not (more := page.more):
            return
