"""Rules whose ranges hold too few samples: a group's samples are its own ticks, so each range begins exactly at one of them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from agent.rules.groups.file import SHORTEST, Group
from agent.rules.promql.plan import Span
from plimsoll.durations import format_duration

_FEW = 2


class ShortRange(NamedTuple):
    """A range of a rule that holds fewer than two samples."""

    group: str
    rule: str
    text: str


def short(groups: Iterable[Group], interval: int, *, closed: bool = False) -> Iterator[ShortRange]:
    """Yield the ranges with fewer than two samples, each once. `interval`: that of groups without one, in ms.

    `closed`: whether a range includes a sample that is exactly as old as the range is long.
    """
    for group in groups:
        own = max(group.interval or interval, SHORTEST)
        for rule in group.rules:
            for span in dict.fromkeys(rule.expression.spans):
                every = own if span.step is None else span.step or interval
                if (least := _least(span, own, every, closed)) < _FEW:
                    yield ShortRange(group.name, rule.record, _text(span, least, every, closed))


def _least(span: Span, interval: int, every: int, closed: bool) -> int:
    """Return the minimum number of samples, or steps of a subquery, that are `every` ms apart."""
    if span.step is not None or span.moved % interval:
        return span.length // every  # the range begins anywhere between two of them
    return span.length // every + 1 if closed else -(-span.length // every)


def _text(span: Span, least: int, every: int, closed: bool) -> str:
    what = "sample" if span.step is None else "step"
    held = f"1 {what}" if least else f"at times no {what}"
    why = "" if closed or span.length != every else ", since it excludes one exactly as old"
    return (
        f"the range of {_duration(span.length)} holds {held} at an interval of {_duration(every)}{why}; "
        f"make it {_duration(_FEW * every)} or longer"
    )


def _duration(milliseconds: int) -> str:
    return format_duration(milliseconds / 1000)
