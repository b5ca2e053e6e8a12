"""`plimsoll check-problems`: checks configurations of node-problem-detector's monitors, and which rules match a log."""

import argparse
import contextlib
import glob
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from collectors.shared.problems import monitors
from collectors.shared.problems.filelines import LineFormat, decoded
from collectors.shared.problems.matching import LineMatcher, Match
from collectors.shared.problems.monitors import Monitor, MonitorError
from plimsoll.commandline import Parser
from plimsoll.kernellog import records
from plimsoll.kernellog.records import RecordError
from plimsoll.text import counted, one_line

PROGRAM = "plimsoll check-problems"
_ABOUT = """
Checks configurations of node-problem-detector as the agent reads them (--problems.config), and prints what is wrong. With --log, it
also prints which lines of a file their rules match, by the pluginConfig and skipList of each, and which lines do not fit: status 1
if none does.
"""
_EXAMPLES = """
examples:
  plimsoll check-problems config/kernel-monitor.json
      config/kernel-monitor.json: kmsg, 14 rules, conditions KernelDeadlock
  dmesg --notime > lines && plimsoll check-problems --log=lines config/*.json
      lines:7: TaskHung (temporary, kernel-monitor.json): task jbd2:412 blocked
"""


def main(arguments: Sequence[str]) -> int:
    """Check files. Returns the exit status: 1 if one cannot be used."""
    parser = Parser(PROGRAM, about=_ABOUT, examples=_EXAMPLES, usage=f"{PROGRAM} [flags] FILE...")
    parser.add_argument("--log", type=Path, metavar="FILE", help="lines to match, as in the log")
    parser.add_argument("files", nargs="+", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    usable, failed = [], False
    for path in _paths(options.files):
        try:
            with path.open("rb") as file:
                text = file.read(monitors.LARGEST).decode("utf-8", "replace")
            monitor = monitors.parse(text, str(path))
        except OSError as error:
            _print(f"{path}: {error.strerror}", error=True)
            failed = True
        except MonitorError as error:
            _print(str(error), error=True)
            failed = True
        else:
            usable.append(monitor)
            _print(f"{path}: {_summary(monitor)}")
    if options.log is not None:
        failed |= not _match(options.log, usable)
    return int(failed)


def _paths(patterns: Sequence[str]) -> Iterator[Path]:
    for pattern in patterns:
        found = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else []  # noqa: PTH207
        yield from map(Path, found or [pattern])


def _summary(monitor: Monitor) -> str:
    types = ", ".join(condition.type for condition in monitor.conditions)
    end = f", conditions {types}" if types else ""
    return f"{monitor.plugin}, {counted(len(monitor.rules), 'rule')}{end}"


class _MonitorLog:
    """Reads the lines of a log as the agent does for one monitor."""

    def __init__(self, monitor: Monitor) -> None:
        self.monitor = monitor
        self._matcher = LineMatcher(monitor.rules, monitor.lines)
        filelog = monitor.plugin == "filelog"
        self._format = LineFormat(monitor.plugin_config) if filelog else None
        self.fitting = 0
        self.odd: list[str] = []
        """Lines that do not fit `pluginConfig`, and why: the first; the number of others is `unparsed`."""
        self.unparsed = 0

    def matches(self, raw: bytes, number: int, now: datetime) -> list[Match]:
        """Return the rules that match up to this line."""
        if self.monitor.plugin == "kmsg" and raw.startswith(b" "):
            return []  # about the record before
        text = self._message(raw, number, now)
        if text is None or any(part in text for part in self.monitor.skip):
            return []
        return self._matcher.push(text)

    def _message(self, raw: bytes, number: int, now: datetime) -> str | None:
        text = decoded(raw)
        if self._format is None:
            with contextlib.suppress(RecordError):  # a line of dmesg is none
                return records.parse(raw).text
            return text
        try:
            message, _ = self._format.parse(text, now)
        except (ValueError, OverflowError) as error:
            self.unparsed += 1
            self.odd = self.odd or [f"{number}: {error}: {one_line(text, 200)}"]
            return None
        self.fitting += 1
        return message


def _match(path: Path, usable: Sequence[Monitor]) -> bool:
    readers, now = [_MonitorLog(monitor) for monitor in usable], datetime.now().astimezone()
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                if not raw.strip():
                    continue
                for reader in readers:
                    name = Path(reader.monitor.name).name
                    for match in reader.matches(raw.rstrip(b"\n"), number, now):
                        kind = match.rule.condition or "temporary"
                        _print(f"{path}:{number}: {match.rule.reason} ({kind}, {name}): {one_line(match.message, 200)}")  # fmt: skip
    except OSError as error:
        _print(f"{path}: {error.strerror}", error=True)
        return False
    for reader in readers:
        if reader.odd:
            lines = counted(reader.unparsed, "line")
            _print(f"{reader.monitor.name}: {lines} of {path} do not fit pluginConfig, the first is {reader.odd[0]}", error=True)  # fmt: skip
    return not any(reader.odd and not reader.fitting for reader in readers)


def _print(text: str, *, error: bool = False) -> None:
    print(text, file=sys.stderr if error else sys.stdout)
