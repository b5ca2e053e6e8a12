"""What a GPU library has to answer, and GPUs that answer whatever they are told to, for tests and demos."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from collectors.base.sample import CollectorError


@dataclass(frozen=True, slots=True)
class Device:
    """What does not change about a GPU."""

    index: int
    uuid: str
    bus_id: str
    model: str
    minor: int | None
    """The number of its device file, /dev/nvidia<minor>."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """A GPU at one moment. None is what this model or this driver does not tell."""

    gpu_percent: int | None = None
    memory_percent: int | None = None
    """How much of the time memory was read or written."""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_free_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    """What driver and firmware keep for themselves; not part of what is used."""
    celsius: int | None = None
    memory_celsius: int | None = None
    watts: float | None = None
    corrected_errors: int | None = None
    """ECC errors since the driver was loaded, as the next one."""
    uncorrected_errors: int | None = None
    lifetime_corrected_errors: int | None = None
    lifetime_uncorrected_errors: int | None = None
    throttle_reasons: int | None = None
    """A bit for each reason why the clocks are lower than they could be."""


class Xid(NamedTuple):
    """An error that the driver reported: https://docs.nvidia.com/deploy/xid-errors has the codes."""

    uuid: str
    code: int


class Gpus(Protocol):
    """The GPUs of this machine, through a library that is loaded and has found its driver.

    Any method but `close` raises CollectorError when the library does not answer.
    """

    @property
    def driver(self) -> str:
        """The version of the driver."""
        ...

    def devices(self) -> Sequence[Device]:
        """All GPUs."""
        ...

    def read(self, device: Device) -> GpuReading:
        """One GPU now."""
        ...

    def xids(self) -> Sequence[Xid]:
        """The errors reported since the last call."""
        ...

    def close(self) -> None:
        """Let go of the library."""
        ...


@dataclass(slots=True)
class FixedGpus:
    """GPUs without hardware: they say what is put in, or fail where an error is put in."""

    readings: dict[Device, GpuReading | CollectorError]
    driver: str = "580.95.05"
    reported: list[Xid] = field(default_factory=list)
    lost: CollectorError | None = None
    """Put in here, it is what all questions are answered with."""
    closed: bool = False

    def devices(self) -> Sequence[Device]:
        """All GPUs."""
        if self.lost is not None:
            raise self.lost
        return tuple(self.readings)

    def read(self, device: Device) -> GpuReading:
        """What was put in for this GPU."""
        reading = self.readings[device]
        if isinstance(reading, CollectorError):
            raise reading
        return reading

    def xids(self) -> Sequence[Xid]:
        """What was put in, once."""
        reported, self.reported = self.reported, []
        return reported

    def close(self) -> None:
        """Remember that it was asked to."""
        self.closed = True
