"""State and mitigation of known CPU vulnerabilities, from <sysfs>/devices/system/cpu/vulnerabilities."""

from collections.abc import Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared import sysfs

METRICS = Table(
    Metric(
        "node_cpu_vulnerabilities_info",
        "gauge",
        "Details of each CPU vulnerability reported by sysfs. The value of the series is an int encoded state of the "
        "vulnerability. The same state is stored as a string in the label",
        "<sysfs>/devices/system/cpu/vulnerabilities/*",
        ("codename", "state", "mitigation"),
    )
)

_STATES = ("not affected", "vulnerable", "mitigation", "unknown")


def parse(text: str) -> tuple[str, str]:
    """Return state and mitigation: the text after `Mitigation:` or `Vulnerable:`; the whole text otherwise."""
    text = text.strip()
    for state in _STATES:
        if text.lower().startswith(state):
            return state, "" if state == "not affected" else " ".join(text.split()[1:])
    return "unknown", text


class CpuVulnerabilities:
    """The `cpu_vulnerabilities` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = f"{machine.sysfs}/devices/system/cpu/vulnerabilities"

    def collect(self) -> Iterator[Family]:
        """Read the source: the state can change at run time, with SMT or new microcode."""
        texts = {
            name: text
            for name in sysfs.listing(self._directory)
            if (text := sysfs.attribute(f"{self._directory}/{name}")) is not None
        }
        if not texts:
            raise CollectorError(f"{self._directory}: nothing in it can be read")
        rows = (((name, *parse(text)), 1.0) for name, text in texts.items())
        yield METRICS.family("node_cpu_vulnerabilities_info", rows)


ENTRY = Entry(
    build=lambda host, _: CpuVulnerabilities(host),
    metrics=METRICS,
    about="known vulnerabilities of the CPU and their mitigations",
    on=False,
)
