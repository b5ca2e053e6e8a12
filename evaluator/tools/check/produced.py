"""Errors about metrics that nothing produces: problems of nodes' logs, and conditions of nodes.

Any program may set a condition of a node, so its type is an error only if it resembles a known one, or if only policies
set it. Problems come from the agents' monitors: those that are shipped, and those that are given to `check`.
"""

from collections.abc import Iterable, Iterator, Set

from evaluator.core.catalog import shipped
from evaluator.core.policy.annotations import distance
from evaluator.core.policy.types import Policy
from evaluator.core.readings import node_conditions
from plimsoll.metric_names import PREFIX, spellings

OF_KUBERNETES = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
)
OF_MONITORS = frozenset(
    {"KernelDeadlock", "ReadonlyFilesystem", "XfsShutdown", "CperHardwareErrorFatal"}
)
"""Types of the shipped monitor of the kernel's log, and of node-problem-detector's."""
OF_PLUGINS = frozenset(
    {
        *("FrequentKubeletRestart", "FrequentDockerRestart", "FrequentContainerdRestart"),
        *("CorruptDockerOverlay2", "NTPProblem"),
    }
)
"""Types of node-problem-detector's other monitors, which the agent does not run."""
_PROBLEM = "problem_"
_OF_POLICIES = node_conditions.metric_of("plimsoll.io/")
"""Begin of the metrics of conditions that only policies set."""
_UNTYPED = "it names no type of a condition"
_LETTERS = 1
"""Letters by which the type of a condition differs from the known one that was meant, at most."""


class Produced:
    """What produces metrics: `monitored` are the types of the given monitors, `recorded` the series of given rules."""

    def __init__(
        self,
        policies: Iterable[Policy],
        monitored: Set[str] = frozenset(),
        recorded: Set[str] = frozenset(),
    ) -> None:
        parts = [part for policy in policies for part in policy.actions.parts]
        set_by_policies = {kind for part in parts for kind in part.conditions()}
        self._recorded = recorded
        self._problems = {_PROBLEM + _metric(kind) for kind in OF_MONITORS | monitored}
        self._conditions = {
            node_conditions.metric_of(kind)
            for kind in OF_KUBERNETES | OF_MONITORS | OF_PLUGINS | monitored | set_by_policies
        }

    def errors(self, metrics: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield each of these metrics that nothing produces, and why, as a sentence."""
        for metric in metrics:
            if not {*spellings(metric)}.isdisjoint(self._recorded):
                continue
            if why := self._condition(metric) or self._problem(metric):
                yield metric, f"nothing produces {metric}: {why}"

    def _condition(self, metric: str) -> str:
        """Return why no node has a condition; empty for other metrics, and if one may have it."""
        if not metric.startswith(node_conditions.PREFIX) or metric in self._conditions:
            return ""
        if metric == node_conditions.PREFIX:
            return _UNTYPED
        similar = _hint(metric, self._conditions)
        if metric.startswith(_OF_POLICIES):
            return f"no given policy sets a condition of this type (plimsoll.io/actions: condition){similar}"
        return f"it is no known condition of a node{similar}" if similar else ""

    def _problem(self, metric: str) -> str:
        """Return why no agent reports a problem; empty for other metrics, and if one may report it."""
        bare = metric.removeprefix(PREFIX)
        if not bare.startswith(_PROBLEM) or bare in self._problems or shipped().find(metric):
            return ""
        if bare == _PROBLEM:
            return _UNTYPED
        prefix = metric.removesuffix(bare)
        similar = _hint(metric, {prefix + name for name in self._problems})
        return (
            "no shipped or given monitor of a log has a condition of this type: give the files of your monitors too"
            f"{similar}"
        )


def _metric(kind: str) -> str:
    """Return the end of the metric of a condition type."""
    return node_conditions.metric_of(kind).removeprefix(node_conditions.PREFIX)


def _hint(metric: str, known: Iterable[str]) -> str:
    """Return which known metric was meant, as the end of a sentence; empty if none was."""
    given = _letters(metric)
    rated = ((distance(given, _letters(other), _LETTERS), other) for other in known)
    meant = min(((far, other) for far, other in rated if far <= _LETTERS), default=None)
    return f"; similar: {meant[1]}" if meant else ""


def _letters(metric: str) -> str:
    return metric.lower().replace("_", "").replace("-", "")
