"""The extenders of one configuration, called in kube-scheduler's order: filters in sequence, prioritize concurrently."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from plimsoll import logs
from sandbox.client.objects import Object
from sandbox.scheduler.extender import Extender, ExtenderError, Filtered
from sandbox.scheduler.preemption import Victims

log = logs.get(__name__)


class Extenders:
    """The configured extenders. The pod decides which are called."""

    def __init__(self, members: Iterable[Extender]) -> None:
        # kube-scheduler calls ignorable extenders last, otherwise in the order of the configuration.
        self._members = sorted(members, key=lambda member: member.spec.ignorable)

    async def filter(self, pod: Object, nodes: Sequence[Object]) -> Filtered:
        """Return the nodes that all extenders accept. Raises ExtenderError if one fails that is not ignorable."""
        left = list(nodes)
        refused: dict[str, str] = {}
        unresolvable: frozenset[str] = frozenset()
        for member in self._called(pod):
            if not left:
                break
            try:
                answer = await member.filter(pod, left)
            except ExtenderError as error:
                if not member.spec.ignorable:
                    raise
                log.warning(
                    "filter failed, extender ignored", url=member.spec.url, error=str(error)
                )
                continue
            refused |= answer.refused
            unresolvable |= answer.unresolvable
            left = [node for node in left if node["metadata"]["name"] in answer.names]
        names = frozenset(node["metadata"]["name"] for node in left)
        return Filtered(names, refused, unresolvable)

    async def preempt(self, pod: Object, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Return the candidates for preemption that all extenders leave. Raises ExtenderError as `filter`."""
        for member in self._called(pod):
            if not victims:
                break
            if not member.spec.preempt:
                continue
            try:
                victims = await member.preempt(pod, victims)
            except ExtenderError as error:
                if not member.spec.ignorable:
                    raise
                log.warning(
                    "preempt failed, extender ignored", url=member.spec.url, error=str(error)
                )
        return victims

    async def scores(self, pod: Object, nodes: Sequence[Object]) -> dict[str, int]:
        """Return the weighted sum of scores per node."""
        results = await asyncio.gather(
            *(_weighted(extender, pod, nodes) for extender in self._called(pod))
        )
        total: Counter[str] = Counter()
        for scores in results:
            total.update(scores)
        return dict(total)

    def _called(self, pod: Object) -> list[Extender]:
        return [member for member in self._members if member.manages(pod)]


async def _weighted(member: Extender, pod: Object, nodes: Sequence[Object]) -> dict[str, int]:
    try:
        scores = await member.prioritize(pod, nodes)
    except ExtenderError as error:
        # As in kube-scheduler: a failed filter fails the attempt, a failed prioritize is ignored.
        log.warning("prioritize failed, extender ignored", url=member.spec.url, error=str(error))
        return {}
    return {name: score * member.spec.weight for name, score in scores.items()}
