"""Number of cgroups per controller and whether it is enabled, from <procfs>/cgroups."""

from collections.abc import Iterator

from collectors.interface import guard, host
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
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for name, number, state in guard.readable(lines, _controller):
        cgroups[name,], enabled[name,] = number, state
    if not cgroups:
        raise CollectorError("cgroups: no controller in it")
    yield METRICS.family("node_cgroups_cgroups", cgroups.items())
    yield METRICS.family("node_cgroups_enabled", enabled.items())


def _controller(line: str) -> tuple[str, int, int]:
    """Return name, number of cgroups and state of a controller."""
    match line.split():
        case [name, _, number, state]:
            try:
                return name, parse_uint(number), parse_uint(state)
            except ValueError as error:
                raise CollectorError(f"cgroups: {name[:40]}: {error}") from error
        case _:
            pass
    raise CollectorError(f"cgroups: unexpected line {line[:80]!r}")


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
