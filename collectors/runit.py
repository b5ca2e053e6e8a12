"""Services of the supervisor runit, from the status files below its service directory."""

import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from collectors.interface import guard, host, kernelfiles
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, MetricType
from collectors.shared import sysfs
from plimsoll.flags import option

_LABELS = ("service", "supervisor")


def _row(name: str, about: str, kind: MetricType = "gauge", unit: str = "") -> Metric:
    source = "<rootfs>/etc/service/*/supervise/status"
    return Metric(f"node_service_{name}", kind, about, source, _LABELS, unit)


METRICS = Table(
    _row("state", "State of runit service."),
    _row("desired_state", "Desired state of runit service."),
    _row("normal_state", "Normal state of runit service."),
    _row(
        "state_last_change_timestamp_seconds",
        "Unix timestamp of the last runit service state change.",
        unit="seconds",
    ),
)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    runit_directory: str = option(
        "collector.runit.servicedir",
        "/etc/service",
        "runit's service directory on the host",
        metavar="DIR",
    )


_STATUS = struct.Struct(">QI4x2B")  # TAI64N label, process, paused, wanted
_STATE = 19  # offset of the state: 0 down, 1 up, 2 finishing
_DOWN = 0
_LENGTH = 20
_EPOCH = (1 << 62) + 10  # TAI64 label of 1970


class Status(NamedTuple):
    """The state of a service: 0 down, 1 up, 2 finishing."""

    state: int
    wanted: int
    changed: int


def parse(content: bytes) -> Status:
    """Parse a file supervise/status."""
    if len(content) != _LENGTH:
        raise CollectorError(f"runit: a status of {len(content)} bytes, not {_LENGTH}")
    label, _, _, wanted = _STATUS.unpack_from(content)
    return Status(content[_STATE], int(wanted == ord("u")), label - _EPOCH)


def _is_supervised(service: Path) -> bool:
    """Return whether runsv runs: it reads the FIFO supervise/ok. Without runsv, the status file says what was."""
    try:
        os.close(os.open(service / "supervise/ok", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        # Without permission, it is unknown, and the file counts.
        return error.errno in {errno.EACCES, errno.EPERM}
    return True


class Runit:
    """The `runit` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = machine.rootfs / options.runit_directory.lstrip("/")

    def collect(self) -> Iterator[Family]:
        """Read the sources now. A service that was never started has no status."""
        rows: dict[str, list[tuple[tuple[str, str], float]]] = {m.name: [] for m in METRICS}
        for service in sysfs.listing(self._directory):
            path = self._directory / service
            try:
                status = parse(kernelfiles.read_once(f"{path}/supervise/status"))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                guard.skip(f"runit status: {path}/supervise/status: {error.strerror}")
                continue
            except CollectorError as error:
                guard.skip(f"runit status: {path}/supervise/status: {error}")
                continue
            state = status.state if _is_supervised(path) else _DOWN
            normal = not (path / "down").exists()
            values = (state, status.wanted, normal, status.changed)
            for metric, value in zip(METRICS, values, strict=True):
                rows[metric.name].append(((service, "runit"), float(value)))
        for name, samples in rows.items():
            yield METRICS.family(name, samples)


ENTRY = Entry(
    build=Runit, metrics=METRICS, about="services of runit", on=False, options=Options, needs="root"
)
