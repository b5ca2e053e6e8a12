"""Available entropy and pool size of the kernel's random number generator, from <procfs>/sys/kernel/random."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint

_SOURCE = "<procfs>/sys/kernel/random"
METRICS = Table(
    Metric(
        "node_entropy_available_bits",
        "gauge",
        "Bits of available entropy.",
        f"{_SOURCE}/entropy_avail",
        unit="bits",
    ),
    Metric(
        "node_entropy_pool_size_bits",
        "gauge",
        "Bits of entropy pool.",
        f"{_SOURCE}/poolsize",
        unit="bits",
    ),
)

_FILES = {
    "entropy_avail": "node_entropy_available_bits",
    "poolsize": "node_entropy_pool_size_bits",
}


def parse(name: str, text: str) -> int:
    """Return the number in one of the files."""
    try:
        return parse_uint(text.strip())
    except ValueError as error:
        raise CollectorError(f"random/{name}: {error}") from error


class Entropy:
    """The `entropy` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.procfs / "sys/kernel/random"

    def collect(self) -> Iterator[Family]:
        """Read the sources now."""
        for name, text in host.read_each(self._directory, tuple(_FILES)).items():
            try:
                yield METRICS.single(_FILES[name], parse(name, text))
            except CollectorError as error:
                guard.skip(error, _FILES[name])


ENTRY = Entry(build=lambda host, _: Entropy(host), metrics=METRICS, about="available entropy")
