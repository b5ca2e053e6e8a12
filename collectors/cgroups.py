"""Number of cgroups per controller and whether it is enabled, from <procfs>/cgroups."""

from collections.abc import Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint

_SOURCE = "<procfs>/cgroups"
# The same HELP as in node_exporter, so that a scrape of both agrees.
_HELP = "Current cgroup number of the subsystem."
METRICS = Table(
    Metric("node_cgroups_cgroups", "gauge", _HELP, _SOURCE, ("subsys_name",)),
    Metric("node_cgroups_enabled", "gauge", _HELP, _SOURCE, ("subsys_name",)),
)


def parse(text: str) -> Iterator[Family]:
    """Return number and state of each controller."""
    cgroups: dict[tuple[str], float] = {}
    enabled: dict[tuple[str], float] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        match line.split():
            case [name, _, number, state]:
                cgroups[name,], enabled[name,] = _numbers(name, number, state)
            case _:
                raise CollectorError(f"cgroups: unexpected line {line[:80]!r}")
    if not cgroups:
        raise CollectorError("cgroups: no controller in it")
    yield METRICS.family("node_cgroups_cgroups", cgroups.items())
    yield METRICS.family("node_cgroups_enabled", enabled.items())


def _numbers(name: str, number: str, state: str) -> tuple[int, int]:
    try:
        return parse_uint(number), parse_uint(state)
    except ValueError as error:
        raise CollectorError(f"cgroups: {name[:40]}: {error}") from error


class Cgroups:
    """The `cgroups` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "cgroups"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(
    build=lambda host, _: Cgroups(host),
    metrics=METRICS,
    about="the number of cgroups by controller",
    on=False,
)
