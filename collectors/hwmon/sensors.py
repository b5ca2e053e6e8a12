"""Names and scales of hwmon files: `temp2_crit` is the element crit of the sensor temp2, in thousandths of a degree."""

import re
from collections.abc import Callable, Iterator, Mapping

from collectors.interface.metric import Metric, Table

_CHIPS = "<sysfs>/class/hwmon/hwmon*"
_SENSOR = ("chip", "sensor")
_SENSORS = (
    "in",
    "cpu",
    "fan",
    "pwm",
    "temp",
    "curr",
    "power",
    "energy",
    "humidity",
    "intrusion",
    "freq",
)
_WHOLE_CHIP = frozenset({"vrm", "beep_enable", "update_interval"})
_TYPES = _WHOLE_CHIP.union(_SENSORS)

Scale = Callable[[float], float]


def _plain(value: float) -> float:
    return value


def _milli(value: float) -> float:
    return value * 0.001


def _micro(value: float) -> float:
    return value / 1e6


# Suffix and scale of a metric: by element for any sensor type, then by type and element, then by type; other values are
# exported unchanged.
_BY_ELEMENT: Mapping[str, tuple[str, Scale]] = {
    "fault": ("", _plain),
    "alarm": ("", _plain),
    "beep": ("_enabled", _plain),
}
_BY_TYPE_AND_ELEMENT: Mapping[tuple[str, str], tuple[str, Scale]] = {
    ("temp", "type"): ("", _plain),
    ("power", "accuracy"): ("", _micro),
    ("power", "average_interval"): ("_seconds", _milli),
    ("power", "average_interval_min"): ("_seconds", _milli),
    ("power", "average_interval_max"): ("_seconds", _milli),
    ("fan", "input"): ("_rpm", _plain),
    ("fan", "min"): ("_rpm", _plain),
    ("fan", "max"): ("_rpm", _plain),
    ("fan", "target"): ("_rpm", _plain),
    ("freq", "input"): ("_freq_mhz", _micro),
}
_BY_TYPE: Mapping[str, tuple[str, Scale]] = {
    "in": ("_volts", _milli),
    "cpu": ("_volts", _milli),
    "temp": ("_celsius", _milli),
    "curr": ("_amps", _milli),
    "energy": ("_joule_total", _micro),
    "power": ("_watt", _micro),
    "humidity": ("", _micro),
}
_MEASURED = {
    "in": "Hardware monitor for voltage ({})",
    "cpu": "Hardware monitor for voltage ({})",
    "temp": "Hardware monitor for temperature ({})",
    "curr": "Hardware monitor for current ({})",
    "energy": "Hardware monitor for joules used so far ({})",
    "power": "Hardware monitor for power usage in watts ({})",
    "humidity": "Hardware monitor for humidity, as a ratio (multiply with 100.0 to get the humidity as a percentage) ({})",
}


def _gauge(name: str, about: str, files: str, unit: str = "") -> Metric:
    return Metric(f"node_hwmon_{name}", "gauge", about, f"{_CHIPS}/{files}", _SENSOR, unit)


def _metrics() -> Iterator[Metric]:
    """By file name, then by sensor type and element; file names take precedence."""
    yield Metric(
        "node_hwmon_chip_names",
        "gauge",
        "Annotation metric for human-readable chip names",
        f"{_CHIPS}/name",
        ("chip", "chip_name"),
    )
    yield Metric(
        "node_hwmon_sensor_label",
        "gauge",
        "Label for given chip and sensor",
        f"{_CHIPS}/*_label",
        (*_SENSOR, "label"),
    )
    yield _gauge("beep_enabled", "Hardware beep enabled", "beep_enable")
    yield _gauge("voltage_regulator_version", "Hardware voltage regulator", "vrm")
    interval = "Hardware monitor update interval"
    yield _gauge("update_interval_seconds", interval, "update_interval", "seconds")
    yield _gauge(
        "power_accuracy", "Hardware monitor power meter accuracy, as a ratio", "power*_accuracy"
    )
    for element in ("average_interval", "average_interval_min", "average_interval_max"):
        about = f"Hardware monitor power usage update interval ({element})"
        yield _gauge(f"power_{element}_seconds", about, f"power*_{element}", "seconds")
    for name, element in (
        ("", "input"),
        *((f"_{e}", e) for e in ("input", "min", "max", "target")),
    ):
        about = f"Hardware monitor for fan revolutions per minute ({element})"
        yield _gauge(f"fan{name}_rpm", about, f"fan*_{element}", "rpm")
    yield _gauge("temp_type", "Hardware monitor temp element type", "temp*_type")
    for name in ("freq_freq_mhz", "freq_input_freq_mhz"):
        yield _gauge(name, "Hardware monitor for GPU frequency in MHz", "freq*_input", "mhz")
    for kind in _SENSORS:
        yield from _metrics_of(kind)


def _metrics_of(kind: str) -> Iterator[Metric]:
    for status in ("fault", "alarm"):
        about = f"Hardware sensor {status} status ({kind})"
        yield _gauge(f"{kind}_{status}", about, f"{kind}*_{status}")
    beeping = "Hardware monitor sensor has beeping enabled"
    yield _gauge(f"{kind}_beep_enabled", beeping, f"{kind}*_beep")
    if kind in _BY_TYPE:
        suffix, unit = _BY_TYPE[kind][0], _BY_TYPE[kind][0].removesuffix("_total").lstrip("_")
        for name, element in (("", "input"), ("_<element>", "<element>")):
            yield Metric(
                f"node_hwmon_{kind}{name}{suffix}",
                "counter" if suffix.endswith("_total") else "gauge",
                _MEASURED[kind].format(element),
                f"{_CHIPS}/{kind}*_{element}",
                _SENSOR,
                unit,
            )
    else:
        about = f"Hardware monitor {kind} element "
        yield _gauge(kind, about, f"{kind}*")
        yield _gauge(f"{kind}_<element>", f"{about}<element>", f"{kind}*_<element>")


METRICS = Table(*_metrics())

_FILE = re.compile(r"([^0-9]+)([0-9]{0,9})(?:_(.+))?")
_NOT_IN_NAMES = re.compile("[^a-z0-9:_]")


def clean(name: str) -> str:
    """Return a name with node_exporter's character set for hwmon: a-z, 0-9, `:` and `_`."""
    return _NOT_IN_NAMES.sub("_", name.lower()).strip("_")


def split(filename: str) -> tuple[str, str, str] | None:
    """Return sensor, type and element of a file name: `temp2_crit` is temp2, temp, crit. None for other files."""
    match = _FILE.fullmatch(filename)
    if match is None or match.group(1) not in _TYPES:
        return None
    kind, index, element = match.groups()
    return f"{kind}{int(index or 0)}", kind, element or ""


def meaning(kind: str, element: str, others: Mapping[str, str]) -> tuple[str, Scale]:
    """Return the metric's suffix and scale for an element of a sensor; `others`: all its elements."""
    if kind in _WHOLE_CHIP:
        return {
            "beep_enable": ("node_hwmon_beep_enabled", lambda value: float(value == 1)),
            "vrm": ("node_hwmon_voltage_regulator_version", _plain),
            "update_interval": ("node_hwmon_update_interval_seconds", _milli),
        }[kind]
    known = _BY_ELEMENT.get(element) or _BY_TYPE_AND_ELEMENT.get((kind, element))
    suffix, scale = known or _BY_TYPE.get(kind, ("", _plain))
    # The input is the sensor's value and needs no suffix, unless a file such as `fan1` has that name.
    named = element and (element != "input" or "" in others)
    return f"node_hwmon_{kind}{'_' + clean(element) if named else ''}{suffix}", scale
