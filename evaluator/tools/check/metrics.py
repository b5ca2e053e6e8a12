"""Warnings about the metrics that a policy names: misspelt, with several series, counters, or never in the target's range."""

import math
import re
from collections.abc import Collection, Iterator

from evaluator.core.catalog import Catalog, CatalogEntry, near_names, nearest, similar
from evaluator.core.policy import hints
from evaluator.core.policy.hints import aggregation_hint
from evaluator.core.policy.reductions import Use, uses_of
from evaluator.core.policy.types import Operator, Policy, Rule, formatted
from evaluator.core.readings import node_conditions
from evaluator.core.readings.peer_metrics import PeerKind
from evaluator.core.readings.peers import MOST_DEVIATION
from evaluator.tools.check.produced import OF_KUBERNETES, OF_MONITORS, OF_PLUGINS
from plimsoll.metric_names import PREFIX, spellings
from plimsoll.text import NearNames

_CONDITIONS = [*map(node_conditions.metric_of, OF_KUBERNETES | OF_MONITORS | OF_PLUGINS)]
"""Conditions of Kubernetes and node-problem-detector."""
_SAME = 0.9
"""difflib's ratio of a condition's metric with a typing error."""
_LOAD = re.compile(
    "load(1|5|15)|procs_.*|pressure_.*|psi_.*|schedstat_.*|context_switches_.*|forks_.*|intr_.*|interrupts_.*"
    "|cpu_(?!.*(throttle|frequency|scaling|temp)).*|hottest_sensor_celsius|memory_(?!.*(error|fail|corrected)).*|softnet_.*"
    "|(disk_io|disk_utilisation|gpu_utilisation|network_(receive|transmit)(_bytes|_packets|_utilisation)|filesystem_|vmstat_).*"
)
"""Metrics of load and use, without their prefix: they differ between healthy nodes."""
_MEMINFO_FIELDS = (
    "MemTotal MemFree MemAvailable Buffers Cached SwapCached Active Inactive Active_anon Inactive_anon Active_file "
    "Inactive_file Unevictable Mlocked SwapTotal SwapFree Zswap Zswapped Dirty Writeback AnonPages Mapped Shmem KReclaimable "
    "Slab SReclaimable SUnreclaim KernelStack PageTables SecPageTables NFS_Unstable Bounce WritebackTmp CommitLimit "
    "Committed_AS VmallocTotal VmallocUsed VmallocChunk Percpu HardwareCorrupted AnonHugePages ShmemHugePages "
    "ShmemPmdMapped FileHugePages FilePmdMapped CmaTotal CmaFree Unaccepted Balloon Hugepagesize Hugetlb DirectMap4k "
    "DirectMap2M DirectMap1G"
)
"""Fields of /proc/meminfo in kB, by proc_meminfo(5)."""
_MEMINFO = frozenset(
    (
        *(f"memory_{field}_bytes" for field in _MEMINFO_FIELDS.split()),
        *(f"memory_HugePages_{field}" for field in ("Total", "Free", "Rsvd", "Surp")),
    )
)
_SMALLEST = 1024
"""A target in bytes below it is probably without its unit."""


def warnings(
    policy: Policy,
    catalog: Catalog,
    recorded: Collection[str] = (),
    known: Collection[str] = (),
) -> Iterator[str]:
    """Yield warnings, by the catalog of shipped metrics.

    `recorded` are the series of given recording rules. Whether `known` metrics exist, and their number of series, is known.
    """
    of_counters = hints.counter_warnings(policy)
    for metric in sorted(policy.measured_metrics):
        if metric.startswith(node_conditions.PREFIX):
            yield from _condition(metric) if metric not in known else ()
            continue
        if not {*spellings(metric)}.isdisjoint(recorded):
            continue
        entry = catalog.find(metric)
        if entry is not None and entry.several and metric not in known:
            yield _several(metric, entry, uses_of(policy, metric))
        elif metric in of_counters:
            yield of_counters[metric]
        if entry is None and metric not in known:
            yield from _unknown(metric, catalog, recorded)
    yield from _targets(policy, catalog, recorded)


def not_shipped(
    policy: Policy,
    catalog: Catalog,
    recorded: Collection[str] = (),
    known: Collection[str] = (),
) -> Iterator[str]:
    """Yield a note on each metric that no shipped collector or rule exports, and that no warning names.

    Arguments are those of `warnings`.
    """
    for metric in sorted(policy.measured_metrics - frozenset(known)):
        condition = metric.startswith(node_conditions.PREFIX)
        if condition or not {*spellings(metric)}.isdisjoint(recorded):
            continue
        if catalog.find(metric) or any(_unknown(metric, catalog, recorded)):
            continue
        if of_kernel := catalog.possible(metric):
            if metric.removeprefix(PREFIX) not in _MEMINFO:
                yield f"not certain: {of_kernel.origin} exports {metric} only where the kernel or a device has it"
        else:
            yield (
                f"not shipped: no collector or rule of Plimsoll exports {metric}: a text file, a recording rule or another source "
                "of yours has to"
            )


def _targets(policy: Policy, catalog: Catalog, recorded: Collection[str]) -> Iterator[str]:
    for name, strategy in policy.strategies.items():
        if not name.row.ranks:
            for number, rule in enumerate(strategy.rules, start=1):
                yield from (f"{name}: rule {number}: {x}" for x in _target(rule, catalog, recorded))


def _condition(metric: str) -> Iterator[str]:
    """Yield a warning if the metric of a node's condition is probably misspelt."""
    if metric not in _CONDITIONS and (near := NearNames(_CONDITIONS).find(metric, 1, _SAME)):
        yield f"{metric} is no usual condition of a node; similar: {near[0]}"


def _unknown(metric: str, catalog: Catalog, recorded: Collection[str]) -> Iterator[str]:
    """Yield a warning if the metric is probably misspelt. Others may come from text files or rules of the operator."""
    bare = metric.removeprefix(PREFIX)
    if bare in _MEMINFO:
        return
    near = [*similar(metric, near_names(recorded)), *catalog.similar(metric)]
    if bare.startswith("memory_"):
        near += similar(metric, NearNames(_MEMINFO), 2)
    if near := nearest(metric, near):
        yield (
            f"no shipped metric or rule is named {metric}; similar: {', '.join(near)}. Ignore this if a text file or a "
            "recording rule of yours exports it"
        )


def _several(metric: str, entry: CatalogEntry, uses: tuple[Use, ...]) -> str:
    """Return the warning about a metric that can have several series; of a counter, the advice has its rate."""
    return (
        f"{metric} can have several series on a node, by {' and '.join(entry.labels[:3])}, and then counts as missing: "
        f"{aggregation_hint(metric, '', uses)}"
    )


def _target(rule: Rule, catalog: Catalog, recorded: Collection[str]) -> Iterator[str]:
    metric, target = rule.metric, rule.target
    if rule.peers:
        yield from _compared_with_peers(rule)
    if not {*spellings(metric)}.isdisjoint(recorded):
        return
    entry = catalog.find(metric)
    low, high = _range(rule, entry)
    if problem := _out_of_range(rule, low, high):
        percentage = high == 1 and 1 < target <= 100
        meant = f": write {formatted(target / 100)} for {_number(target)} %" if percentage else ""
        yield f"{metric} is between {_number(low)} and {_number(high)}, so {problem}{meant}"
    in_bytes = entry is not None and entry.unit == "bytes" and entry.type == "gauge"
    if in_bytes and 0 < target < _SMALLEST and target == math.floor(target):
        amount = _number(target)
        yield f"{metric} is in bytes, and the target is {amount} of them: write {amount}Gi or {amount}Mi for a larger unit"


def _compared_with_peers(rule: Rule) -> Iterator[str]:
    """Yield warnings about a rule on a peer metric."""
    if _LOAD.fullmatch(rule.base.removeprefix(PREFIX)):
        yield (
            f"{rule.base} depends on what runs on a node, so healthy nodes differ from their peers: compare what the hardware "
            "does, such as latency, errors, clock or temperature (docs/peers.md)"
        )
    if not rule.options.for_seconds:
        yield f"{rule.metric} without `for`: one reading that differs is noise; a fault lasts: write for: 5m"
    if rule.operator is Operator.EQUALS:
        yield f"{rule.metric} is a fraction that hardly ever equals its target: write GreaterThan or LessThan"


def _range(rule: Rule, entry: CatalogEntry | None) -> tuple[float, float]:
    if rule.peers:
        high = MOST_DEVIATION if rule.peers.kind is PeerKind.DEVIATION else math.inf
        return -high, high
    if rule.per_pod or rule.metric.startswith(node_conditions.PREFIX):
        return 0.0, 1.0
    return entry.range if entry else (-math.inf, math.inf)


def _out_of_range(rule: Rule, low: float, high: float) -> str:
    """Return what is wrong with a rule whose metric is always within these bounds; empty if nothing is."""
    target, text = rule.target, f"{rule.operator} {rule.written or _number(rule.target)}"
    match rule.operator:
        case Operator.GREATER_THAN:
            never, always = target >= high, target < low
        case Operator.LESS_THAN:
            never, always = target <= low, target > high
        case _:
            never, always = not low <= target <= high, False
    return f"{text} is never true" if never else f"{text} is always true" if always else ""


def _number(value: float) -> str:
    return formatted(value)
