"""Batteries, mains adapters and USB supplies, from <sysfs>/class/power_supply."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs
from collectors.shared.formats.patterns import regexp
from plimsoll import re2
from plimsoll.flags import option

_SUPPLY = "<sysfs>/class/power_supply/<power_supply>"
# Files with a number, and their metrics if named differently: some unscaled,
_PLAIN = (
    *("authentic", "calibrate", "capacity", "capacity_alert_max", "capacity_alert_min"),
    *("cycle_count", "online", "present", "time_to_empty_now", "time_to_full_now"),
)
# most in millionths of an ampere, a volt, a watt, ...
_MICRO = (
    *("charge_control_limit", "charge_control_limit_max", "charge_counter", "charge_empty"),
    *("charge_empty_design", "charge_full", "charge_full_design", "charge_now"),
    *("charge_term_current", "constant_charge_current", "constant_charge_current_max"),
    *("constant_charge_voltage", "constant_charge_voltage_max", "current_boot", "current_max"),
    *("current_now", "energy_empty", "energy_empty_design", "energy_full", "energy_full_design"),
    *("energy_now", "input_current_limit", "power_now", "precharge_current", "voltage_boot"),
    *("voltage_max", "voltage_max_design", "voltage_min", "voltage_min_design", "voltage_now"),
    "voltage_ocv",
)
# some in tenths of a degree.
_TENTHS = (
    *("temp", "temp_alert_max", "temp_alert_min", "temp_ambient", "temp_ambient_max"),
    *("temp_ambient_min", "temp_max", "temp_min"),
)
_NAMES = {
    "charge_now": "charge_ampere",
    "current_now": "current_ampere",
    "cycle_count": "cyclecount",
    "energy_now": "energy_watthour",
    "power_now": "power_watt",
    "time_to_empty_now": "time_to_empty_seconds",
    "time_to_full_now": "time_to_full_seconds",
    "voltage_now": "voltage_volt",
    **{file: f"{file}_celsius" for file in _TENTHS},
}
_TEXTS = (
    *("capacity_level", "charge_type", "health", "manufacturer", "model_name", "serial_number"),
    *("status", "technology", "type", "usb_type", "scope"),
)
_UNITS = ("celsius", "seconds", "volt", "ampere", "watthour", "watt")

FILES: Mapping[str, tuple[str, float]] = {
    file: (f"node_power_supply_{_NAMES.get(file, file)}", divisor)
    for files, divisor in ((_PLAIN, 1.0), (_MICRO, 1e6), (_TENTHS, 10.0))
    for file in files
}
"""Files with a number: metric and divisor."""


def _metric(file: str, name: str) -> Metric:
    short = name.removeprefix("node_power_supply_")
    unit = next((unit for unit in _UNITS if short.endswith(f"_{unit}")), "")
    about = f"{short} value of /sys/class/power_supply/<power_supply>."
    return Metric(name, "gauge", about, f"{_SUPPLY}/{file}", ("power_supply",), unit)


METRICS = Table(
    *(_metric(file, name) for file, (name, _) in FILES.items()),
    Metric(
        "node_power_supply_info",
        "gauge",
        "info of /sys/class/power_supply/<power_supply>.",
        f"{_SUPPLY}/*",
        ("power_supply", *_TEXTS),
    ),
)


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    powersupply_ignored: str = option(
        "collector.powersupply.ignored-supplies",
        "^$",
        "regular expression of the power supplies to leave out",
        metavar="REGEXP",
        parse=regexp,
    )


class PowerSupplyClass:
    """The `powersupplyclass` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._directory = f"{machine.sysfs}/class/power_supply"
        self._ignored = re2.compiled(options.powersupply_ignored)

    def collect(self) -> Iterator[Family]:
        """Read the source. Values that a supply does not report, as most of an absent battery's, have no sample."""
        values: dict[str, list[tuple[Sequence[str], float]]] = {}
        facts: list[Mapping[str, str]] = []
        for supply in sysfs.listing(self._directory):
            if self._ignored.search(supply) is not None:
                continue
            path = f"{self._directory}/{supply}"
            offered = sysfs.listing_optional(path)
            for file in FILES.keys() & offered.keys():
                if (value := sysfs.number(f"{path}/{file}")) is not None:
                    metric, divisor = FILES[file]
                    values.setdefault(metric, []).append(((supply,), value / divisor))
            texts = {text: sysfs.attribute(f"{path}/{text}") for text in _TEXTS if text in offered}
            facts.append({"power_supply": supply, **{k: v for k, v in texts.items() if v}})
        for metric, rows in values.items():
            yield METRICS.family(metric, rows)
        if facts:
            yield METRICS.facts("node_power_supply_info", facts)


ENTRY = Entry(
    build=PowerSupplyClass, metrics=METRICS, about="batteries and power supplies", options=Options
)
