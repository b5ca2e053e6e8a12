"""Open files of the whole machine and their limit, from <procfs>/sys/fs/file-nr."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family
from collectors.shared.formats.numerals import parse_uint

_SOURCE = "<procfs>/sys/fs/file-nr"
METRICS = Table(
    Metric("node_filefd_allocated", "gauge", "File descriptor statistics: allocated.", _SOURCE),
    Metric("node_filefd_maximum", "gauge", "File descriptor statistics: maximum.", _SOURCE),
)


_FIELDS = 3


@guard.some
def parse(text: str) -> Iterator[Family]:
    """Return allocated and maximum; the number between them has been 0 since Linux 2.6."""
    fields = text.partition("\n")[0].split()
    if len(fields) != _FIELDS:
        raise CollectorError(f"file-nr: three numbers expected, got {text[:80]!r}")
    for name, field in (("node_filefd_allocated", fields[0]), ("node_filefd_maximum", fields[2])):
        try:
            yield METRICS.single(name, parse_uint(field))
        except ValueError as error:
            guard.skip(f"file-nr: {error}", name)


class FileFd:
    """The `filefd` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._path = machine.procfs / "sys/fs/file-nr"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        return parse(host.read(self._path))


ENTRY = Entry(build=lambda host, _: FileFd(host), metrics=METRICS, about="file descriptors in use")
