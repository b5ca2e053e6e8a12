"""Asks a running evaluator which nodes have the metrics of a policy, for `check --live`."""

import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from evaluator.core.page_fields import Number
from evaluator.core.policy.hints import aggregation_hint
from evaluator.core.policy.reductions import uses_of
from evaluator.core.policy.types import Policy
from plimsoll.quantity import readable
from plimsoll.text import SentenceError, counted

_TIMEOUT = 10.0
"""Seconds."""
_AT_ONCE = 100
"""Metrics of one request."""
_LARGEST = 1 << 20
"""Bytes of an answer."""


class LiveError(SentenceError):
    """The evaluator could not be reached."""


class LiveMetric(msgspec.Struct, rename="camel"):
    """What the evaluator knows of a metric. `read`: a policy of the cluster already uses it; else nothing is known."""

    read: bool = False
    nodes_with: int = 0
    nodes_with_several: int = 0
    nodes_without: int = 0
    nodes_pending: int = 0
    lowest: Number = None
    highest: Number = None
    similar: list[str] = []

    @property
    def exists(self) -> bool:
        """Whether a node has it."""
        return self.nodes_with > 0

    @property
    def not_found(self) -> bool:
        """Whether nodes reported without it, and none has or may still report it."""
        return self.read and bool(self.nodes_without) and not self.exists and not self.nodes_pending


class _Page(msgspec.Struct, rename="camel"):
    node_count: int = 0
    metrics: dict[str, LiveMetric] = {}
    waiting_for: list[str] = []


@dataclass(frozen=True, slots=True)
class LiveMetrics:
    """The metrics of an evaluator with so many nodes."""

    nodes: int
    metrics: Mapping[str, LiveMetric]

    def metric(self, metric: str) -> LiveMetric:
        """Return what is known of a metric."""
        return self.metrics.get(metric, LiveMetric())

    def warnings(self, policy: Policy) -> Iterator[str]:
        """Yield a warning for each metric of a policy that no node has, or that has several series."""
        for metric in sorted(policy.base_metrics):
            live = self.metric(metric)
            if live.not_found:
                hint = (
                    f"; similar metrics that nodes have: {', '.join(live.similar)}"
                    if live.similar
                    else ""
                )
                yield f"{metric} is on none of {counted(live.nodes_without, 'node')}{hint}"
            elif live.nodes_with_several:
                yield (
                    f"{metric} has several series on {live.nodes_with_several} of {counted(self.nodes, 'node')}, and counts as "
                    f"missing there: {aggregation_hint(metric, '', uses_of(policy, metric))}"
                )

    def notes(self, policy: Policy) -> Iterator[str]:
        """Yield the present values of each metric of a policy."""
        for metric in sorted(policy.base_metrics):
            live = self.metric(metric)
            if not live.read:
                yield (
                    f"now: no policy in the cluster uses {metric}, so its presence is unknown; apply this policy with the "
                    "annotation plimsoll.io/enforcement: observe to see it"
                )
            elif live.lowest is not None and live.highest is not None:
                low, high = readable(metric, live.lowest), readable(metric, live.highest)
                values = low if low == high else f"{low} to {high}"
                yield f"now: {metric} is {values} on {live.nodes_with} of {counted(self.nodes, 'node')}"


NOTHING_KNOWN = LiveMetrics(0, {})


def ask(url: str, metrics: Sequence[str]) -> LiveMetrics:
    """Return what the evaluator at a URL knows of these metrics. Raises LiveError."""
    by_name: dict[str, LiveMetric] = {}
    nodes = 0
    for begin in range(0, len(metrics), _AT_ONCE):
        page = _get(url, metrics[begin : begin + _AT_ONCE])
        if page.waiting_for:
            raise LiveError(f"{url} is not ready: waiting for {', '.join(page.waiting_for)}")
        by_name |= page.metrics
        nodes = page.node_count
    return LiveMetrics(nodes, by_name)


def _get(url: str, metrics: Sequence[str]) -> _Page:
    query = urllib.parse.urlencode([("metric", name) for name in metrics])
    full = f"{url.rstrip('/')}/explain?{query}"
    if urllib.parse.urlsplit(full).scheme not in {"http", "https"}:
        raise LiveError(f"{url} is not an http or https URL")
    try:
        with urllib.request.urlopen(full, timeout=_TIMEOUT) as response:  # noqa: S310 (checked above)
            return msgspec.json.decode(response.read(_LARGEST), type=_Page)
    except OSError as error:  # HTTPError and URLError among others
        raise LiveError(f"{url} does not answer: {_reason(error)}") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise LiveError(f"{url} is not the operations port of an evaluator: {error}") from error


def _reason(error: OSError) -> Any:
    return getattr(error, "reason", None) or error
