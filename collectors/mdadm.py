"""Software RAID: state, disks and sync progress of each md array, from <procfs>/mdstat and <sysfs>/block."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint

_MDSTAT, _MD = "<procfs>/mdstat", "<sysfs>/block/md*/md"


def _gauge(name: str, about: str, source: str, *labels: str) -> Metric:
    return Metric(f"node_md_{name}", "gauge", about, source, ("device", *labels))


METRICS = Table(
    _gauge("state", "Indicates the state of md-device.", _MDSTAT, "state"),
    _gauge("disks", "Number of active/failed/spare disks of device.", _MDSTAT, "state"),
    _gauge("disks_required", "Total number of disks of device.", _MDSTAT),
    _gauge("blocks", "Total number of blocks on device.", _MDSTAT),
    _gauge("blocks_synced", "Number of blocks synced on device.", _MDSTAT),
    _gauge("raid_disks", "Number of raid disks on device.", f"{_MD}/raid_disks"),
    _gauge("degraded", "Number of degraded disks on device.", f"{_MD}/degraded"),
)

_STATES = ("active", "inactive", "recovering", "resync", "check")
_SYNCS = {"recovery": "recovering", "resync": "resync", "check": "check", "reshape": "reshape"}
_BLOCKS = re.compile(r"(\d+) blocks\b", re.ASCII)
_DISKS = re.compile(r"\[(\d+)/(\d+)\] \[[U_]+\]", re.ASCII)
_SYNC = re.compile(r"\b(recovery|resync|check|reshape) *=(.*)")
_PROGRESS = re.compile(r"\((\d+)/\d+\)", re.ASCII)
_OTHERS = frozenset({"Personalities", "unused"})
_DISK_COUNTS = ("node_md_disks", "node_md_disks_required")
_SIDE_BY_SIDE = frozenset({"raid0", "linear"})
_REDUNDANT = frozenset({"raid1", "raid4", "raid5", "raid6", "raid10"})


@dataclass(frozen=True, slots=True)
class Array:
    """An array in mdstat; None for what is not there."""

    name: str
    state: str
    failed: int
    spare: int
    active: int | None
    required: int | None
    blocks: int | None
    synced: int | None


def parse(text: str) -> list[Array]:
    """Return the arrays in <procfs>/mdstat: a line `md0 : active raid1 sdb1[1] sda1[0]` and its indented lines."""
    by_head: dict[str, list[str]] = {}
    rest: list[str] = []
    for line in text.splitlines():
        if line[:1].isspace():
            rest.append(line)
        elif _is_array(line):
            rest = by_head.setdefault(line, [])
        else:
            rest = []
            if line.strip() and line.split()[0] not in _OTHERS:
                guard.skip(f"mdstat: unexpected line {line[:80]!r}")
    arrays: dict[str, Array] = {}
    for head, rest in by_head.items():
        array = _array(head, rest)
        if array.active is None and not _REDUNDANT.isdisjoint(head.split()[3:5]):
            guard.skip(f"mdstat: {array.name}: no number of disks that can be read", *_DISK_COUNTS)
        if arrays.setdefault(array.name, array) is not array:
            guard.skip(f"mdstat: {array.name} appears twice")
    return list(arrays.values())


def _is_array(line: str) -> bool:
    words = line.split()
    return len(words) > 2 and words[1] == ":" and words[0] not in _OTHERS


def _array(head: str, rest: list[str]) -> Array:
    # Of an array without disks, all is on the head line.
    words, body = head.split(), "\n".join([head, *rest])
    state = words[2]
    blocks = _number(_BLOCKS, body, "node_md_blocks", "node_md_blocks_synced")
    active, required = _disks(words, body)
    synced = blocks
    if (sync := _SYNC.search(body)) is not None:
        state, synced = _SYNCS[sync.group(1)], _synced(sync.group(2))
    failed, spare = head.count("(F)"), head.count("(S)")
    return Array(words[0], state, failed, spare, active, required, blocks, synced)


def _disks(words: list[str], body: str) -> tuple[int | None, int | None]:
    """Return how many disks are active, and how many there should be."""
    if words[2] == "inactive":
        return 0, 0
    if _SIDE_BY_SIDE.intersection(words[3:5]):  # the 4th word may be `(read-only)`
        # Without redundancy all disks are present, or the array does not exist.
        count = sum("[" in word for word in words[3:])
        return count, count
    if (match := _DISKS.search(body)) is not None:
        active, required = (_count(match.group(group), *_DISK_COUNTS) for group in (2, 1))
        return active, required
    return None, None


def _synced(progress: str) -> int | None:
    """Return the synced blocks. A sync by another node of the cluster (REMOTE) has no number."""
    if "PENDING" in progress or "DELAYED" in progress:
        return 0
    return _number(_PROGRESS, progress, "node_md_blocks_synced")


def _number(pattern: re.Pattern[str], text: str, *metrics: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else _count(match.group(1), *metrics)


def _count(text: str, *metrics: str) -> int | None:
    """Return a number; None for one that is too large, without which these metrics lack a sample."""
    try:
        return parse_uint(text)
    except ValueError as error:
        guard.skip(f"mdstat: {error}", *metrics)
        return None


class MdAdm:
    """The `mdadm` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._mdstat = machine.procfs / "mdstat"
        self._devices = f"{machine.sysfs}/block"

    def collect(self) -> Iterator[Family]:
        """Read the sources now."""
        yield from families(parse(host.read(self._mdstat)))
        yield from self._disks()

    def _disks(self) -> Iterator[Family]:
        """Return what sysfs adds to mdstat."""
        disks, degraded = [], []
        for device in sysfs.listing_optional(self._devices):
            path = f"{self._devices}/{device}/md"
            if not device.startswith("md") or (level := sysfs.attribute(f"{path}/level")) is None:
                continue
            if (count := _raid_disks(sysfs.attribute(f"{path}/raid_disks") or "")) is not None:
                disks.append(((device,), count))
            missing = sysfs.number(f"{path}/degraded") if level in _REDUNDANT else 0
            if missing is not None:
                degraded.append(((device,), float(missing)))
        if disks:
            yield METRICS.family("node_md_raid_disks", disks)
        if degraded:
            yield METRICS.family("node_md_degraded", degraded)


def families(arrays: Iterable[Array]) -> Iterator[Family]:
    """Yield mdstat as families."""
    rows: dict[str, list[tuple[tuple[str, ...], float]]] = {}
    for array in arrays:
        name = array.name
        rows.setdefault("state", []).extend(
            ((name, state), float(state == array.state)) for state in _STATES
        )
        disks = {"active": array.active, "failed": array.failed, "spare": array.spare}
        for state, count in disks.items():
            if count is not None:
                rows.setdefault("disks", []).append(((name, state), float(count)))
        totals = {
            "disks_required": array.required,
            "blocks": array.blocks,
            "blocks_synced": array.synced,
        }
        for metric, total in totals.items():
            if total is not None:
                rows.setdefault(metric, []).append(((name,), float(total)))
    for metric, samples in rows.items():
        yield METRICS.family(f"node_md_{metric}", samples)


def _raid_disks(text: str) -> float | None:
    """Return the number of disks; while an array is reshaped, the new number precedes the old: `11 (10)`."""
    try:
        return float(parse_uint(text.partition(" ")[0]))
    except ValueError:
        return None


ENTRY = Entry(build=lambda host, _: MdAdm(host), metrics=METRICS, about="software RAID arrays")
