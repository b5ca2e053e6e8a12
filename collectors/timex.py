"""State of clock discipline from adjtimex(2): offset, errors, frequency, synchronisation."""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator

from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError


def _gauge(name: str, text: str, unit: str = "") -> Metric:
    return Metric(f"node_timex_{name}", "gauge", text, "adjtimex(2)", unit=unit)


def _counter(name: str, text: str) -> Metric:
    return Metric(f"node_timex_{name}", "counter", text, "adjtimex(2)")


METRICS = Table(
    _gauge("sync_status", "Is clock synchronized to a reliable server (1 = yes, 0 = no)."),
    _gauge("offset_seconds", "Time offset in between local system and reference clock.", "seconds"),
    _gauge("frequency_adjustment_ratio", "Local clock frequency adjustment.", "ratio"),
    _gauge("maxerror_seconds", "Maximum error in seconds.", "seconds"),
    _gauge("estimated_error_seconds", "Estimated error in seconds.", "seconds"),
    _gauge("status", "Value of the status array bits."),
    _gauge("loop_time_constant", "Phase-locked loop time constant."),
    _gauge("tick_seconds", "Seconds between clock ticks.", "seconds"),
    _gauge("pps_frequency_hertz", "Pulse per second frequency.", "hertz"),
    _gauge("pps_jitter_seconds", "Pulse per second jitter.", "seconds"),
    _gauge("pps_shift_seconds", "Pulse per second interval duration.", "seconds"),
    _gauge(
        "pps_stability_hertz",
        "Pulse per second stability, average of recent frequency changes.",
        "hertz",
    ),
    _counter("pps_jitter_total", "Pulse per second count of jitter limit exceeded events."),
    _counter("pps_calibration_total", "Pulse per second count of calibration intervals."),
    _counter("pps_error_total", "Pulse per second count of calibration errors."),
    _counter(
        "pps_stability_exceeded_total", "Pulse per second count of stability limit exceeded events."
    ),
    _gauge("tai_offset_seconds", "International Atomic Time (TAI) offset.", "seconds"),
)

_TIME_ERROR = 5  # adjtimex's return value while the clock is not synchronised
_STA_NANO = 0x2000  # in `status`: some times are in nanoseconds, not microseconds
_MICROSECONDS, _NANOSECONDS = 1_000_000, 1_000_000_000
_SCALED_PPM = 1_000_000 * 65_536  # frequencies are ppm with 16 fractional bits
_FORBIDDEN = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS})

_libc = ctypes.CDLL(None, use_errno=True)


class Parameters(ctypes.Structure):
    """The C struct of adjtimex(2). The first field stays 0: read only."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time_sec", ctypes.c_long),
        ("time_usec", ctypes.c_long),
        ("tick", ctypes.c_long),
        ("ppsfreq", ctypes.c_long),
        ("jitter", ctypes.c_long),
        ("shift", ctypes.c_int),
        ("stabil", ctypes.c_long),
        ("jitcnt", ctypes.c_long),
        ("calcnt", ctypes.c_long),
        ("errcnt", ctypes.c_long),
        ("stbcnt", ctypes.c_long),
        ("tai", ctypes.c_int),
        ("_reserved", ctypes.c_int * 11),
    )


def adjtimex() -> tuple[int, Parameters]:
    """Return the state and parameters of the clock. Raises OSError if the call fails."""
    parameters = Parameters()
    state = _libc.adjtimex(ctypes.byref(parameters))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return state, parameters


def families(state: int, clock: Parameters) -> Iterator[Family]:
    """Return the result of adjtimex in seconds."""
    resolution = _NANOSECONDS if clock.status & _STA_NANO else _MICROSECONDS
    for name, value in (
        ("sync_status", float(state != _TIME_ERROR)),
        ("offset_seconds", clock.offset / resolution),
        ("frequency_adjustment_ratio", 1 + clock.freq / _SCALED_PPM),
        ("maxerror_seconds", clock.maxerror / _MICROSECONDS),
        ("estimated_error_seconds", clock.esterror / _MICROSECONDS),
        ("status", clock.status),
        ("loop_time_constant", clock.constant),
        ("tick_seconds", clock.tick / _MICROSECONDS),
        ("pps_frequency_hertz", clock.ppsfreq / _SCALED_PPM),
        ("pps_jitter_seconds", clock.jitter / resolution),
        ("pps_shift_seconds", clock.shift),
        ("pps_stability_hertz", clock.stabil / _SCALED_PPM),
        ("pps_jitter_total", clock.jitcnt),
        ("pps_calibration_total", clock.calcnt),
        ("pps_error_total", clock.errcnt),
        ("pps_stability_exceeded_total", clock.stbcnt),
        ("tai_offset_seconds", clock.tai),
    ):
        yield METRICS.single(f"node_timex_{name}", value)


class Timex:
    """The `timex` collector."""

    def __init__(self, *, adjtimex_call: Callable[[], tuple[int, Parameters]] = adjtimex) -> None:
        self._adjtimex = adjtimex_call

    def collect(self) -> Iterator[Family]:
        """Query the kernel. A container's seccomp profile may forbid it."""
        try:
            state, clock = self._adjtimex()
        except OSError as error:
            kind = SourceAbsentError if error.errno in _FORBIDDEN else CollectorError
            raise kind(f"adjtimex: {error.strerror}") from error
        return families(state, clock)


ENTRY = Entry(build=lambda _, __: Timex(), metrics=METRICS, about="synchronization of the clock")
