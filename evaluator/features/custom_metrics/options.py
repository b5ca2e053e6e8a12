"""Flags of the custom metrics API, and the metrics that they select."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.core.options import FeatureOptions
from evaluator.core.policy.vocabulary import Vocabulary
from plimsoll import flags
from plimsoll.flags import option
from wire.patterns import EVERY, MOST, Patterns

_PATTERN = re.compile(r"[a-zA-Z_:*][a-zA-Z0-9_:*]{0,199}", re.ASCII)
_MOST_FOUND = 1000
"""Names of agents that are kept: thousands of agents may report different ones."""


def patterns(text: str) -> str:
    """Return comma-separated metric names in which `*` stands for any characters. Raises ValueError."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not _PATTERN.fullmatch(name):
            raise ValueError(
                f"{name!r} is not the name of a metric, or a pattern such as node_pressure_*"
            )
    return ",".join(names)


@dataclass(frozen=True, kw_only=True)
class CustomMetricsOptions(FeatureOptions):
    """The custom metrics API."""

    custom_metrics_port: int = option(
        "customMetricsPort",
        0,
        "port of the custom metrics API (custom.metrics.k8s.io) for kube-apiserver's aggregation layer, over TLS with --cert "
        "and --key; 0: not served",
        metavar="PORT",
        parse=flags.port,
    )
    serve_metrics: tuple[str, ...] = option(
        "serveMetrics",
        (),
        "metrics that the custom metrics API serves beside those that policies name, such as node_load1 or node_pressure_*; "
        "repeatable, or separated by commas",
        metavar="PATTERN",
        parse=patterns,
    )

    @property
    def served_patterns(self) -> tuple[str, ...]:
        """The patterns of --serveMetrics without duplicates, in the order given."""
        return tuple(
            dict.fromkeys(name for given in self.serve_metrics for name in given.split(","))
        )

    def ports(self) -> Mapping[int, str]:
        """Return the port of the custom metrics API."""
        return {self.custom_metrics_port: "--customMetricsPort"}

    def mistakes(self, taken: Mapping[int, str], vocabulary: Vocabulary) -> Iterator[str]:
        """Yield problems with these settings, each as a sentence. `taken`: the flag of each port in use."""
        if self.serve_metrics and not self.custom_metrics_port:
            yield "--serveMetrics requires --customMetricsPort"
        for name in sorted(vocabulary.derived.intersection(self.served_patterns)):
            yield f"--serveMetrics: {name} is derived, not measured on nodes: it is served if a policy names it"
        if len(self.served_patterns) > MOST:
            yield f"--serveMetrics: at most {MOST} names and patterns"
        if self.custom_metrics_port and self.custom_metrics_port in taken:
            yield (
                f"--customMetricsPort: {self.custom_metrics_port} is the port of "
                f"{taken[self.custom_metrics_port]}"
            )


class ServedMetrics:
    """Names of metrics. `patterns` may contain `*`; `conditions` returns the metrics of nodes' conditions.

    A pattern stands for the metrics that agents report to match it, and for node conditions.
    """

    def __init__(
        self,
        patterns: Sequence[str] = (),
        *,
        conditions: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._exact = frozenset(name for name in patterns if EVERY not in name)
        self.patterns = tuple(name for name in patterns if EVERY in name)
        """Those with `*`, for agents to match."""
        self._matching = Patterns(self.patterns)
        self._conditions = conditions
        self._found = frozenset[str]()
        self.names: tuple[str, ...] | None = None
        """The served metrics, sorted; the same object while they are the same. None before the first decision."""

    @property
    def wanted(self) -> frozenset[str]:
        """The metrics to request from sources beside those of policies."""
        if not self.patterns:
            return self._exact
        return self._exact.union(self._found, filter(self._matching.matches, self._conditions()))

    def listed(self) -> tuple[str, ...] | None:
        """Return the served metrics, sorted; None before the first decision."""
        return self.names

    def found(self, names: Iterable[str]) -> bool:
        """Add names of an agent that match the patterns; returns whether one is new."""
        new = [name for name in names if name not in self._found and self._matching.matches(name)]
        del new[_MOST_FOUND - len(self._found) :]
        self._found = self._found.union(new)
        return bool(new)

    def update(self, of_policies: Iterable[frozenset[str]], left_out: Collection[str]) -> None:
        """Set the names: the metrics of policies, and those that are wanted; those that are `left_out` have no readings."""
        names = tuple(sorted(self.wanted.union(*of_policies).difference(left_out)))
        if names != self.names:
            self.names = names
