"""What a refusal of the Eviction API means: which budget refused, and whom it concerns. Pure."""

import re
from typing import NamedTuple

from evaluator.core.kube.transport import KubeError
from plimsoll.text import one_line

_BUDGET = "DisruptionBudget"
"""The cause by which the API server marks the refusal of a budget."""
_NAME = re.compile(r"disruption budget ([a-z0-9.-]{1,253})", re.ASCII)
_SEVERAL = "more than one PodDisruptionBudget"
_LONGEST = 300
"""Characters of an answer that are shown."""


class Meaning(NamedTuple):
    """`why`: a phrase about several pods. `budget`: whether a PodDisruptionBudget refused, which selects a whole workload.

    `busy`: the API server takes no requests now, whichever the pod.
    """

    why: str
    budget: bool = False
    busy: bool = False


def is_doubtful(error: KubeError) -> bool:
    """Return whether the request may have been carried out: there was no answer, or it says that time ran out."""
    text = str(error).lower()
    late = "timed out" in text or "timeout" in text
    return error.status in {0, 502, 504} or (error.status >= 500 and late)


def meaning(error: KubeError) -> Meaning:
    """Return what a refusal means."""
    causes = [str(one.get("message", "")) for one in error.causes if one.get("reason") == _BUDGET]
    if causes:
        return Meaning(_of_budget(causes[0]), budget=True)
    text = one_line(str(error), _LONGEST)
    if _SEVERAL in str(error):
        why = "they have more than one PodDisruptionBudget, which the Eviction API does not support"
        return Meaning(why, budget=True)
    return Meaning(f"the API server refused: {text}", busy=error.status == 429)


def _of_budget(cause: str) -> str:
    found = _NAME.search(cause)
    name = f"PodDisruptionBudget {found[1]}" if found else "a PodDisruptionBudget"
    return f"{name} permits no eviction now ({one_line(cause, _LONGEST)})"
