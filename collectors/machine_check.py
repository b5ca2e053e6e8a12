"""Machine checks and interrupts for hardware errors and heat: rows MCE, MCP, THR, DFR, TRM of <procfs>/interrupts."""

from collections.abc import Iterator, Mapping

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError
from collectors.shared.formats import percpu

_INTERRUPTS = "<procfs>/interrupts"


def _row(name: str, what: str) -> Metric:
    return Metric(
        f"node_machine_check_{name}_total", "counter", what, _INTERRUPTS, node_exporter=False
    )


METRICS = Table(
    _row("exceptions", "Machine check exceptions of all CPUs (MCE)."),
    _row("polls", "Times a CPU looked for machine checks that raised no exception (MCP)."),
    _row("threshold_interrupts", "Interrupts for corrected errors above a threshold (THR)."),
    _row("deferred_error_interrupts", "Interrupts for deferred errors, of AMD's CPUs (DFR)."),
    _row("thermal_interrupts", "Interrupts for thermal events of all CPUs (TRM)."),
)
_METRIC_OF = {
    "MCE": "node_machine_check_exceptions_total",
    "MCP": "node_machine_check_polls_total",
    "THR": "node_machine_check_threshold_interrupts_total",
    "DFR": "node_machine_check_deferred_error_interrupts_total",
    "TRM": "node_machine_check_thermal_interrupts_total",
}

Counts = Mapping[str, int]
"""Count by CPU."""


def parse(text: str) -> dict[str, Counts]:
    """Return the counts of each row. Rows that the architecture lacks are omitted."""
    header, _, body = text.partition("\n")
    lines = [line for name in _METRIC_OF if (line := _line(body, name)) is not None]
    cpus, rows = percpu.split("interrupts", "\n".join([header, *lines]))
    by_name: dict[str, Counts] = {}
    for name, cells in rows:
        if len(cells) < len(cpus):
            guard.skip(
                f"interrupts: {name} has {len(cells)} counts, of {len(cpus)} CPUs", _METRIC_OF[name]
            )
            continue
        counts = zip(cpus, percpu.counts("interrupts", name, cells[: len(cpus)]), strict=True)
        # Of a CPU whose count cannot be read, the last one counts, as of an offline CPU.
        by_name[name] = {cpu: count for cpu, count in counts if count is not None}
    if lines and not any(by_name.values()):
        raise CollectorError("interrupts: no count of machine checks that can be read")
    return by_name


def _line(body: str, name: str) -> str | None:
    """Return a row's line without splitting the thousands of lines before it on machines with many CPUs."""
    at = body.find(f"{name}:")
    while at >= 0:
        begin = body.rfind("\n", 0, at) + 1
        if not body[begin:at].strip(" "):
            end = body.find("\n", at)
            return body[begin:] if end < 0 else body[begin:end]
        at = body.find(f"{name}:", at + 1)
    return None


class MachineCheck:
    """The `machine_check` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "interrupts"
        self._counts: dict[str, dict[str, int]] = {}
        self._absent = False

    def collect(self) -> Iterator[Family]:
        """Read the source. Only x86 has these rows; a kernel that lacks them never gets them."""
        if self._absent:
            raise SourceAbsentError(f"{self._path}: no row of machine checks")
        rows = parse(host.read(self._path))
        if not rows:
            self._absent = True
            raise SourceAbsentError(f"{self._path}: no row of machine checks")
        for name, counts in rows.items():
            # An offline CPU has no column; without its last count the sum would drop.
            known = self._counts.setdefault(name, {})
            known.update(counts)
            if known:
                yield METRICS.single(_METRIC_OF[name], sum(known.values()))


ENTRY = Entry(
    optional=True,
    build=lambda host, _: MachineCheck(host),
    metrics=METRICS,
    about="machine checks and their interrupts",
)
