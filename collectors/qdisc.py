"""Queueing disciplines of network devices: bytes, packets, drops and backlog, over netlink."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, MetricType
from collectors.shared import netroot, routenetlink
from collectors.shared.formats.patterns import DeviceFilter, regexp
from collectors.shared.routenetlink import Qdisc
from plimsoll.flags import option


def _row(name: str, kind: MetricType, about: str, unit: str = "") -> Metric:
    return Metric(f"node_qdisc_{name}", kind, about, "netlink", ("device", "kind"), unit)


METRICS = Table(
    _row("bytes_total", "counter", "Number of bytes sent.", "bytes"),
    _row("packets_total", "counter", "Number of packets sent."),
    _row("drops_total", "counter", "Number of packets dropped."),
    _row("requeues_total", "counter", "Number of packets dequeued, not transmitted, and requeued."),
    _row("overlimits_total", "counter", "Number of overlimit packets."),
    _row("current_queue_length", "gauge", "Number of packets currently in queue to be sent."),
    _row("backlog", "gauge", "Number of bytes currently in queue to be sent."),
)

_FIELDS = {
    "node_qdisc_bytes_total": "bytes",
    "node_qdisc_packets_total": "packets",
    "node_qdisc_drops_total": "drops",
    "node_qdisc_requeues_total": "requeues",
    "node_qdisc_overlimits_total": "overlimits",
    "node_qdisc_current_queue_length": "qlen",
    "node_qdisc_backlog": "backlog",
}


_FIXTURE = ("Bytes", "Packets", "Drops", "Requeues", "Overlimits", "Qlen", "Backlog")


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    qdisc_device_include: str = option(
        "collector.qdisc.device-include",
        "",
        "read only devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    qdisc_device_exclude: str = option(
        "collector.qdisc.device-exclude",
        "",
        "leave out devices whose name matches",
        metavar="REGEXP",
        parse=regexp,
    )
    qdisc_fixtures: str = option(
        "collector.qdisc.fixtures",
        "",
        "read results.json in this directory instead of the kernel, for tests",
        metavar="DIR",
    )


def parse_fixture(text: str) -> list[Qdisc]:
    """Return the disciplines of a JSON file in node_exporter's format."""
    try:
        entries = list(json.loads(text))
    except (TypeError, ValueError) as error:
        raise CollectorError(f"results.json: {error!r}") from error
    return guard.readable(entries, _entry)


def _entry(entry: Any) -> Qdisc:
    try:
        numbers = (int(entry.get(name, 0)) for name in _FIXTURE)
        return Qdisc(str(entry["IfaceName"]), str(entry["Kind"]), *numbers)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise CollectorError(f"results.json: {error!r}") from error


def families(qdiscs: list[Qdisc]) -> Iterator[Family]:
    """Yield all families, from each device's root discipline."""
    for name, field in _FIELDS.items():
        counts = ((qdisc, getattr(qdisc, field)) for qdisc in qdiscs)
        yield METRICS.family(
            name,
            (((q.device, q.kind), float(count)) for q, count in counts if count is not None),
        )


class QueueDisciplines:
    """The `qdisc` collector."""

    def __init__(
        self,
        machine: host.Host,
        options: Options,
        *,
        connect: routenetlink.Connect = routenetlink.connect,
    ) -> None:
        self._machine = machine
        self._filter = DeviceFilter(options.qdisc_device_include, options.qdisc_device_exclude)
        self._connect = connect
        self._fixtures = options.qdisc_fixtures

    def collect(self) -> Iterator[Family]:
        """Query the kernel, or read the fixture."""
        if self._fixtures:
            disciplines = parse_fixture(host.read_once(Path(self._fixtures) / "results.json"))
        else:
            netroot.require_own(self._machine)
            disciplines = routenetlink.qdiscs(self._connect)
        return families([qdisc for qdisc in disciplines if not self._filter.ignores(qdisc.device)])


ENTRY = Entry(
    build=QueueDisciplines,
    metrics=METRICS,
    about="queueing disciplines",
    on=False,
    options=Options,
    needs="hostNetwork",
)
