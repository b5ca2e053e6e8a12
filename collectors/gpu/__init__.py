"""NVIDIA GPUs: utilisation, memory, temperature, power, errors and throttling, with dcgm-exporter's names."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from collectors.gpu import nvml
from collectors.gpu.gpudevices import Device, GpuReading, Gpus
from collectors.interface import guard
from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, MetricType, SourceAbsentError
from collectors.shared import sysfs
from plimsoll import logs

_DEVICE = (
    "gpu",
    "UUID",
    "pci_bus_id",
    "device",
    "modelName",
    "Hostname",
    "DCGM_FI_DRIVER_VERSION",
)


def _row(name: str, text: str, source: str, *labels: str, kind: MetricType = "gauge") -> Metric:
    return Metric(name, kind, text, f"NVML: {source}", (*_DEVICE, *labels), node_exporter=False)


def _errors(name: str, text: str) -> Metric:
    # Gauges, though dcgm-exporter calls them counters: OpenMetrics would append "_total" and break dashboards.
    return _row(
        f"DCGM_FI_DEV_ECC_{name}_TOTAL", text, "nvmlDeviceGetTotalEccErrors", kind="untyped"
    )


_CAUSES = {
    "POWER": "power",
    "THERMAL": "heat",
    "SYNC_BOOST": "sync boost",
    "BOARD_LIMIT": "limits of the board",
    "LOW_UTIL": "low utilisation",
    "RELIABILITY": "reliability of the voltage",
}
_LINK_ERRORS = {
    "CRC_FLIT": "flow-control CRC errors",
    "CRC_DATA": "data CRC errors",
    "REPLAY": "replays",
    "RECOVERY": "recoveries",
}

METRICS = Table(
    _row(
        "DCGM_FI_DEV_GPU_UTIL",
        "Share of time in which the GPU was at work (in %).",
        "nvmlDeviceGetUtilizationRates",
    ),
    _row(
        "DCGM_FI_DEV_MEM_COPY_UTIL",
        "Share of time in which the GPU's memory was read or written (in %).",
        "nvmlDeviceGetUtilizationRates",
    ),
    _row("DCGM_FI_DEV_FB_TOTAL", "GPU memory (in MiB).", "nvmlDeviceGetMemoryInfo"),
    _row("DCGM_FI_DEV_FB_USED", "GPU memory in use (in MiB).", "nvmlDeviceGetMemoryInfo"),
    _row("DCGM_FI_DEV_FB_FREE", "Free GPU memory (in MiB).", "nvmlDeviceGetMemoryInfo"),
    _row(
        "DCGM_FI_DEV_FB_RESERVED",
        "GPU memory that driver and firmware keep (in MiB).",
        "nvmlDeviceGetMemoryInfo",
    ),
    _row("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).", "nvmlDeviceGetTemperature"),
    _row(
        "DCGM_FI_DEV_MEMORY_TEMP",
        "Temperature of the GPU's memory (in C).",
        "nvmlDeviceGetFieldValues",
    ),
    _row("DCGM_FI_DEV_POWER_USAGE", "Power the GPU draws (in W).", "nvmlDeviceGetPowerUsage"),
    _errors("SBE_VOL", "ECC errors corrected since the driver was loaded."),
    _errors("DBE_VOL", "ECC errors not corrected since the driver was loaded."),
    _errors("SBE_AGG", "ECC errors corrected in the GPU's lifetime."),
    _errors("DBE_AGG", "ECC errors not corrected in the GPU's lifetime."),
    _row(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS",
        "Why the GPU's clocks are lower than they could be, one bit for each reason.",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
    ),
    _row(
        "DCGM_FI_DEV_GPU_RECOVERY_ACTION",
        "What the driver says must be done: 0 nothing, 1 reset, 2 reboot, 3 drain peers, 4 drain peers and reset, 5 recover the IMEX domain, 6 reset the bus, 7 reboot the system.",
        "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
    ),
    _row(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
        "Memory rows remapped because of errors that were corrected.",
        "nvmlDeviceGetRemappedRows",
        kind="untyped",
    ),
    _row(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Memory rows remapped because of errors that were not corrected.",
        "nvmlDeviceGetRemappedRows",
        kind="untyped",
    ),
    _row(
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "Whether a row is remapped by the next reset of the GPU.",
        "nvmlDeviceGetRemappedRows",
    ),
    _row(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE",
        "Whether a row could not be remapped.",
        "nvmlDeviceGetRemappedRows",
    ),
    _row(
        "DCGM_FI_DEV_RETIRED_SBE",
        "Memory pages retired because of single-bit errors.",
        "nvmlDeviceGetRetiredPages",
        kind="untyped",
    ),
    _row(
        "DCGM_FI_DEV_RETIRED_DBE",
        "Memory pages retired because of double-bit errors.",
        "nvmlDeviceGetRetiredPages",
        kind="untyped",
    ),
    _row(
        "DCGM_FI_DEV_RETIRED_PENDING",
        "Whether a page is retired by the next reset of the GPU.",
        "nvmlDeviceGetRetiredPagesPendingStatus",
    ),
    *(
        _row(
            f"DCGM_FI_DEV_{cause}_VIOLATION",
            f"Throttling because of {text} (in ns).",
            "nvmlDeviceGetViolationStatus",
            kind="untyped",
        )
        for cause, text in _CAUSES.items()
    ),
    *(
        _row(
            f"DCGM_FI_DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL",
            f"NVLink {text} of all links.",
            "nvmlDeviceGetFieldValues",
            kind="untyped",
        )
        for kind, text in _LINK_ERRORS.items()
    ),
    _row(
        "node_gpu_nvlink_up",
        "Whether an NVLink of the GPU is up.",
        "nvmlDeviceGetNvLinkState",
        "link",
    ),
    _row(
        "DCGM_FI_DEV_XID_ERRORS",
        "Code of the last XID error since the agent started.",
        "nvmlEventSetWait",
    ),
    _row(
        "DCGM_EXP_XID_ERRORS_COUNT",
        "XID errors since the agent started, by code.",
        "nvmlEventSetWait",
        "xid",
        kind="untyped",
    ),
)
_MEBIBYTE = 1 << 20
_MOST_MEBIBYTES, _MOST_ROWS, _MOST_XID = 1 << 24, 1 << 24, 1 << 20
_RETRY_SECONDS = 60.0

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class _Field:
    metric: str
    value: Callable[[GpuReading], float | None]
    most: float = float(1 << 63)
    """A higher value, or one below `least`, is impossible: the driver answers so for what it does not know."""
    least: float = 0.0


def _mebibytes(amount: int | None) -> int | None:
    return None if amount is None else amount // _MEBIBYTE


def _violation(cause: str) -> Callable[[GpuReading], float | None]:
    return lambda reading: reading.violations.get(cause)


def _link_error(kind: str) -> Callable[[GpuReading], float | None]:
    return lambda reading: reading.link_errors.get(kind)


_FIELDS: Sequence[_Field] = (
    _Field("DCGM_FI_DEV_GPU_UTIL", lambda r: r.gpu_percent, 100),
    _Field("DCGM_FI_DEV_MEM_COPY_UTIL", lambda r: r.memory_percent, 100),
    _Field("DCGM_FI_DEV_FB_TOTAL", lambda r: _mebibytes(r.memory_total_bytes), _MOST_MEBIBYTES),
    _Field("DCGM_FI_DEV_FB_USED", lambda r: _mebibytes(r.memory_used_bytes), _MOST_MEBIBYTES),
    _Field("DCGM_FI_DEV_FB_FREE", lambda r: _mebibytes(r.memory_free_bytes), _MOST_MEBIBYTES),
    _Field(
        "DCGM_FI_DEV_FB_RESERVED", lambda r: _mebibytes(r.memory_reserved_bytes), _MOST_MEBIBYTES
    ),
    _Field("DCGM_FI_DEV_GPU_TEMP", lambda r: r.celsius, 250, -100),
    _Field("DCGM_FI_DEV_MEMORY_TEMP", lambda r: r.memory_celsius, 250, -100),
    _Field("DCGM_FI_DEV_POWER_USAGE", lambda r: r.watts, 100_000),
    _Field("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", lambda r: r.corrected_errors),
    _Field("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", lambda r: r.uncorrected_errors),
    _Field("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", lambda r: r.lifetime_corrected_errors),
    _Field("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", lambda r: r.lifetime_uncorrected_errors),
    _Field("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", lambda r: r.throttle_reasons),
    _Field("DCGM_FI_DEV_GPU_RECOVERY_ACTION", lambda r: r.recovery_action, 1000),
    _Field("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", lambda r: r.remapped_corrected, _MOST_ROWS),
    _Field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", lambda r: r.remapped_uncorrected, _MOST_ROWS),
    _Field("DCGM_FI_DEV_ROW_REMAP_PENDING", lambda r: r.remap_pending, 1),
    _Field("DCGM_FI_DEV_ROW_REMAP_FAILURE", lambda r: r.remap_failed, 1),
    _Field("DCGM_FI_DEV_RETIRED_SBE", lambda r: r.retired_single, _MOST_ROWS),
    _Field("DCGM_FI_DEV_RETIRED_DBE", lambda r: r.retired_double, _MOST_ROWS),
    _Field("DCGM_FI_DEV_RETIRED_PENDING", lambda r: r.retired_pending, 1),
    *(_Field(f"DCGM_FI_DEV_{cause}_VIOLATION", _violation(cause)) for cause in _CAUSES),
    *(
        _Field(f"DCGM_FI_DEV_NVLINK_{kind}_ERROR_COUNT_TOTAL", _link_error(kind))
        for kind in _LINK_ERRORS
    ),
)


_XIDS = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT")
_Row = tuple[tuple[str, ...], float]


@cache
def _metrics_of(function: str) -> tuple[str, ...]:
    """Return the metrics that a query of NVML yields; the recovery action is one of its field values."""
    sources = {f"NVML: {function}"}
    if function == "nvmlDeviceGetFieldValues":
        sources.add("NVML: NVML_FI_DEV_GET_GPU_RECOVERY_ACTION")
    return tuple(metric.name for metric in METRICS if metric.source in sources)


class Gpu:
    """The `gpu` collector."""

    def __init__(
        self,
        machine: Host,
        open_gpus: Callable[[], Gpus] = nvml.open_gpus,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._hostname = machine.name
        self._driver = f"{machine.procfs}/driver/nvidia/version"
        self._open = open_gpus
        self._clock = clock
        self._gpus: Gpus | None = None
        self._retry_at = float("-inf")
        self._absent = ""
        self._devices: Sequence[Device] = ()
        self._by_device: Mapping[Device, tuple[str, ...]] = {}
        self._families: dict[str, tuple[list[_Row], Family]] = {}
        self._troubles: dict[Device, str] = {}
        self._xids: Counter[tuple[str, int]] = Counter()
        self._last_xid: dict[str, int] = {}

    def collect(self) -> Iterator[Family]:
        """Read the GPUs."""
        gpus = self._connected()
        try:
            devices = gpus.devices()
        except CollectorError:
            # The driver was unloaded; the library must be initialized again.
            gpus.close()
            self._gpus = None
            raise
        readings = self._readings(gpus, devices)
        if devices != self._devices:
            self._devices = devices
            self._by_device = {device: self._labels(device, gpus.driver) for device in devices}
        labels = self._by_device
        for field in _FIELDS:
            rows: list[_Row] = []
            for device, reading in readings.items():
                if (value := field.value(reading)) is None:
                    continue
                if field.least <= value <= field.most:
                    rows.append((labels[device], value))
                else:
                    guard.skip(f"gpu {field.metric}: impossible value {value}", field.metric)
            if rows:
                yield self._family(field.metric, rows)
        links = [
            ((*labels[device], str(link)), float(up))
            for device, reading in readings.items()
            for link, up in reading.links.items()
        ]
        if links:
            yield self._family("node_gpu_nvlink_up", links)
        yield from self._errors(gpus, labels)

    def _family(self, name: str, rows: list[_Row]) -> Family:
        """Return a family; that of the last run if no value differs, as of most metrics of a GPU."""
        known = self._families.get(name)
        if known is None or known[0] != rows:
            known = self._families[name] = rows, METRICS.family(name, rows)
        return known[1]

    def _connected(self) -> Gpus:
        """Return the library, imported once there is a driver: without one it would only take memory."""
        if self._gpus is not None:
            return self._gpus
        if sysfs.content(self._driver) is None:
            raise self._off(SourceAbsentError(f"no NVIDIA driver ({self._driver})"))
        if self._clock() < self._retry_at:
            raise SourceAbsentError(self._absent)
        try:
            self._gpus = self._open()
        except SourceAbsentError as error:
            self._retry_at = self._clock() + _RETRY_SECONDS
            raise self._off(error) from error
        self._absent, self._devices = "", ()
        return self._gpus

    def _off(self, reason: SourceAbsentError) -> SourceAbsentError:
        """Log once why there are no GPU metrics."""
        if str(reason) != self._absent:
            self._absent = str(reason)
            log.info("no GPU metrics", reason=self._absent)
        return reason

    def _readings(self, gpus: Gpus, devices: Iterable[Device]) -> Mapping[Device, GpuReading]:
        """Return readings of the GPUs that answer; a GPU that fell off the bus must not hide the others."""
        readings: dict[Device, GpuReading] = {}
        troubles: dict[Device, str] = {}
        for device in devices:
            try:
                reading = readings[device] = gpus.read(device)
            except CollectorError as error:
                troubles[device] = str(error)
                guard.skip(f"gpu {device.index}: {error}")
                continue
            for function, text in reading.failed.items():
                guard.skip(f"gpu {function}: {device.uuid}: {text}", *_metrics_of(function))
        for device, trouble in troubles.items():
            if self._troubles.get(device) != trouble:
                log.warning("GPU does not answer", gpu=device.uuid, reason=trouble)
        self._troubles = troubles
        if troubles and not readings:
            raise CollectorError("; ".join(sorted(set(troubles.values()))))
        return readings

    def _errors(self, gpus: Gpus, labels: Mapping[Device, tuple[str, ...]]) -> Iterator[Family]:
        for xid in gpus.xids():
            if not 0 <= xid.code < _MOST_XID:
                guard.skip(f"gpu XID: impossible code {xid.code}", *_XIDS)
                continue
            self._xids[xid.uuid, xid.code] += 1
            self._last_xid[xid.uuid] = xid.code
        by_uuid = {device.uuid: texts for device, texts in labels.items()}
        last = [(by_uuid[uuid], code) for uuid, code in self._last_xid.items() if uuid in by_uuid]
        if last:
            yield METRICS.family("DCGM_FI_DEV_XID_ERRORS", last)
            counts = (
                ((*by_uuid[uuid], str(code)), count)
                for (uuid, code), count in sorted(self._xids.items())
                if uuid in by_uuid
            )
            yield METRICS.family("DCGM_EXP_XID_ERRORS_COUNT", counts)

    def _labels(self, device: Device, driver: str) -> tuple[str, ...]:
        file = "" if device.minor is None else f"nvidia{device.minor}"
        return (
            str(device.index),
            device.uuid,
            device.bus_id,
            file,
            device.model,
            self._hostname,
            driver,
        )


ENTRY = Entry(
    optional=True,
    build=lambda host, _: Gpu(host),
    metrics=METRICS,
    about="NVIDIA GPUs",
    needs="extra `gpu`",
)
