from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from collectors.gpu import nvml
from collectors.gpu.gpudevices import Device, GpuReading, Xid
from collectors.interface import guard
from collectors.interface.sample import CollectorError, SourceAbsentError

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, TIMEOUT = 3, 4, 9, 10
LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 12, 13, 15
INVALID_ARGUMENT, UNKNOWN = 2, 999


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class FakePynvml:
    """A fake pynvml with two GPUs, of which the second supports few fields."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 0x02000028  # noqa: N815 (its names)
    nvmlEventTypeXidCriticalError = 8  # noqa: N815
    NVML_TEMPERATURE_GPU = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED = 0
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0
    NVML_AGGREGATE_ECC = 1
    NVML_FI_DEV_MEMORY_TEMP = 82
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 230
    NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL = 38
    NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL = 45
    NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL = 52
    NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL = 59
    NVML_PERF_POLICY_POWER = 0
    NVML_PERF_POLICY_THERMAL = 1
    NVML_PERF_POLICY_SYNC_BOOST = 2
    NVML_PERF_POLICY_BOARD_LIMIT = 3
    NVML_PERF_POLICY_LOW_UTILIZATION = 4
    NVML_PERF_POLICY_RELIABILITY = 5
    NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS = 0
    NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR = 1
    NVML_NVLINK_MAX_LINKS = 36

    def __init__(self) -> None:
        self.errors: dict[str, int] = {}
        self.lost: dict[str, int] = {}
        """Error codes of all queries about a GPU, by its index."""
        self.events: list[tuple[str, int]] = []
        self.registered: list[str] = []
        self.count = 2
        self.shut_down = False
        self.answers: dict[str, Any] = {
            "nvmlSystemGetDriverVersion": lambda: "580.95.05",
            "nvmlDeviceGetCount": lambda: self.count,
            "nvmlDeviceGetHandleByIndex": lambda index: f"handle{index}",
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle[-1]}",
            "nvmlDeviceGetName": lambda handle: b"Tesla T4" if handle == "handle1" else "A100",
            "nvmlDeviceGetPciInfo": lambda handle: SimpleNamespace(busId=b"00000000:07:00.0"),
            "nvmlDeviceGetMinorNumber": lambda handle: int(handle[-1]),
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=97, memory=41),
            "nvmlDeviceGetMemoryInfo": self.memory,
            "nvmlDeviceGetPowerUsage": lambda handle: 251750,
            "nvmlDeviceGetTemperature": lambda handle, sensor: 64 + sensor,
            "nvmlDeviceGetFieldValues": self.fields,
            "nvmlDeviceGetRemappedRows": lambda handle: (2, 1, 1, 0),
            "nvmlDeviceGetRetiredPages": lambda handle, cause: [0x1000] * (3 - cause),
            "nvmlDeviceGetRetiredPagesPendingStatus": lambda handle: 0,
            "nvmlDeviceGetViolationStatus": lambda handle, policy: SimpleNamespace(
                violationTime=1000 * policy
            ),
            "nvmlDeviceGetNvLinkState": self.link,
            "nvmlDeviceGetTotalEccErrors": lambda handle, kind, since: 10 * since + kind,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 4,
            "nvmlDeviceGetSupportedEventTypes": lambda handle: 8 if handle == "handle0" else 0,
            "nvmlDeviceRegisterEvents": lambda handle, kinds, events: self.registered.append(
                handle
            ),
            "nvmlEventSetCreate": lambda: "events",
            "nvmlEventSetFree": lambda events: None,
            "nvmlEventSetWait_v2": self.event,
            "nvmlInit": lambda: None,
            "nvmlShutdown": self.shutdown,
        }

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            if name in self.errors:
                raise NVMLError(self.errors[name])
            if arguments and (code := self.lost.get(str(arguments[0])[-1])):
                raise NVMLError(code)
            return self.answers[name](*arguments)

        return call

    def memory(self, handle: str, version: int | None = None) -> SimpleNamespace:
        parts = {"total": 40960, "used": 30000, "free": 10000}
        return SimpleNamespace(**parts, **({"reserved": 960} if version else {}))

    def fields(self, handle: str, numbers: list[int]) -> list[SimpleNamespace]:
        """Temperatures and actions are 32 bits, error counts 64."""
        return [
            SimpleNamespace(
                nvmlReturn=0,
                valueType=1 if number in {82, 230} else 3,
                value=SimpleNamespace(uiVal=number - 11 if number == 82 else 2, ullVal=number),
            )
            for number in numbers
        ]

    def link(self, handle: str, link: int) -> int:
        if link > 1:
            raise NVMLError(NOT_SUPPORTED)
        return 1 - link

    def event(self, events: str, milliseconds: int) -> SimpleNamespace:
        assert (events, milliseconds) == ("events", 0), "never waits"
        if not self.events:
            raise NVMLError(TIMEOUT)
        handle, code = self.events.pop(0)
        return SimpleNamespace(device=handle, eventData=code)

    def shutdown(self) -> None:
        self.shut_down = True


@pytest.fixture
def library() -> FakePynvml:
    return FakePynvml()


def opened(library: FakePynvml) -> nvml.Nvml:
    gpus = nvml.open_gpus(lambda name: {"pynvml": library}[name])
    assert isinstance(gpus, nvml.Nvml)
    return gpus


def test_devices_are_identified_by_constant_fields(library: FakePynvml) -> None:
    gpus = opened(library)
    assert gpus.driver == "580.95.05"
    assert gpus.devices() == (
        Device(0, "GPU-0", "00000000:07:00.0", "A100", 0),
        Device(1, "GPU-1", "00000000:07:00.0", "Tesla T4", 1),
    )


def test_all_fields_of_a_gpu_are_read(library: FakePynvml) -> None:
    gpus = opened(library)
    assert gpus.read(gpus.devices()[0]) == GpuReading(
        gpu_percent=97,
        memory_percent=41,
        memory_total_bytes=40960,
        memory_used_bytes=30000,
        memory_free_bytes=10000,
        memory_reserved_bytes=960,
        celsius=64,
        memory_celsius=71,
        watts=251.75,
        corrected_errors=0,
        uncorrected_errors=1,
        lifetime_corrected_errors=10,
        lifetime_uncorrected_errors=11,
        throttle_reasons=4,
        recovery_action=2,
        remapped_corrected=2,
        remapped_uncorrected=1,
        remap_pending=1,
        remap_failed=0,
        retired_single=3,
        retired_double=2,
        retired_pending=0,
        violations={
            "POWER": 0,
            "THERMAL": 1000,
            "SYNC_BOOST": 2000,
            "BOARD_LIMIT": 3000,
            "LOW_UTIL": 4000,
            "RELIABILITY": 5000,
        },
        link_errors={"CRC_FLIT": 38, "CRC_DATA": 45, "REPLAY": 52, "RECOVERY": 59},
        links={0: True, 1: False},
    )


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND])
def test_unsupported_field_is_none(code: int, library: FakePynvml) -> None:
    gpus = opened(library)
    device = gpus.devices()[0]
    library.errors = {name: code for name in library.answers if "DeviceGet" in name}
    assert gpus.read(device) == GpuReading()


def test_field_missing_on_a_gpu_is_none(library: FakePynvml) -> None:
    gpus = opened(library)
    library.answers["nvmlDeviceGetFieldValues"] = lambda *_: [SimpleNamespace(nvmlReturn=3)]
    assert gpus.read(gpus.devices()[0]).memory_celsius is None


def test_driver_without_reserved_memory_is_supported(library: FakePynvml) -> None:
    def memory(handle: str, *version: int) -> SimpleNamespace:
        if version:
            raise NVMLError(FUNCTION_NOT_FOUND)
        return SimpleNamespace(total=8, used=5, free=3)

    library.answers["nvmlDeviceGetMemoryInfo"] = memory
    gpus = opened(library)
    reading = gpus.read(gpus.devices()[0])
    assert (reading.memory_used_bytes, reading.memory_reserved_bytes) == (5, None)


def test_lost_gpu_is_an_error(library: FakePynvml) -> None:
    gpus = opened(library)
    library.errors = {"nvmlDeviceGetUtilizationRates": GPU_IS_LOST}
    with pytest.raises(CollectorError, match="nvmlDeviceGetUtilizationRates"):
        gpus.read(gpus.devices()[0])


def test_link_that_a_gpu_lacks_is_absent(library: FakePynvml) -> None:
    def link(handle: str, link: int) -> int:
        if link not in {1, 4}:
            raise NVMLError(INVALID_ARGUMENT)
        return 1

    library.answers["nvmlDeviceGetNvLinkState"] = link
    gpus = opened(library)
    reading = gpus.read(gpus.devices()[0])
    assert (reading.links, reading.gpu_percent, reading.failed) == ({1: True, 4: True}, 97, {})


@pytest.mark.parametrize(
    ("function", "fields"),
    [
        ("nvmlDeviceGetPowerUsage", {"watts"}),
        ("nvmlDeviceGetUtilizationRates", {"gpu_percent", "memory_percent"}),
        ("nvmlDeviceGetTemperature", {"celsius"}),
        ("nvmlDeviceGetNvLinkState", {"links"}),
        ("nvmlDeviceGetFieldValues", {"memory_celsius", "recovery_action", "link_errors"}),
    ],
)
def test_query_that_fails_costs_its_fields(
    function: str, fields: set[str], library: FakePynvml
) -> None:
    gpus = opened(library)
    device = gpus.devices()[0]
    well = asdict(gpus.read(device))
    library.errors = {function: UNKNOWN}
    ill = asdict(gpus.read(device))
    assert {name for name in well if well[name] != ill[name]} == {*fields, "failed"}
    assert ill["failed"].keys() == {function}


def test_gpu_of_which_nothing_can_be_read_is_an_error(library: FakePynvml) -> None:
    gpus = opened(library)
    device = gpus.devices()[0]
    library.lost = {"0": UNKNOWN}
    with pytest.raises(CollectorError, match="999"):
        gpus.read(device)


@pytest.mark.parametrize("function", ["nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"])
@pytest.mark.parametrize("code", [GPU_IS_LOST, UNKNOWN])
def test_gpu_lost_at_the_start_hides_no_other(
    function: str, code: int, library: FakePynvml
) -> None:
    answer = library.answers[function]
    lost = {0}

    def fail(argument: Any) -> Any:
        if int(str(argument)[-1]) in lost:
            raise NVMLError(code)
        return answer(argument)

    library.answers[function] = fail
    gpus = opened(library)
    skipped = guard.begin()
    assert [device.uuid for device in gpus.devices()] == ["GPU-1"]
    assert [part.reason for part in skipped] == [f"gpu 0: NVML: {function}: NVML error {code}"]
    assert library.registered == []
    lost.clear()
    assert [device.uuid for device in gpus.devices()] == ["GPU-0", "GPU-1"]
    assert library.registered == ["handle0"], "its XID errors are reported"


def test_gpu_that_comes_back_has_its_xids(library: FakePynvml) -> None:
    gpus = opened(library)
    device = gpus.devices()[0]
    library.lost = {"0": GPU_IS_LOST}
    for _ in range(2):
        with pytest.raises(CollectorError, match="15"):
            gpus.read(device)
        assert device in gpus.devices(), "its last XID errors go on to be exported"
    library.lost = {}
    assert gpus.read(device).gpu_percent == 97
    assert library.registered == ["handle0", "handle0"]


def test_lost_gpu_does_not_keep_the_xids_of_others_away(library: FakePynvml) -> None:
    gpus = opened(library)
    library.errors = {"nvmlEventSetWait_v2": GPU_IS_LOST}
    assert gpus.xids() == []
    library.errors = {}
    library.events = [("handle0", 31)]
    assert library.registered == ["handle0", "handle0"], "in a new set"
    assert gpus.xids() == [Xid("GPU-0", 31)]


def test_xids_are_read_from_supporting_gpus(library: FakePynvml) -> None:
    gpus = opened(library)
    assert library.registered == ["handle0"]
    assert gpus.xids() == []
    library.events = [("handle0", 31), ("handle0", 13)]
    assert gpus.xids() == [Xid("GPU-0", 31), Xid("GPU-0", 13)]
    assert gpus.xids() == []


def test_xid_of_a_removed_gpu_still_counts(library: FakePynvml) -> None:
    gpus = opened(library)
    library.events = [("handle0", 79)]
    library.errors = {"nvmlDeviceGetUUID": GPU_IS_LOST}
    assert gpus.xids() == [Xid("", 79)]


def test_flood_of_xids_is_bounded(library: FakePynvml) -> None:
    gpus = opened(library)
    library.answers["nvmlEventSetWait_v2"] = lambda *_: SimpleNamespace(
        device="handle0", eventData=31
    )
    assert len(gpus.xids()) == 1000


def test_library_without_events_is_supported(library: FakePynvml) -> None:
    library.errors = {"nvmlEventSetCreate": NOT_SUPPORTED}
    assert opened(library).xids() == []


def test_hot_plugged_gpu_is_found(library: FakePynvml) -> None:
    gpus = opened(library)
    library.count = 3
    assert [device.uuid for device in gpus.devices()] == ["GPU-0", "GPU-1", "GPU-2"]


def test_gpu_of_another_user_is_omitted(library: FakePynvml) -> None:
    library.errors = {"nvmlDeviceGetHandleByIndex": NO_PERMISSION}
    assert opened(library).devices() == ()


def test_missing_library_is_absent() -> None:
    def load(name: str) -> Any:
        raise ModuleNotFoundError(name=name)

    with pytest.raises(SourceAbsentError, match="nvidia-ml-py is not installed"):
        nvml.open_gpus(load)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (LIBRARY_NOT_FOUND, SourceAbsentError),
        (DRIVER_NOT_LOADED, SourceAbsentError),
        (999, CollectorError),
    ],
)
def test_failed_start_has_a_reason(code: int, error: type[Exception], library: FakePynvml) -> None:
    library.errors = {"nvmlInit": code}
    with pytest.raises(error) as raised:
        opened(library)
    assert type(raised.value) is error


def test_broken_library_can_be_closed(library: FakePynvml) -> None:
    gpus = opened(library)
    gpus.close()
    assert library.shut_down
    library.errors = {"nvmlShutdown": 1}
    gpus.close()


def test_real_library_has_every_used_function(library: FakePynvml) -> None:
    """The fake provides what the adapter uses; the real library is checked for these names without a driver."""
    real = pytest.importorskip("pynvml")
    constants = [name for name in vars(FakePynvml) if name.lower().startswith("nvml")]
    for name in (*library.answers, *constants):
        assert hasattr(real, name), name
    for name in (n for n in constants if isinstance(getattr(FakePynvml, n), int)):
        assert getattr(real, name) == getattr(FakePynvml, name), name
