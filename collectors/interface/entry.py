"""What a collector's module declares of itself, as `ENTRY`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from collectors.interface.host import Host
from collectors.interface.metric import Table
from collectors.interface.sample import Collector


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Options of a collector without flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A collector: how to make it, its metrics and its flags. After a change, run `make docs`."""

    build: Callable[[Host, Any], Collector]
    """Called with the host and an instance of `options`."""
    metrics: Table
    about: str
    """What it exports, in a phrase for --help and the docs."""
    on: bool = True
    """Whether it runs without its flag."""
    options: type[Any] = NoOptions
    """The dataclass of its flags."""
    source: str = ""
    """A path that exists only on machines with its source; until then its module is not imported, to save memory.

    It begins with `<procfs>`, `<sysfs>` or `<net>`, the network's directory in procfs: `<sysfs>/fs/bcache`.
    """
    needs: str = ""
    """What it needs beside its source, for the docs."""
    open_ended: bool = False
    """Whether it can yield metrics of any name, beside those in its table."""
    optional: bool = False
    """Whether its run succeeds on machines without its source: as in node_exporter, or because only this agent has it."""
    slow: bool = False
    """Whether it costs much and its values rarely change: rules evaluated every second reuse them for some seconds."""
