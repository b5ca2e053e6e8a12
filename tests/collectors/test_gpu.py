from collections.abc import Callable
from dataclasses import replace

import pytest
import structlog

from collectors.gpu import Gpu
from collectors.gpu.gpudevices import Device, FixedGpus, GpuReading, Gpus, Xid
from collectors.interface import guard
from collectors.interface.sample import CollectorError, SourceAbsentError

A100 = Device(0, "GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52", "00000000:07:00.0", "NVIDIA A100", 0)
T4 = Device(1, "GPU-1c8b2f0e-7c9f-4c1b-9c36-cf8c0a8d4f11", "00000000:3B:00.0", "Tesla T4", 1)
BUSY = GpuReading(
    gpu_percent=97,
    memory_percent=41,
    memory_total_bytes=40960 << 20,
    memory_used_bytes=(30000 << 20) + 5,
    memory_free_bytes=10400 << 20,
    memory_reserved_bytes=560 << 20,
    celsius=64,
    memory_celsius=71,
    watts=251.75,
    corrected_errors=3,
    uncorrected_errors=0,
    lifetime_corrected_errors=40,
    lifetime_uncorrected_errors=1,
    throttle_reasons=0x4,
)
DRIVER = {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module  580.95.05\n"}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def gpus() -> FixedGpus:
    return FixedGpus({A100: BUSY})


@pytest.fixture
def collector(plant, gpus: FixedGpus) -> Gpu:
    return Gpu(replace(plant(DRIVER), name="node-a"), lambda: gpus)


def series(name: str, device: Device = A100, extra: str = "") -> str:
    return (
        f'{name}{{gpu="{device.index}",UUID="{device.uuid}",pci_bus_id="{device.bus_id}",'
        f'device="nvidia{device.minor}",modelName="{device.model}",Hostname="node-a",'
        f'DCGM_FI_DRIVER_VERSION="580.95.05"{extra}}}'
    )


def test_metrics_have_the_names_of_dcgm_exporter(collector: Gpu, values) -> None:
    assert values(collector.collect()) == {
        series("DCGM_FI_DEV_GPU_UTIL"): 97,
        series("DCGM_FI_DEV_MEM_COPY_UTIL"): 41,
        series("DCGM_FI_DEV_FB_TOTAL"): 40960,
        series("DCGM_FI_DEV_FB_USED"): 30000,
        series("DCGM_FI_DEV_FB_FREE"): 10400,
        series("DCGM_FI_DEV_FB_RESERVED"): 560,
        series("DCGM_FI_DEV_GPU_TEMP"): 64,
        series("DCGM_FI_DEV_MEMORY_TEMP"): 71,
        series("DCGM_FI_DEV_POWER_USAGE"): 251.75,
        series("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"): 3,
        series("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"): 0,
        series("DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"): 40,
        series("DCGM_FI_DEV_ECC_DBE_AGG_TOTAL"): 1,
        series("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"): 4,
    }


def test_unsupported_values_are_absent(collector: Gpu, gpus: FixedGpus, values) -> None:
    gpus.readings = {A100: GpuReading(celsius=30), T4: GpuReading(gpu_percent=0, celsius=31)}
    assert values(collector.collect()) == {
        series("DCGM_FI_DEV_GPU_UTIL", T4): 0,
        series("DCGM_FI_DEV_GPU_TEMP"): 30,
        series("DCGM_FI_DEV_GPU_TEMP", T4): 31,
    }


def test_xids_are_counted_and_the_last_is_exported(collector: Gpu, gpus: FixedGpus, values) -> None:
    found = values(collector.collect())
    assert not any("XID" in name for name in found)
    gpus.reported = [Xid(A100.uuid, 31), Xid(A100.uuid, 13), Xid("GPU-gone", 79)]
    list(collector.collect())
    gpus.reported = [Xid(A100.uuid, 31)]
    found = values(collector.collect())
    assert {name: value for name, value in found.items() if "XID" in name} == {
        series("DCGM_FI_DEV_XID_ERRORS"): 31,
        series("DCGM_EXP_XID_ERRORS_COUNT", extra=',xid="13"'): 1,
        series("DCGM_EXP_XID_ERRORS_COUNT", extra=',xid="31"'): 2,
    }


def test_health_has_the_names_of_dcgm_exporter(collector: Gpu, gpus: FixedGpus, values) -> None:
    gpus.readings = {
        A100: GpuReading(
            recovery_action=1,
            remapped_corrected=2,
            remapped_uncorrected=1,
            remap_pending=1,
            remap_failed=0,
            retired_single=3,
            retired_double=4,
            retired_pending=0,
            violations={"POWER": 5_000_000},
            link_errors={"REPLAY": 7},
            links={0: True, 1: False},
        )
    }
    assert values(collector.collect()) == {
        series("DCGM_FI_DEV_GPU_RECOVERY_ACTION"): 1,
        series("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS"): 2,
        series("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"): 1,
        series("DCGM_FI_DEV_ROW_REMAP_PENDING"): 1,
        series("DCGM_FI_DEV_ROW_REMAP_FAILURE"): 0,
        series("DCGM_FI_DEV_RETIRED_SBE"): 3,
        series("DCGM_FI_DEV_RETIRED_DBE"): 4,
        series("DCGM_FI_DEV_RETIRED_PENDING"): 0,
        series("DCGM_FI_DEV_POWER_VIOLATION"): 5_000_000,
        series("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"): 7,
        series("node_gpu_nvlink_up", extra=',link="0"'): 1,
        series("node_gpu_nvlink_up", extra=',link="1"'): 0,
    }


def test_lost_gpu_hides_no_other(collector: Gpu, gpus: FixedGpus, values) -> None:
    gpus.readings = {A100: CollectorError("GPU is lost"), T4: GpuReading(celsius=31)}
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            assert values(collector.collect()) == {series("DCGM_FI_DEV_GPU_TEMP", T4): 31}
    assert [(line["log_level"], line["gpu"]) for line in lines] == [("warning", A100.uuid)]
    gpus.readings = {A100: CollectorError("GPU is lost")}
    with pytest.raises(CollectorError, match="GPU is lost"):
        list(collector.collect())


def test_library_that_lost_its_driver_is_reopened(plant, values) -> None:
    first, second = FixedGpus({A100: BUSY}), FixedGpus({T4: GpuReading(celsius=31)})
    opened = iter([first, second])
    collector = Gpu(replace(plant(DRIVER), name="node-a"), lambda: next(opened))
    list(collector.collect())
    first.lost = CollectorError("Driver Not Loaded")
    with pytest.raises(CollectorError, match="Driver Not Loaded"):
        list(collector.collect())
    assert first.closed
    assert values(collector.collect()) == {series("DCGM_FI_DEV_GPU_TEMP", T4): 31}


def refusing(reason: str) -> tuple[Callable[[], Gpus], list[str]]:
    calls: list[str] = []

    def open_gpus() -> Gpus:
        calls.append(reason)
        raise SourceAbsentError(reason)

    return open_gpus, calls


def test_library_is_not_loaded_without_a_driver_and_this_is_logged_once(plant) -> None:
    open_gpus, calls = refusing("no library")
    collector = Gpu(plant({}), open_gpus)
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(SourceAbsentError, match="no NVIDIA driver"):
                list(collector.collect())
    assert calls == []
    assert [(line["log_level"], line["event"]) for line in lines] == [("info", "no GPU metrics")]


def test_missing_library_disables_the_collector_and_is_retried_after_a_minute(plant) -> None:
    open_gpus, calls = refusing("not installed")
    clock = Clock()
    collector = Gpu(plant(DRIVER), open_gpus, clock=clock)
    with structlog.testing.capture_logs() as lines:
        for clock.now in (0.0, 10.0, 59.0, 61.0, 90.0):
            with pytest.raises(SourceAbsentError, match="not installed"):
                list(collector.collect())
    assert len(calls) == 2
    assert len(lines) == 1


def test_driver_loaded_later_is_found(plant, gpus: FixedGpus, values) -> None:
    collector = Gpu(plant({}), lambda: gpus)
    with pytest.raises(SourceAbsentError):
        list(collector.collect())
    plant(DRIVER)
    assert len(values(collector.collect())) == 14


def test_machine_without_accessible_gpus_exports_none(
    collector: Gpu, gpus: FixedGpus, values
) -> None:
    gpus.readings = {}
    assert values(collector.collect()) == {}


def test_family_is_made_again_only_if_a_value_or_gpu_differs(
    collector: Gpu, gpus: FixedGpus, values
) -> None:
    first = {family.name: family for family in collector.collect()}
    gpus.readings[A100] = replace(BUSY, celsius=65)
    second = {family.name: family for family in collector.collect()}
    assert [name for name in first if first[name] is not second[name]] == ["DCGM_FI_DEV_GPU_TEMP"]
    assert values(second.values())[series("DCGM_FI_DEV_GPU_TEMP")] == 65
    gpus.readings[T4] = BUSY
    third = values(collector.collect())
    assert third[series("DCGM_FI_DEV_GPU_UTIL", T4)] == third[series("DCGM_FI_DEV_GPU_UTIL")] == 97


@pytest.mark.parametrize(
    ("field", "value", "metric"),
    [
        ("gpu_percent", 808334905, "DCGM_FI_DEV_GPU_UTIL"),
        ("memory_percent", -1, "DCGM_FI_DEV_MEM_COPY_UTIL"),
        ("memory_used_bytes", (1 << 64) - 1, "DCGM_FI_DEV_FB_USED"),
        ("celsius", 0x7FFFFFFF, "DCGM_FI_DEV_GPU_TEMP"),
        ("watts", 4294967.295, "DCGM_FI_DEV_POWER_USAGE"),
        ("remap_pending", 77, "DCGM_FI_DEV_ROW_REMAP_PENDING"),
        ("uncorrected_errors", (1 << 64) - 1, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
    ],
)
def test_impossible_value_is_left_out(
    field: str, value: float, metric: str, collector: Gpu, gpus: FixedGpus, values
) -> None:
    well = values(collector.collect())
    gpus.readings[T4] = replace(BUSY, **{field: value})
    skipped = guard.begin()
    found = values(collector.collect())
    assert {s: v for s, v in found.items() if A100.uuid in s} == well
    assert series(metric, T4) not in found
    assert len([s for s in found if T4.uuid in s]) >= len(well) - 1
    (part,) = skipped
    assert part.metrics == {metric}


def test_failed_query_is_reported_for_its_metrics(collector: Gpu, gpus: FixedGpus, values) -> None:
    failed = {"nvmlDeviceGetPowerUsage": "NVML: nvmlDeviceGetPowerUsage: Unknown Error"}
    gpus.readings[A100] = replace(BUSY, watts=None, failed=failed)
    skipped = guard.begin()
    found = values(collector.collect())
    assert series("DCGM_FI_DEV_POWER_USAGE") not in found
    assert series("DCGM_FI_DEV_GPU_UTIL") in found
    assert [part.metrics for part in skipped] == [{"DCGM_FI_DEV_POWER_USAGE"}]


def test_impossible_xid_is_left_out(collector: Gpu, gpus: FixedGpus, values) -> None:
    gpus.reported = [Xid(A100.uuid, 1 << 40), Xid(A100.uuid, 79)]
    found = values(collector.collect())
    assert {s: v for s, v in found.items() if "XID" in s} == {
        series("DCGM_FI_DEV_XID_ERRORS"): 79,
        series("DCGM_EXP_XID_ERRORS_COUNT", extra=',xid="79"'): 1,
    }
