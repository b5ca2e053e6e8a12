"""The flags of recording rules."""

import math
from dataclasses import dataclass

from collectors.shared.formats.numerals import parse_float
from plimsoll import durations, sizes
from plimsoll.flags import option

_SHORTEST = 1.0


def _interval(text: str) -> float:
    seconds = durations.duration(text)
    if seconds < _SHORTEST:
        raise ValueError(f"{text!r} is shorter than 1s, the shortest there is")
    return seconds


def _timeout(text: str) -> float:
    seconds = durations.duration(text)
    if seconds == 0:
        raise ValueError("has to be longer than 0")
    return seconds


def _share(text: str) -> float:
    try:
        share = parse_float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise ValueError(f"{text[:40]!r} is no part of something (write it like 0.05)")
    return share


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """Rule files, intervals and limits."""

    files: tuple[str, ...] = option(
        "rules.file",
        (),
        "file with recording rules, in Prometheus' format; may be a glob; read again when it changes (repeatable)",
        metavar="FILE",
    )
    interval: float = option(
        "rules.interval",
        5.0,
        "how often groups without an interval of their own are evaluated; a group that an evaluator subscribes to, each second",
        metavar="DURATION",
        parse=_interval,
    )
    state_file: str = option(
        "rules.state-file",
        "",
        "file that keeps what long ranges need over a restart of the agent, though not of the machine; without it they begin anew",
        metavar="FILE",
    )
    max_memory: int = option(
        "rules.max-memory",
        32 << 20,
        "memory for the samples and results of all groups; a group whose samples, or a rule whose results, would take more "
        "records nothing",
        metavar="SIZE",
        parse=sizes.size,
    )
    timeout: float = option(
        "rules.timeout",
        2.0,
        "processor time that an evaluation of a rule may take, and a fifth of what its group may take",
        metavar="DURATION",
        parse=_timeout,
    )
    notable_change: float = option(
        "rules.notable-change",
        0.05,
        "a recorded value that moved by more than this part of itself is sent to the evaluator at once, others at the next report",
        metavar="SHARE",
        parse=_share,
    )
