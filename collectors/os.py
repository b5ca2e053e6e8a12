"""Distribution, version and end of support, from <rootfs>/etc/os-release."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import CollectorError, Family, SourceAbsentError

_SOURCE = "<rootfs>/etc/os-release, else <rootfs>/usr/lib/os-release"
_INFO = (
    "build_id", "id", "id_like", "image_id", "image_version", "name", "pretty_name", "variant", "variant_id", "version",
    "version_codename", "version_id",
)  # fmt: skip
METRICS = Table(
    Metric(
        "node_os_info",
        "gauge",
        f"A metric with a constant '1' value labeled by {', '.join(_INFO)}.",
        _SOURCE,
        _INFO,
    ),
    Metric(
        "node_os_version",
        "gauge",
        "Metric containing the major.minor part of the OS version.",
        _SOURCE,
        ("id", "id_like", "name"),
    ),
    Metric(
        "node_os_support_end_timestamp_seconds",
        "gauge",
        "Metric containing the end-of-life date timestamp of the OS.",
        _SOURCE,
        unit="seconds",
    ),
)

_SUPPORT_END = "node_os_support_end_timestamp_seconds"
_FILES = ("etc/os-release", "usr/lib/os-release")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAJOR_MINOR = re.compile(r"[0-9]{1,15}(?:\.[0-9]{0,15})?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_ESCAPED = re.compile(r'\\([\\"$`])')


def parse(text: str) -> dict[str, str]:
    """Parse an os-release file: shell assignments, of which only quotes are interpreted."""
    lines = map(str.strip, text.splitlines())
    assignments = [line for line in lines if line and not line.startswith("#")]
    return dict(guard.readable(assignments, _assignment))


def _assignment(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals or _NAME.fullmatch(name) is None:
        raise CollectorError(f"os-release: not an assignment: {line[:80]!r}")
    return name, _unquoted(value)


def _unquoted(value: str) -> str:
    quote = value[:1]
    if quote not in {'"', "'"}:
        return value
    if len(value) == 1 or not value.endswith(quote):
        raise CollectorError(f"os-release: no end of the quoted {value[:80]!r}")
    inside = value[1:-1]
    return inside if quote == "'" else _ESCAPED.sub(r"\1", inside)


def families(release: Mapping[str, str]) -> Iterator[Family]:
    """Yield the families. A distribution without versions, like Arch, has no node_os_version."""
    words = {name: release.get(name.upper(), "") for name in _INFO}
    yield METRICS.family("node_os_info", [(list(words.values()), 1.0)])
    if (match := _MAJOR_MINOR.match(words["version_id"])) and float(match.group()) > 0:
        labels = words["id"], words["id_like"], words["name"]
        yield METRICS.family("node_os_version", [(labels, float(match.group()))])
    if end := release.get("SUPPORT_END"):
        try:
            yield METRICS.single(_SUPPORT_END, _midnight(end))
        except CollectorError as error:
            guard.skip(error, _SUPPORT_END)


def _midnight(date: str) -> float:
    try:
        if _DATE.fullmatch(date) is None:
            raise ValueError("it has to look like 2026-06-30")
        return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise CollectorError(f"os-release: SUPPORT_END={date[:40]!r}: {error}") from error


class Os:
    """The `os` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._paths = [machine.rootfs / file for file in _FILES]
        self._text: str | None = None
        self._families: tuple[Family, ...] = ()

    def collect(self) -> tuple[Family, ...]:
        """Read the source; it is parsed again only after it has changed."""
        text = self._read()
        if text != self._text:
            skipped = guard.skipped()
            self._families = tuple(families(parse(text)))
            self._text = text if guard.skipped() == skipped else None
        return self._families

    def _read(self) -> str:
        for path in self._paths:
            if (text := host.read_optional(path)) is not None:
                return text
        raise SourceAbsentError(f"neither {self._paths[0]} nor {self._paths[1]}")


ENTRY = Entry(
    build=lambda host, _: Os(host), metrics=METRICS, about="the distribution and its version"
)
