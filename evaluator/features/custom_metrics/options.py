"""Flags of the custom metrics API."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.features.scorers.derived import named
from plimsoll import flags
from plimsoll.flags import option
from wire.patterns import MOST

_PATTERN = re.compile(r"[a-zA-Z_:*][a-zA-Z0-9_:*]{0,199}", re.ASCII)


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
class CustomMetricsOptions:
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

    def custom_metrics_mistakes(self, taken: Mapping[int, str]) -> Iterator[str]:
        """Yield problems with these settings, each as a sentence. `taken`: the flag of each port in use."""
        if self.serve_metrics and not self.custom_metrics_port:
            yield "--serveMetrics requires --customMetricsPort"
        for name in sorted(named(self.served_patterns)):
            yield f"--serveMetrics: {name} is derived by a scorer and served if a policy names it"
        if len(self.served_patterns) > MOST:
            yield f"--serveMetrics: at most {MOST} names and patterns"
        if self.custom_metrics_port and self.custom_metrics_port in taken:
            yield (
                f"--customMetricsPort: {self.custom_metrics_port} is the port of "
                f"{taken[self.custom_metrics_port]}"
            )
