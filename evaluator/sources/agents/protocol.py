"""One stream by the protocol: which lists the agent was told, and what a report of it may say after that."""

from google.protobuf.message import DecodeError

from wire import codec, telemetry_pb2
from wire.codec import Delta, MalformedReportError

_KEPT = 16
"""Lists that an agent may be behind. One that is told of more, and answers none, has stopped to listen or plays."""


def parse(message: bytes) -> telemetry_pb2.Report:
    """Raises MalformedReportError."""
    try:
        return telemetry_pb2.Report.FromString(message)
    except DecodeError as error:
        raise MalformedReportError("what came is no Report") from error


class StreamProtocol:
    """What was said on one stream, which is for one node."""

    def __init__(self, node: str) -> None:
        self.node = node
        self._told: dict[int, tuple[str, ...]] = {}
        self._answered = 0

    def tell(self, generation: int, metrics: tuple[str, ...]) -> None:
        """The agent is told this list now. Generations go up."""
        self._told[generation] = metrics
        if len(self._told) > _KEPT:
            del self._told[next(iter(self._told))]

    def decode(self, report: telemetry_pb2.Report, *, known: bool) -> Delta:
        """What a report says; `known`: there are readings of the node already. Raises MalformedReportError.

        A report refers to the list of its own generation, also while the next one is on its way to the agent.
        """
        if report.node_name != self.node:
            other = report.node_name[:300] or "one without a name"
            raise MalformedReportError(f"this stream is for node {self.node}, not {other}")
        if (metrics := self._told.get(report.generation)) is None:
            raise MalformedReportError(f"generation {report.generation} was never subscribed to")
        # Changes make sense only beside what they change; a node that was forgotten has to begin anew.
        if not report.full and (report.generation != self._answered or not known):
            raise MalformedReportError("a full report has to come first")
        delta = codec.decode(report, metrics)
        if report.generation != self._answered:
            self._answered = report.generation
            self._told = {g: names for g, names in self._told.items() if g >= report.generation}
        return delta
