"""Since when policies read only public scores of other namespaces: the time at which a version with this rule first ran, which
the installation's Lease keeps. Policies that were created before go on as they were.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from evaluator.core.kube.transport import KubeError
from evaluator.core.leader import lease
from evaluator.core.leader.elector import Leases
from plimsoll import logs, rfc3339
from plimsoll.backoff import Backoff

log = logs.get(__name__)

SINCE = "plimsoll.io/foreign-scores-since"
"""The annotation of the Lease."""
_NEVER = float("-inf")


async def foreign_scores_since(
    leases: Leases,
    namespace: str,
    name: str,
    *,
    wall: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> float:
    """Return the time that the Lease has (Unix seconds), and write the current one if it has none. Retries until it is known.

    Every replica does so, leader or not: the Lease's resourceVersion makes it one time for all. Without the right to use the
    Lease, no policy counts as created before.
    """
    backoff, said = Backoff(random.random), False
    while True:
        try:
            return await _read_or_write(leases, namespace, name, wall())
        except KubeError as error:
            if error.status == HTTPStatus.FORBIDDEN:
                log.warning(
                    "no policy reads scores of other namespaces that are not public: cannot use the Lease",
                    lease=f"{namespace}/{name}",
                    error=str(error),
                )
                return _NEVER
            # Another replica, or the election, wrote it meanwhile.
            conflict = error.status == HTTPStatus.CONFLICT
            say = log.debug if said or conflict else log.warning
            say(
                "no policy is read: cannot use the Lease yet",
                lease=f"{namespace}/{name}",
                error=str(error),
            )
            said |= not conflict
        await sleep(backoff.next())


async def _read_or_write(leases: Leases, namespace: str, name: str, now: float) -> float:
    """Raises KubeError, with 409 if another client wrote the Lease meanwhile."""
    found = await leases.read_lease(namespace, name) or lease.blank(namespace, name)
    meta: dict[str, Any] = found["metadata"]
    annotations: dict[str, Any] = meta.get("annotations") or {}
    if (since := rfc3339.bounded(annotations.get(SINCE), now)) is not None:
        return since
    text = rfc3339.seconds(now)
    await leases.write_lease(
        {**found, "metadata": {**meta, "annotations": {**annotations, SINCE: text}}}
    )
    log.info("policies created from now on read only public scores of other namespaces", since=text)
    return rfc3339.parse(text)
