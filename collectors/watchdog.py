"""Watchdog timers, which reset a hung machine, from <sysfs>/class/watchdog."""

from collections.abc import Iterator, Sequence

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_TIMER = "<sysfs>/class/watchdog/<watchdog>"
_NUMBERS = {
    "bootstatus": "bootstatus",
    "fw_version": "fw_version",
    "nowayout": "nowayout",
    "timeleft": "timeleft_seconds",
    "timeout": "timeout_seconds",
    "pretimeout": "pretimeout_seconds",
    "access_cs0": "access_cs0",
}
_TEXTS = ("options", "identity", "state", "status", "pretimeout_governor")
METRICS = Table(
    *(
        Metric(
            f"node_watchdog_{name}",
            "gauge",
            f"Value of /sys/class/watchdog/<watchdog>/{file}",
            f"{_TIMER}/{file}",
            ("name",),
            "seconds" if name.endswith("_seconds") else "",
        )
        for file, name in _NUMBERS.items()
    ),
    Metric(
        "node_watchdog_info",
        "gauge",
        "Info of /sys/class/watchdog/<watchdog>",
        f"{_TIMER}/*",
        ("name", *_TEXTS),
    ),
)


class Watchdog:
    """The `watchdog` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = f"{machine.sysfs}/class/watchdog"

    def collect(self) -> Iterator[Family]:
        """Read the source. Values that a driver lacks have no sample, or an empty label."""
        timers = sysfs.listing(self._directory)
        values: dict[str, list[tuple[Sequence[str], float]]] = {}
        facts: list[tuple[Sequence[str], float]] = []
        for timer in timers:
            path = f"{self._directory}/{timer}"
            offered = sysfs.listing_optional(path)
            for file, name in _NUMBERS.items():
                value = sysfs.number(f"{path}/{file}") if file in offered else None
                if value is not None:
                    values.setdefault(f"node_watchdog_{name}", []).append(((timer,), float(value)))
            texts = (
                sysfs.attribute(f"{path}/{text}") if text in offered else "" for text in _TEXTS
            )
            facts.append(((timer, *(text or "" for text in texts)), 1.0))
        for metric, rows in values.items():
            yield METRICS.family(metric, rows)
        if facts:
            yield METRICS.family("node_watchdog_info", facts)


ENTRY = Entry(build=lambda host, _: Watchdog(host), metrics=METRICS, about="watchdog timers")
