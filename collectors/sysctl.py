"""Kernel parameters chosen by flags, from <procfs>/sys.

Those of the network are the agent's own: they belong to the network namespace of the reader.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_int
from plimsoll.flags import option

METRICS = Table(
    Metric(
        "node_sysctl_info", "gauge", "sysctl info", "<procfs>/sys/*", ("name", "value", "index")
    ),
    Metric("node_sysctl_<name>", "untyped", "sysctl <name>", "<procfs>/sys/*", ("index",)),
)


_SYSCTL = re.compile(r"[^\s:]+(?::[^\s:]*)?")


def _sysctl(text: str) -> str:
    if _SYSCTL.fullmatch(text) is None:
        raise ValueError(f"not a kernel parameter: {text!r} (write it like vm.swappiness)")
    return text


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    sysctl_include: tuple[str, ...] = option(
        "collector.sysctl.include",
        (),
        "kernel parameter with numbers to export, such as vm.swappiness or fs.file-nr:total,current,max (repeatable)",
        metavar="NAME",
        parse=_sysctl,
    )
    sysctl_include_info: tuple[str, ...] = option(
        "collector.sysctl.include-info",
        (),
        "kernel parameter to export as text (repeatable)",
        metavar="NAME",
        parse=_sysctl,
    )


_UNUSUAL = re.compile(r"_*[^a-zA-Z0-9_]+_*")


def families(include: str, text: str) -> Iterator[Family]:
    """Yield the values of a parameter with numbers: one, one per index, or one per name in `fs.file-nr:total,current,max`."""
    name, named, names = include.partition(":")
    keys = names.split(",") if named else []
    metric = f"node_sysctl_{_UNUSUAL.sub('_', name)}"
    try:
        values = [float(parse_int(word)) for word in text.split()]
    except ValueError as error:
        raise CollectorError(
            f"sysctl {name}: {error}; --collector.sysctl.include-info exports text"
        ) from error
    if not values or (keys and (len(keys) != len(values) or len(values) == 1)):
        raise CollectorError(f"sysctl {name}: {len(values)} numbers for {len(keys)} names")
    if keys:
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            about = f"sysctl {name}, field {index}"
            yield replace(
                METRICS.partial(f"{metric}_{_UNUSUAL.sub('_', key)}", [({}, value)]), help=about
            )
        return
    single = len(values) == 1
    rows = (({} if single else {"index": str(i)}, value) for i, value in enumerate(values))
    yield replace(METRICS.partial(metric, rows), help=f"sysctl {name}")


class Sysctl:
    """The `sysctl` collector."""

    def __init__(self, machine: host.Host, options: Options) -> None:
        self._root = machine.procfs / "sys"
        self._numeric = dict.fromkeys(options.sysctl_include)
        self._texts = dict.fromkeys(options.sysctl_include_info)

    @guard.some
    def collect(self) -> Iterator[Family]:
        """Read the sources. A parameter that does not exist counts as left out, since it was asked for."""
        for include in self._numeric:
            try:
                yield from families(include, self._read(include.partition(":")[0]))
            except CollectorError as error:
                guard.skip(error)
        info: list[tuple[tuple[str, str, str], float]] = []
        for name in self._texts:
            try:
                words = self._read(name).split()
            except CollectorError as error:
                guard.skip(error)
                continue
            info += [((name, word, str(index)), 1.0) for index, word in enumerate(words)]
        if info:
            yield METRICS.family("node_sysctl_info", info)

    def _read(self, name: str) -> str:
        text = host.read_optional(self._root / name.replace(".", "/").strip("/"))
        if text is None:
            raise CollectorError(f"sysctl {name}: this kernel has no such parameter")
        return text


ENTRY = Entry(
    build=Sysctl,
    metrics=METRICS,
    about="chosen kernel parameters",
    on=False,
    options=Options,
    needs="hostNetwork for net.*",
)
