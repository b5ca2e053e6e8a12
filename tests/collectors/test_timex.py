import errno
import os

import pytest

from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.timex import Parameters, Timex

STA_PLL, STA_UNSYNC, STA_NANO = 0x0001, 0x0040, 0x2000
OK, ERROR = 0, 5


def test_clock_disciplined_in_nanoseconds_is_exported(values) -> None:
    clock = Parameters(
        offset=-123456,
        freq=-1_638_400,
        maxerror=2500,
        esterror=16,
        status=STA_PLL | STA_NANO,
        constant=7,
        tick=10_000,
        tai=37,
    )
    found = values(Timex(adjtimex_call=lambda: (OK, clock)).collect())
    assert len(found) == 17
    assert found["node_timex_sync_status"] == 1
    assert found["node_timex_offset_seconds"] == -0.000123456
    assert found["node_timex_frequency_adjustment_ratio"] == 1 - 25e-6
    assert found["node_timex_maxerror_seconds"] == 0.0025
    assert found["node_timex_estimated_error_seconds"] == 0.000016
    assert found["node_timex_status"] == 8193
    assert found["node_timex_loop_time_constant"] == 7
    assert found["node_timex_tick_seconds"] == 0.01
    assert found["node_timex_tai_offset_seconds"] == 37


def test_undisciplined_clock_is_exported(values) -> None:
    clock = Parameters(offset=5, maxerror=16_000_000, status=STA_UNSYNC, jitter=9)
    found = values(Timex(adjtimex_call=lambda: (ERROR, clock)).collect())
    assert found["node_timex_sync_status"] == 0
    assert found["node_timex_offset_seconds"] == 5e-6
    assert found["node_timex_pps_jitter_seconds"] == 9e-6
    assert found["node_timex_maxerror_seconds"] == 16


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EPERM, SourceAbsentError),
        (errno.ENOSYS, SourceAbsentError),
        (errno.EFAULT, CollectorError),
    ],
)
def test_unsupported_kernel_is_an_absent_source(number: int, kind: type[CollectorError]) -> None:
    def refuse() -> tuple[int, Parameters]:
        raise OSError(number, os.strerror(number))

    with pytest.raises(CollectorError, match="adjtimex") as raised:
        Timex(adjtimex_call=refuse).collect()
    assert type(raised.value) is kind


def test_clock_is_read_and_never_set(values) -> None:
    first = values(Timex().collect())
    second = values(Timex().collect())
    assert 0.009 <= first["node_timex_tick_seconds"] <= 0.011, "Linux accepts 9 to 11 ms only"
    assert first["node_timex_tick_seconds"] == second["node_timex_tick_seconds"]
