"""The interface of a GPU library, and fake GPUs for tests and demos."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from collectors.interface.sample import CollectorError


@dataclass(frozen=True, slots=True)
class Device:
    """Constant properties of a GPU."""

    index: int
    uuid: str
    bus_id: str
    model: str
    minor: int | None
    """Number of its device file, /dev/nvidia<minor>."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """A GPU's readings. None if the model or driver does not report it."""

    gpu_percent: int | None = None
    memory_percent: int | None = None
    """Share of time in which memory was read or written."""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    """Reserved by driver and firmware; not part of used memory."""
    celsius: int | None = None
    memory_celsius: int | None = None
    watts: float | None = None
    corrected_errors: int | None = None
    """ECC errors since the driver was loaded, as the next field."""
    uncorrected_errors: int | None = None
    lifetime_corrected_errors: int | None = None
    lifetime_uncorrected_errors: int | None = None
    throttle_reasons: int | None = None
    """Bit set of the reasons for reduced clocks."""
    recovery_action: int | None = None
    """What the driver says must be done: 0 nothing, otherwise nvmlDeviceGpuRecoveryAction_t."""
    remapped_corrected: int | None = None
    """Memory rows remapped because of errors that were corrected; the next because of others."""
    remapped_uncorrected: int | None = None
    remap_pending: int | None = None
    remap_failed: int | None = None
    retired_single: int | None = None
    """Memory pages retired because of single-bit errors; the next because of double-bit errors."""
    retired_double: int | None = None
    retired_pending: int | None = None
    violations: Mapping[str, int] = field(default_factory=dict)
    """Nanoseconds of throttling by cause."""
    link_errors: Mapping[str, int] = field(default_factory=dict)
    """NVLink errors of all links by kind."""
    links: Mapping[int, bool] = field(default_factory=dict)
    """NVLinks by number, and whether each is up."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Queries that failed although the model may have the value, and why."""


class Xid(NamedTuple):
    """An error reported by the driver; codes: https://docs.nvidia.com/deploy/xid-errors."""

    uuid: str
    code: int


class Gpus(Protocol):
    """The GPUs of this machine through an initialized library.

    All methods except `close` raise CollectorError if the library fails.
    """

    @property
    def driver(self) -> str:
        """Return the driver's version."""
        ...

    def devices(self) -> Sequence[Device]:
        """Return all GPUs, also those that were lost since they were found. One that was never found is left out."""
        ...

    def read(self, device: Device) -> GpuReading:
        """Return the readings of one GPU. Raises CollectorError also if it is lost, or nothing can be read of it."""
        ...

    def xids(self) -> Sequence[Xid]:
        """Return the errors reported since the last call."""
        ...

    def close(self) -> None:
        """Release the library."""
        ...


@dataclass(slots=True)
class FixedGpus:
    """Fake GPUs: return what they were given, or raise the error they were given."""

    readings: dict[Device, GpuReading | CollectorError]
    driver: str = "580.95.05"
    reported: list[Xid] = field(default_factory=list)
    lost: CollectorError | None = None
    """If set, every query raises it."""
    closed: bool = False

    def devices(self) -> Sequence[Device]:
        """Return all GPUs."""
        if self.lost is not None:
            raise self.lost
        return tuple(self.readings)

    def read(self, device: Device) -> GpuReading:
        """Return the readings given for this GPU."""
        reading = self.readings[device]
        if isinstance(reading, CollectorError):
            raise copy(reading)  # each with a traceback of its own
        return reading

    def xids(self) -> Sequence[Xid]:
        """Return the given errors once."""
        reported, self.reported = self.reported, []
        return reported

    def close(self) -> None:
        """Record that it was called."""
        self.closed = True
