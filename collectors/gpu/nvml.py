"""GPUs through NVIDIA's management library (NVML). Only this module uses `pynvml`, of the package nvidia-ml-py."""

import contextlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from collectors.gpu.gpudevices import Device, GpuReading, Gpus, Xid
from collectors.interface import guard
from collectors.interface.sample import CollectorError, SourceAbsentError
from plimsoll import logs

# Values of nvmlReturn_t for a query that this device, driver or user does not support; 2: it has no such link or part.
_NOT_TOLD = frozenset({2, 3, 4, 6, 13, 14, 21, 22, 25, 26})
_INVALID_ARGUMENT = 2
_TIMEOUT = 10
_LOST = frozenset({15, 16})  # the GPU fell off the bus; it must be reset
_UNINITIALIZED = 1
_NO_DRIVER = frozenset({9, 12})  # not loaded; library not found
_OK = 0
_MILLIWATTS = 1000
_MEMORY_TEMP = "NVML_FI_DEV_MEMORY_TEMP"
_RECOVERY_ACTION = "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"
_LINK_ERRORS = {
    "CRC_FLIT": "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL",
    "CRC_DATA": "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
    "REPLAY": "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL",
    "RECOVERY": "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
}
_POLICIES = {
    "POWER": "NVML_PERF_POLICY_POWER",
    "THERMAL": "NVML_PERF_POLICY_THERMAL",
    "SYNC_BOOST": "NVML_PERF_POLICY_SYNC_BOOST",
    "BOARD_LIMIT": "NVML_PERF_POLICY_BOARD_LIMIT",
    "LOW_UTIL": "NVML_PERF_POLICY_LOW_UTILIZATION",
    "RELIABILITY": "NVML_PERF_POLICY_RELIABILITY",
}
_UNSIGNED_INT = 1
"""nvmlValueType_t: `uiVal`; 2 and 3 are `ulVal` and `ullVal`."""
log = logs.get(__name__)
_MOST_XIDS = 1000  # at once: a broken GPU can report errors faster than they are read


def open_gpus(load: Callable[[str], Any] = importlib.import_module) -> Gpus:
    """Load the library and return its GPUs. Raises SourceAbsentError without library or driver."""
    try:
        library = load("pynvml")
    except ImportError as error:
        raise SourceAbsentError("nvidia-ml-py is not installed (extra `gpu`)") from error
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        kind = SourceAbsentError if error.value in _NO_DRIVER else CollectorError
        raise kind(f"NVML: {error}") from error
    return Nvml(library)


class Nvml:
    """The GPUs of an initialized pynvml."""

    def __init__(self, library: Any) -> None:
        self._nvml = library
        self._handles: dict[Device, Any] = {}
        self._missing: dict[int, str] = {}
        self._lost: set[Device] = set()
        self._failed: dict[str, str] | None = None
        self._answers = 0
        self.driver = _text(self._query("nvmlSystemGetDriverVersion"))
        self._events: Any = self._query("nvmlEventSetCreate")
        self._count = 0
        self.devices()

    def devices(self) -> Sequence[Device]:
        """Return all GPUs, also those that were lost since they were found. One that was never found is left out."""
        count = self._query("nvmlDeviceGetCount") or 0
        if count != self._count:
            self._count, self._handles, self._lost = count, {}, set()
            self._missing = dict.fromkeys(range(count), "")
        for index in list(self._missing):
            self._find(index)
        for index, trouble in self._missing.items():
            if trouble:
                guard.skip(f"gpu {index}: {trouble}")
        return tuple(sorted(self._handles, key=lambda device: device.index))

    def read(self, device: Device) -> GpuReading:
        """Return the readings of one GPU. Raises CollectorError also if it is lost, or nothing can be read of it."""
        self._failed, self._answers = {}, 0
        try:
            handle = self._recovered(device) if device in self._lost else self._handles[device]
            reading = self._reading(handle)
            if self._failed and not self._answers:
                raise CollectorError(next(iter(self._failed.values())))
            return replace(reading, failed=self._failed)
        except _LostError:
            self._lost.add(device)
            raise
        finally:
            self._failed = None

    def _recovered(self, device: Device) -> Any:
        """Return the new handle of a GPU that was lost, which may have been reset. Raises CollectorError if it is still lost."""
        self._failed = None
        handle = self._query("nvmlDeviceGetHandleByIndex", device.index)
        if handle is None or _text(self._query("nvmlDeviceGetUUID", handle)) != device.uuid:
            raise CollectorError("NVML: the GPU was lost, and another one has its index")
        self._handles[device] = handle
        self._lost.discard(device)
        self._watch(handle)
        self._failed = {}
        return handle

    def _reading(self, handle: Any) -> GpuReading:
        nvml = self._nvml
        utilization = self._query("nvmlDeviceGetUtilizationRates", handle)
        memory = self._query("nvmlDeviceGetMemoryInfo", handle, nvml.nvmlMemory_v2)
        if memory is None:  # a driver before 510, whose `used` includes reserved memory
            memory = self._query("nvmlDeviceGetMemoryInfo", handle)
        milliwatts = self._query("nvmlDeviceGetPowerUsage", handle)

        def errors(kind: int, since: int) -> int | None:
            return _whole(self._query("nvmlDeviceGetTotalEccErrors", handle, kind, since))

        corrected = nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
        uncorrected = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
        return GpuReading(
            gpu_percent=_part(utilization, "gpu"),
            memory_percent=_part(utilization, "memory"),
            memory_total_bytes=_part(memory, "total"),
            memory_used_bytes=_part(memory, "used"),
            memory_free_bytes=_part(memory, "free"),
            memory_reserved_bytes=_part(memory, "reserved"),
            celsius=_whole(
                self._query("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)
            ),
            watts=None if milliwatts is None else milliwatts / _MILLIWATTS,
            corrected_errors=errors(corrected, nvml.NVML_VOLATILE_ECC),
            uncorrected_errors=errors(uncorrected, nvml.NVML_VOLATILE_ECC),
            lifetime_corrected_errors=errors(corrected, nvml.NVML_AGGREGATE_ECC),
            lifetime_uncorrected_errors=errors(uncorrected, nvml.NVML_AGGREGATE_ECC),
            throttle_reasons=_whole(
                self._query("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
            ),
            **self._health(handle),
        )

    def _health(self, handle: Any) -> dict[str, Any]:
        """Return the fields of a GPU's health, and what is read with them in one call."""
        rows = self._query("nvmlDeviceGetRemappedRows", handle) or (None,) * 4
        fields = self._fields(handle, [_MEMORY_TEMP, _RECOVERY_ACTION, *_LINK_ERRORS.values()])
        violations = {
            cause: _part(
                self._query("nvmlDeviceGetViolationStatus", handle, policy), "violationTime"
            )
            for cause, name in _POLICIES.items()
            if (policy := getattr(self._nvml, name, None)) is not None
        }
        return {
            "memory_celsius": fields.get(_MEMORY_TEMP),
            "recovery_action": fields.get(_RECOVERY_ACTION),
            "remapped_corrected": _whole(rows[0]),
            "remapped_uncorrected": _whole(rows[1]),
            "remap_pending": _whole(rows[2]),
            "remap_failed": _whole(rows[3]),
            "retired_single": self._retired(handle, "MULTIPLE_SINGLE_BIT_ECC_ERRORS"),
            "retired_double": self._retired(handle, "DOUBLE_BIT_ECC_ERROR"),
            "retired_pending": _whole(
                self._query("nvmlDeviceGetRetiredPagesPendingStatus", handle)
            ),
            "violations": {cause: time for cause, time in violations.items() if time is not None},
            "link_errors": {
                kind: fields[name] for kind, name in _LINK_ERRORS.items() if name in fields
            },
            "links": self._links(handle),
        }

    def _retired(self, handle: Any, cause: str) -> int | None:
        number = getattr(self._nvml, f"NVML_PAGE_RETIREMENT_CAUSE_{cause}", None)
        pages = None if number is None else self._query("nvmlDeviceGetRetiredPages", handle, number)
        return None if pages is None else len(pages)

    def _links(self, handle: Any) -> dict[int, bool]:
        """Return the state of each NVLink that the GPU has."""
        found = {}
        for link in range(getattr(self._nvml, "NVML_NVLINK_MAX_LINKS", 0)):
            try:
                found[link] = bool(self._nvml.nvmlDeviceGetNvLinkState(handle, link))
                self._answers += 1
            except self._nvml.NVMLError as error:
                if error.value in _NOT_TOLD - {_INVALID_ARGUMENT}:
                    break  # no links
                if error.value != _INVALID_ARGUMENT:  # this link does not exist; others may
                    self._fail("nvmlDeviceGetNvLinkState", error)
        return found

    def _fields(self, handle: Any, names: Sequence[str]) -> dict[str, int]:
        """Return the values of the fields that library and GPU have."""
        known = [name for name in names if isinstance(getattr(self._nvml, name, None), int)]
        numbers = [getattr(self._nvml, name) for name in known]
        answers = self._query("nvmlDeviceGetFieldValues", handle, numbers) if known else None
        found = {}
        for name, answer in zip(known, answers or (), strict=False):
            if answer.nvmlReturn == _OK:
                part = (
                    "uiVal"
                    if getattr(answer, "valueType", _UNSIGNED_INT) == _UNSIGNED_INT
                    else "ullVal"
                )
                if (value := _part(answer.value, part)) is not None:
                    found[name] = value
        return found

    def xids(self) -> Sequence[Xid]:
        """Return the errors reported since the last call, which the library keeps."""
        found: list[Xid] = []
        while self._events is not None and len(found) < _MOST_XIDS:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError as error:
                if error.value != _TIMEOUT:  # a GPU is lost; a new set has those that are not
                    self._watch_all()
                break
            found.append(Xid(self._uuid(event.device), event.eventData))
        return found

    def close(self) -> None:
        """Release the library."""
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _find(self, index: int) -> None:
        """Look for a GPU; one that does not answer stays missing."""
        try:
            handle = self._query("nvmlDeviceGetHandleByIndex", index)
            if handle is None:
                self._missing[index] = ""  # belongs to another user
                return
            uuid = _text(self._query("nvmlDeviceGetUUID", handle))
        except CollectorError as error:
            if str(error) != self._missing[index]:
                log.warning("GPU does not answer", gpu=index, reason=str(error))
            self._missing[index] = str(error)
            return
        device = Device(
            index,
            uuid,
            _text(getattr(self._optional("nvmlDeviceGetPciInfo", handle), "busId", None)),
            _text(self._optional("nvmlDeviceGetName", handle)),
            _whole(self._optional("nvmlDeviceGetMinorNumber", handle)),
        )
        del self._missing[index]
        self._handles[device] = handle
        self._watch(handle)

    def _watch(self, handle: Any) -> None:
        """Have the errors of a GPU reported, if it reports any."""
        xid = self._nvml.nvmlEventTypeXidCriticalError
        if self._events is not None and (
            (self._optional("nvmlDeviceGetSupportedEventTypes", handle) or 0) & xid
        ):
            self._optional("nvmlDeviceRegisterEvents", handle, xid, self._events)

    def _watch_all(self) -> None:
        """Begin with a new event set, of all GPUs that are not lost."""
        self._optional("nvmlEventSetFree", self._events)
        self._events = self._optional("nvmlEventSetCreate")
        for device, handle in self._handles.items():
            if device not in self._lost:
                self._watch(handle)

    def _uuid(self, handle: Any) -> str:
        """Return the uuid of a GPU, which may be lost: its last errors still count."""
        try:
            return _text(self._query("nvmlDeviceGetUUID", handle))
        except CollectorError:
            return ""

    def _optional(self, function: str, *arguments: Any) -> Any:
        """Return the library's answer, or None if there is none for whatever reason."""
        try:
            return self._query(function, *arguments)
        except CollectorError:
            return None

    def _query(self, function: str, *arguments: Any) -> Any:
        """Return the library's answer, or None if the query is not supported, newer than the library, or one that failed in `read`."""
        if not hasattr(self._nvml, function):
            return None
        try:
            answer = getattr(self._nvml, function)(*arguments)
        except self._nvml.NVMLError as error:
            if error.value not in _NOT_TOLD:
                self._fail(function, error)
            return None
        self._answers += 1
        return answer

    def _fail(self, function: str, error: Any) -> None:
        """Note a query that failed while a GPU is read. Raises CollectorError for others, and if the GPU is lost."""
        text = f"NVML: {function}: {error}"
        if error.value in _LOST:
            raise _LostError(text) from error
        if self._failed is None or error.value == _UNINITIALIZED:
            raise CollectorError(text) from error
        self._failed[function] = text


class _LostError(CollectorError):
    """A GPU does not answer until it is reset."""


def _part(answer: Any, name: str) -> int | None:
    return _whole(getattr(answer, name, None))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: Any) -> str:
    """Return text, which older versions of pynvml return as bytes."""
    if value is None:
        return ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
