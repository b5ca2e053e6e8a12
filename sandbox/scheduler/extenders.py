"""Several extenders of one configuration, asked in kube-scheduler's order: filters one after the other, scores all at once."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from plimsoll import logs
from sandbox.client.objects import Object
from sandbox.scheduler.extender import Extender, ExtenderError, Filtered

log = logs.get(__name__)


class Extenders:
    """Those that a configuration lists. Which of them are asked depends on the pod."""

    def __init__(self, members: Iterable[Extender]) -> None:
        # kube-scheduler asks those that it may ignore last, and otherwise in the order of the configuration.
        self._members = sorted(members, key=lambda member: member.spec.ignorable)

    async def filter(self, pod: Object, nodes: Sequence[Object]) -> Filtered:
        """Which of these nodes all let the pod go to. Raises ExtenderError where one fails that must not be ignored."""
        left = list(nodes)
        refused: dict[str, str] = {}
        for member in self._asked(pod):
            if not left:
                break
            try:
                answer = await member.filter(pod, left)
            except ExtenderError as error:
                if not member.spec.ignorable:
                    raise
                log.warning(
                    "filter failed, going on without", url=member.spec.url, error=str(error)
                )
                continue
            refused |= answer.refused
            left = [node for node in left if node["metadata"]["name"] in answer.names]
        return Filtered(frozenset(node["metadata"]["name"] for node in left), refused)

    async def scores(self, pod: Object, nodes: Sequence[Object]) -> dict[str, int]:
        """What these nodes get from all together: each extender's score as often as its weight."""
        told = await asyncio.gather(*(_weighted(one, pod, nodes) for one in self._asked(pod)))
        total: Counter[str] = Counter()
        for scores in told:
            total.update(scores)
        return dict(total)

    def _asked(self, pod: Object) -> list[Extender]:
        return [member for member in self._members if member.manages(pod)]


async def _weighted(member: Extender, pod: Object, nodes: Sequence[Object]) -> dict[str, int]:
    try:
        scores = await member.prioritize(pod, nodes)
    except ExtenderError as error:
        # As kube-scheduler: a failed filter fails the pod, a failed prioritize only has no say.
        log.warning("prioritize failed, going on without", url=member.spec.url, error=str(error))
        return {}
    return {name: score * member.spec.weight for name, score in scores.items()}
