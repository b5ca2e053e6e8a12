"""`plimsoll check-problems`: checks configurations of node-problem-detector's monitors, and which rules match a log."""

import argparse
import glob
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from collectors.shared.problems import monitors
from collectors.shared.problems.matching import LineMatcher
from collectors.shared.problems.monitors import Monitor, MonitorError
from plimsoll.commandline import Parser
from plimsoll.text import counted, one_line

PROGRAM = "plimsoll check-problems"
_ABOUT = """
Checks configurations of node-problem-detector as the agent reads them (--problems.config), and prints what is wrong. With --log, it
also prints which lines of a file their rules match.
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


def _match(path: Path, usable: Sequence[Monitor]) -> bool:
    matchers = [(monitor, LineMatcher(monitor.rules, monitor.lines)) for monitor in usable]
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                text = raw.decode("utf-8", "replace").rstrip("\n")
                for monitor, matcher in matchers:
                    for match in matcher.push(text):
                        kind = match.rule.condition or "temporary"
                        _print(f"{path}:{number}: {match.rule.reason} ({kind}, {Path(monitor.name).name}): {one_line(match.message, 200)}")  # fmt: skip
    except OSError as error:
        _print(f"{path}: {error.strerror}", error=True)
        return False
    return True


def _print(text: str, *, error: bool = False) -> None:
    print(text, file=sys.stderr if error else sys.stdout)
