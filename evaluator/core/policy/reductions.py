"""Selects how to reduce several series of a metric to one value, by metric and by its use in rules.

A rule violated below its target needs the lowest series, one violated above it the highest. Counters are compared by
rate, and CPU time by its share, so that the value does not grow with the number of CPUs. The kind of metric is
derived from its name, by the conventions of node_exporter and Prometheus.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from evaluator.core.policy.strategies import StrategyName
from evaluator.core.policy.types import Operator, Policy, formatted

PREFIX = "node_"


class Use(NamedTuple):
    """How a rule uses a metric. `ranks`: it ranks nodes, so LessThan means that lower is better, and has no target."""

    operator: Operator
    target: float = 0.0
    ranks: bool = False


def uses_of(policy: Policy, metric: str) -> tuple[Use, ...]:
    """Return how the rules of a policy use a metric."""
    return tuple(
        Use(rule.operator, rule.target, ranks=name.row.ranks)
        for name, strategy in policy.strategies.items()
        for rule in strategy.rules
        if rule.base == metric
    )


def uses_by_metric(policy: Policy) -> dict[str, tuple[Use, ...]]:
    """Return how the rules of a policy use each of its metrics."""
    found: dict[str, list[Use]] = {}
    for name, strategy in policy.strategies.items():
        ranks = name is StrategyName.SCHEDULEONMETRIC
        for rule in strategy.rules:
            found.setdefault(rule.base, []).append(Use(rule.operator, rule.target, ranks=ranks))
    return {metric: tuple(uses) for metric, uses in found.items()}


class _Seeks(Enum):
    """Which series decides."""

    LOWEST = auto()
    HIGHEST = auto()
    EQUAL = auto()


_ANY = frozenset({_Seeks.LOWEST, _Seeks.HIGHEST})
_HIGH = frozenset({_Seeks.HIGHEST})


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction of all series to one value.

    `expression` has `{series}` for the selector and `{by}` for the labels to keep; `matchers` belong into the selector.
    `counts`: the value is the number of series equal to the target.
    """

    name: str
    expression: str
    matchers: str = ""
    counts: bool = False


class _Shipped(NamedTuple):
    """A series of deploy/rules that replaces a metric, and for which uses."""

    series: str
    seeks: Collection[_Seeks] = _ANY


_SHIPPED: tuple[tuple[str, _Shipped], ...] = (
    ("cpu_seconds_total", _Shipped("node_cpu_utilisation_ratio")),
    ("cpu_(core|package)_throttle(s|_seconds)_total", _Shipped("node_cpu_throttled_ratio", _HIGH)),
    ("disk_io_time_seconds_total", _Shipped("node_disk_utilisation_ratio", _HIGH)),
    (
        "edac_(dimm|csrow|channel)_correctable_errors_total",
        _Shipped("node_memory_dimm_corrected_errors_24h", _HIGH),
    ),
    ("edac_correctable_errors_total", _Shipped("node_memory_corrected_errors_24h")),
    (
        "edac_((dimm|csrow|channel)_)?uncorrectable_errors_total",
        _Shipped("node_memory_uncorrected_errors_24h"),
    ),
    (
        "filesystem_(avail_bytes|free_bytes|files_free)",
        _Shipped("node_filesystem_root_headroom_ratio"),
    ),
    ("DCGM_FI_DEV_GPU_UTIL", _Shipped("node_gpu_utilisation_ratio")),
    ("DCGM_FI_DEV_FB_FREE", _Shipped("node_gpu_memory_headroom_ratio")),
    ("(hwmon_temp_celsius|thermal_zone_temp)", _Shipped("node_hottest_sensor_celsius", _HIGH)),
    ("kernel_hung_tasks_total", _Shipped("node_kernel_hung_tasks_1h")),
    ("kernel_softlockup_total", _Shipped("node_kernel_softlockups_1h")),
    ("machine_check_exceptions_total", _Shipped("node_machine_check_exceptions_24h")),
    ("memory_failure_pages_total", _Shipped("node_memory_failed_pages_24h")),
    (
        "network_(receive|transmit)_(drop|dropped|fifo|missed)_total",
        _Shipped("node_network_dropped_ratio"),
    ),
    ("netstat_Tcp_RetransSegs", _Shipped("node_tcp_retransmitted_ratio")),
    ("network_receive_bytes_total", _Shipped("node_network_receive_utilisation_ratio")),
    ("network_transmit_bytes_total", _Shipped("node_network_transmit_utilisation_ratio")),
    ("network_speed_bytes", _Shipped("node_network_fastest_link_speed_bytes", _HIGH)),
    ("pcie_aer_(rootport_)?errors_total", _Shipped("node_pcie_fatal_errors_24h")),
    *(
        (f"pressure_{what}_seconds_total", _Shipped(f"node_pressure_{what}_60s_ratio"))
        for what in (
            *("cpu_waiting", "io_waiting", "io_stalled"),
            *("memory_waiting", "memory_stalled", "irq_stalled"),
        )
    ),
    ("resctrl_llc_occupancy_bytes", _Shipped("node_llc_occupancy_ratio")),
    (
        "resctrl_memory_bandwidth_bytes_total",
        _Shipped("node_memory_bandwidth_bytes_per_second"),
    ),
)
"""By regular expressions of the metric name without its prefix; the first match counts."""


def shipped(metric: str, uses: Collection[Use]) -> str:
    """Return the series of deploy/rules that replaces a metric for these uses; empty if there is none."""
    base, seeks = metric.removeprefix(PREFIX), _seeks(uses)
    for pattern, found in _SHIPPED:
        if re.fullmatch(pattern, base):
            return found.series if seeks in found.seeks else ""
    return ""


_RATES: tuple[tuple[str, Reduction], ...] = (
    (
        "cpu_seconds_total",
        Reduction("node_cpu_busy_ratio", "1 - avg{by}(rate({series}[1m]))", 'mode="idle"'),
    ),
    (
        "cpu_guest_seconds_total",
        Reduction("node_cpu_guest_ratio", "avg{by}(rate({series}[1m]))", 'mode="user"'),
    ),
    (
        "schedstat_running_seconds_total",
        Reduction("node_schedstat_running_ratio", "avg{by}(rate({series}[1m]))"),
    ),
    (
        "schedstat_waiting_seconds_total",
        Reduction("node_schedstat_waiting_ratio", "avg{by}(rate({series}[1m]))"),
    ),
)
"""CPU times, whose sum grows with the number of CPUs."""

_MATCHERS: Mapping[str, str] = {"filesystem_.*": 'fstype!="tmpfs"'}
"""Matchers that exclude irrelevant series, by regular expressions of the metric name."""

_CUMULATIVE = re.compile(
    r"vmstat_(oom_kill|pg.+|psw.+)|netstat_(?!\w*_(CurrEstab|Forwarding|MaxConn)$)\w+"
)
"""Counters of the kernel whose names do not end in `_total`."""

_TOTAL = "_total"
_SECONDS = "_seconds_total"
_WORST = {_Seeks.LOWEST: "min", _Seeks.HIGHEST: "max", _Seeks.EQUAL: "max"}


def reduction(metric: str, uses: Collection[Use]) -> Reduction:
    """Return the reduction of a metric for the first of its uses."""
    base, seeks = metric.removeprefix(PREFIX), _seeks(uses)
    for pattern, found in _RATES:
        if re.fullmatch(pattern, base):
            return found
    worst = _WORST[seeks]
    if base.endswith(_SECONDS) and base != _SECONDS:  # a share of time, of each device
        stem = metric.removesuffix(_SECONDS)
        return Reduction(f"{stem}_ratio_{worst}", f"{worst}{{by}}(rate({{series}}[1m]))")
    if is_counter(metric):
        stem = metric.removesuffix(_TOTAL)
        return Reduction(f"{stem}_per_second", "sum{by}(rate({series}[1m]))")
    matchers = next((text for key, text in _MATCHERS.items() if re.fullmatch(key, base)), "")
    if seeks is _Seeks.EQUAL:
        target = formatted(_first(uses).target)
        expression = f"sum{{by}}({{series}} == bool {target})"
        return Reduction(f"{metric}_matches", expression, matchers, counts=True)
    return Reduction(f"{metric}_{worst}", f"{worst}{{by}}({{series}})", matchers)


def is_counter(metric: str) -> bool:
    """Return whether a metric is a counter by its name: it grows until the node restarts."""
    base = metric.removeprefix(PREFIX)
    named = base.endswith(_TOTAL) and base != _TOTAL
    return named or _CUMULATIVE.fullmatch(base) is not None


def _first(uses: Collection[Use]) -> Use:
    return next(iter(uses), Use(Operator.GREATER_THAN))


def _seeks(uses: Collection[Use]) -> _Seeks:
    """Return which series decides; for a ranking it is the worst one."""
    match _first(uses):
        case Use(Operator.EQUALS, ranks=False):
            return _Seeks.EQUAL
        case Use(Operator.LESS_THAN, ranks=False) | Use(Operator.GREATER_THAN, ranks=True):
            return _Seeks.LOWEST
        case _:
            return _Seeks.HIGHEST
