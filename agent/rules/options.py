"""The flags of recording rules."""

import math
from dataclasses import dataclass
from typing import Any

from collectors.shared.formats.numerals import parse_float
from plimsoll import durations, sizes
from plimsoll.flags import choice, option

_SHORTEST = 1.0


def _interval(text: str) -> float:
    seconds = durations.duration(text)
    if seconds < _SHORTEST:
        raise ValueError(f"{text!r} is below the minimum of 1s")
    return seconds


def _timeout(text: str) -> float:
    seconds = durations.duration(text)
    if seconds == 0:
        raise ValueError("must be longer than 0")
    return seconds


def _share(text: str) -> float:
    try:
        share = parse_float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise ValueError(f"{text[:40]!r} is not a number from 0 to 1 (write it like 0.05)")
    return share


def interval() -> Any:
    """Return the option for the interval of groups, also for commands."""
    return option(
        "rules.interval",
        5.0,
        "evaluation interval of groups that set none; groups that an evaluator subscribes to are evaluated each second",
        metavar="DURATION",
        parse=_interval,
    )


def ranges() -> Any:
    """Return the option for the ends of ranges, also for commands."""
    return option(
        "rules.ranges",
        "open",
        "open: a range excludes a sample that is exactly as old as the range is long, as in Prometheus 3; closed: it includes it "
        "(goes away with the next release)",
        metavar="open|closed",
        parse=choice("open", "closed"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """Rule files, intervals and limits."""

    files: tuple[str, ...] = option(
        "rules.file",
        (),
        "file with recording rules, in Prometheus' format; may be a glob; read again when it changes (repeatable)",
        metavar="FILE",
    )
    interval: float = interval()
    ranges: str = ranges()
    state_file: str = option(
        "rules.state-file",
        "",
        "file that keeps samples for long ranges across restarts of the agent, but not of the machine; without it, long ranges start empty",
        metavar="FILE",
    )
    max_memory: int = option(
        "rules.max-memory",
        32 << 20,
        "memory limit for the samples and results of all groups; a group or rule that would exceed it records nothing",
        metavar="SIZE",
        parse=sizes.size,
    )
    timeout: float = option(
        "rules.timeout",
        2.0,
        "CPU time limit for one evaluation of a rule; the limit of a group is five times as long",
        metavar="DURATION",
        parse=_timeout,
    )
    notable_change: float = option(
        "rules.notable-change",
        0.05,
        "a recorded value that changed by more than this fraction is sent to the evaluator at once; smaller changes are sent with the next report",
        metavar="SHARE",
        parse=_share,
    )

    @property
    def closed(self) -> bool:
        """Return whether ranges include a sample that is exactly as old."""
        return self.ranges == "closed"
