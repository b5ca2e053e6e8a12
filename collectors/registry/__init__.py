"""The registry of all collectors: what is in the folder `collectors`, with flags, defaults and metrics.

Only this package imports collectors, by name and when they are used; `index` says how it knows the others.
"""

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import collectors
from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric
from collectors.interface.sample import Collector
from collectors.registry import index
from collectors.registry.registered import Registered, load

_OTHERS = frozenset({"interface", "registry", "shared"})
_KEPT = 1 << 12  # cached names; policies and rules use the same ones repeatedly


def available() -> list[str]:
    """Return the names of all collectors: the modules and folders beside this package."""
    return sorted({module.name for module in pkgutil.iter_modules(collectors.__path__)} - _OTHERS)


def _order(item: tuple[str, Entry | Registered]) -> tuple[bool, bool, str]:
    """Return the key of the order in which collectors run.

    If two export the same series the first one's is kept, so open-ended collectors come last, opt-in ones after the others.
    """
    name, entry = item
    return entry.open_ended, entry.open_ended and not entry.on, name


COLLECTORS: Mapping[str, Registered] = dict(
    sorted(((entry.name, entry) for entry in index.registered(available())), key=_order)
)
"""All collectors by name, in the order in which they run."""


def entries() -> Mapping[str, Entry]:
    """Return what the modules of all collectors declare, in the same order. Imports them all."""
    return dict(sorted(((name, load(name)) for name in available()), key=_order))


def build(host: Host, chosen: Mapping[str, Any]) -> dict[str, Collector]:
    """Return the enabled collectors by name, in the table's order; `chosen` has the options of each."""
    return {
        name: entry.build(host, chosen[name])
        for name, entry in COLLECTORS.items()
        if name in chosen
    }


def metrics() -> Iterator[tuple[str, Metric]]:
    """Yield (collector, metric) in the order of the registry and of each table. Imports all collectors."""
    for name, entry in entries().items():
        for metric in entry.metrics:
            yield name, metric


@lru_cache(_KEPT)
def collectors_of(metric: str) -> frozenset[str]:
    """Return the collectors that can yield a series of this name."""
    return frozenset(name for name, entry in COLLECTORS.items() if entry.can_yield(metric))


def slow(names: Iterable[str]) -> frozenset[str]:
    """Return those of these collectors whose values rules may reuse for some seconds."""
    return frozenset(name for name in names if COLLECTORS[name].slow)
