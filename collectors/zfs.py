"""ZFS: caches, transactions and pools, from <procfs>/spl/kstat/zfs (kernel statistics of OpenZFS)."""

import re
from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_int

_KSTAT = "<procfs>/spl/kstat/zfs"
# File, and the metrics' name after node_zfs_
_FILES = {
    "abdstats": "abd",
    "arcstats": "arc",
    "dbufstats": "dbuf",
    "dmu_tx": "dmu_tx",
    "dnodestats": "dnode",
    "fm": "fm",
    "vdev_cache_stats": "vdev_cache",
    "vdev_mirror_stats": "vdev_mirror",
    "xuio_stats": "xuio",
    "zfetchstats": "zfetch",
    "zil": "zil",
}
_STATES = ("online", "degraded", "faulted", "offline", "removed", "unavail", "suspended")
_OF_DATASET = ("zpool", "dataset")
METRICS = Table(
    *(
        Metric(
            f"node_zfs_{name}_<field>",
            "untyped",
            f"kstat.zfs.misc.{file}.<field>",
            f"{_KSTAT}/{file}",
        )
        for file, name in _FILES.items()
    ),
    Metric(
        "node_zfs_zpool_state",
        "gauge",
        "kstat.zfs.misc.state",
        f"{_KSTAT}/<pool>/state",
        ("zpool", "state"),
    ),
    Metric(
        "node_zfs_zpool_dataset_<field>",
        "untyped",
        "kstat.zfs.misc.objset.<field>",
        f"{_KSTAT}/<pool>/objset-*",
        _OF_DATASET,
    ),
    Metric(
        "node_zfs_zpool_<field>",
        "untyped",
        "kstat.zfs.misc.io.<field>",
        f"{_KSTAT}/<pool>/io",
        ("zpool",),
    ),
)
_HEAD = ["name", "type", "data"]
_INTEGERS = frozenset({"3", "4"})  # KSTAT_DATA_INT64 and _UINT64
_UNUSUAL = re.compile(r"[^a-zA-Z0-9_]")


@guard.some
def parse_named(source: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield names and data of integers, and `dataset_name`, from a file of lines `name type data`."""
    has_head = False
    for line in text.splitlines():
        words = line.split(None, 2)
        if not has_head:
            has_head = words == _HEAD
        elif len(words) == len(_HEAD) and (words[1] in _INTEGERS or words[0] == "dataset_name"):
            yield _UNUSUAL.sub("_", words[0]), words[2].strip()
    if not has_head:
        raise CollectorError(f"zfs: {source}: no line `name type data`")


@guard.some
def parse_io(text: str) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a pool's file `io`: a line of names, and a line of values."""
    names: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["nread"]:
            names = words
        elif names:
            for name, word in zip(names, words, strict=False):
                if (value := _number("io", name, word)) is not None:
                    yield _UNUSUAL.sub("_", name), value


def _number(source: str, name: str, text: str) -> float | None:
    try:
        return float(parse_int(text))
    except ValueError as error:
        guard.skip(f"zfs: {source}: {name[:40]} {error}")
        return None


class Zfs:
    """The `zfs` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.procfs / "spl/kstat/zfs"

    def collect(self) -> Iterator[Family]:
        """Read the sources; which exist depends on the version. A pool may be exported in between."""
        rows: dict[str, dict[tuple[str, ...], float]] = {}
        for entry in sysfs.listing(self._directory):
            if entry in _FILES:
                text = host.read_guarded(self._directory / entry)
                numbers = _numbers(entry, text)
                prefix, labels = f"node_zfs_{_FILES[entry]}", ()
                for name, value in numbers:
                    rows.setdefault(f"{prefix}_{name}", {})[labels] = value
            else:
                for name, key, value in self._pool(entry):
                    rows.setdefault(name, {})[key] = value
        for name, values in rows.items():
            yield METRICS.family(name, values.items())

    def _pool(self, pool: str) -> Iterator[tuple[str, tuple[str, ...], float]]:
        directory = self._directory / pool
        for name, value in guard.attempt(parse_io(host.read_guarded(directory / "io") or "")):
            yield f"node_zfs_zpool_{name}", (pool,), value
        state = (host.read_guarded(directory / "state") or "").strip().lower()
        for known in _STATES if state else ():
            yield "node_zfs_zpool_state", (pool, known), float(known == state)
        for entry in sysfs.listing_optional(directory):
            if entry.startswith("objset-"):
                named = dict(_named(entry, host.read_guarded(directory / entry)))
                dataset = named.pop("dataset_name", "")
                for name, text in named.items() if dataset else ():
                    key = pool, dataset
                    if (number := _number(entry, name, text)) is not None:
                        yield f"node_zfs_zpool_dataset_{name}", key, number


def _named(source: str, text: str | None) -> Iterator[tuple[str, str]]:
    return iter(()) if text is None else guard.attempt(parse_named(source, text))


def _numbers(source: str, text: str | None) -> Iterator[tuple[str, float]]:
    for name, data in _named(source, text):
        if (value := _number(source, name, data)) is not None:
            yield name, value


ENTRY = Entry(
    build=lambda host, _: Zfs(host),
    metrics=METRICS,
    about="ZFS: caches, transactions and pools",
    source="<procfs>/spl/kstat/zfs",
)
