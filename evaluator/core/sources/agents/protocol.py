"""The protocol of one stream: the subscriptions sent to the agent, and the reports that are valid after them."""

from google.protobuf.message import DecodeError

from wire import codec, telemetry_pb2
from wire.codec import Delta, MalformedReportError

_MOST_SUBSCRIPTIONS = 16
"""Subscriptions kept for a slow agent; reports for older ones are rejected."""


def parse(message: bytes) -> telemetry_pb2.Report:
    """Return a decoded Report. Raises MalformedReportError."""
    try:
        return telemetry_pb2.Report.FromString(message)
    except DecodeError as error:
        raise MalformedReportError("the message is not a Report") from error


class StreamProtocol:
    """The protocol state of one stream, which is for one node."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._subscriptions: dict[int, tuple[str, ...]] = {}
        self._answered = 0

    def subscribe(self, generation: int, metrics: tuple[str, ...]) -> None:
        """Record a subscription that is being sent. Generations increase."""
        self._subscriptions[generation] = metrics
        if len(self._subscriptions) > _MOST_SUBSCRIPTIONS:
            del self._subscriptions[next(iter(self._subscriptions))]

    def decode(self, report: telemetry_pb2.Report, *, known: bool) -> Delta:
        """Return the changes in a report. `known`: whether the store has readings of the node. Raises MalformedReportError.

        A report refers to the subscription of its own generation, also while the next one is being sent.
        """
        if report.node_name != self.node:
            other = report.node_name[:300] or "one without a name"
            raise MalformedReportError(f"this stream is for node {self.node}, not {other}")
        if (metrics := self._subscriptions.get(report.generation)) is None:
            raise MalformedReportError(f"generation {report.generation} was never subscribed to")
        # A delta needs a previous full report; a node that was dropped from the store must send one again.
        if not report.full and (report.generation != self._answered or not known):
            raise MalformedReportError("a full report is required first")
        delta = codec.decode(report, metrics)
        if report.generation != self._answered:
            self._answered = report.generation
            self._subscriptions = {
                g: names for g, names in self._subscriptions.items() if g >= report.generation
            }
        return delta
