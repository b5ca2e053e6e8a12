"""The protocol of one stream: the subscriptions sent to the agent, and the reports that are valid after them."""

from google.protobuf.message import DecodeError

from wire import codec, telemetry_pb2
from wire.codec import Delta, MalformedReportError

_KEPT = 16
"""Subscriptions kept for an agent that lags behind; later reports for older ones are rejected."""


def parse(message: bytes) -> telemetry_pb2.Report:
    """Raises MalformedReportError."""
    try:
        return telemetry_pb2.Report.FromString(message)
    except DecodeError as error:
        raise MalformedReportError("what came is no Report") from error


class StreamProtocol:
    """The protocol state of one stream, which is for one node."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._told: dict[int, tuple[str, ...]] = {}
        self._answered = 0

    def tell(self, generation: int, metrics: tuple[str, ...]) -> None:
        """Record a subscription that is being sent. Generations increase."""
        self._told[generation] = metrics
        if len(self._told) > _KEPT:
            del self._told[next(iter(self._told))]

    def decode(self, report: telemetry_pb2.Report, *, known: bool) -> Delta:
        """Decode a report. `known`: whether the store has readings of the node. Raises MalformedReportError.

        A report refers to the list of its own generation, also while the next one is on its way to the agent.
        """
        if report.node_name != self.node:
            other = report.node_name[:300] or "one without a name"
            raise MalformedReportError(f"this stream is for node {self.node}, not {other}")
        if (metrics := self._told.get(report.generation)) is None:
            raise MalformedReportError(f"generation {report.generation} was never subscribed to")
        # A delta needs a previous full report; a node that was dropped from the store must send one again.
        if not report.full and (report.generation != self._answered or not known):
            raise MalformedReportError("a full report has to come first")
        delta = codec.decode(report, metrics)
        if report.generation != self._answered:
            self._answered = report.generation
            self._told = {g: names for g, names in self._told.items() if g >= report.generation}
        return delta
