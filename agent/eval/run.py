"""Evaluates one expression on this machine, once or every second, and prints the result."""

import difflib
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence

from agent.eval.sampler import Sampler, ticks
from agent.rules.promql.expression import Expression
from agent.rules.promql.labels import NAME, Labels
from agent.rules.promql.labels import value as value_of
from agent.rules.promql.plan import Need
from agent.rules.promql.syntax import printer
from agent.rules.promql.syntax.matchers import Selector
from agent.rules.promql.syntax.printer import quoted, series
from agent.rules.promql.values import Moment
from collectors import registry
from collectors.registry import COLLECTORS
from plimsoll.durations import format_duration
from plimsoll.text import SentenceError, sorted_by_nearness

_SHOWN = 3
_PREFIX = "node_"


class FailedError(SentenceError):
    """There is no result because a source could not be read."""


def show(expression: Expression, moment: Moment) -> bool:
    """Print an expression's result. Returns whether it was not empty. Raises EvaluationError."""
    lines = printer.lines(expression.evaluate(moment), moment.time + moment.epoch)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()
    return bool(lines)


def hint(expression: Expression, known: Collection[Labels], where: str) -> None:
    """Print why there is no result, given all known series."""
    selectors = [need.selector for need in expression.needs]
    for sentence in explained(selectors, known, where=where):
        say(sentence)


def once(expression: Expression, sampled: Sampler, *, patience: int) -> None:
    """Sample for as long as the expression looks back, at most `patience` ms; then print the result.

    Raises EvaluationError, and FailedError if there is no result because a collector failed.
    """
    moment = _look(sampled, min(sampled.reach, patience))
    for error in sampled.errors:
        say(f"rule {error.rule} of {error.group}: {error.text}")
    if show(expression, moment):
        return
    if sampled.failed:
        raise FailedError(f"collectors failed: {', '.join(sorted(sampled.failed))}")
    known = sampled.everything()
    hint(expression, known, "this machine")
    _hint_at_switches(expression.needs, sampled.collectors)
    _hint_at_inputs(expression, sampled, known)


def watch(expression: Expression, sampled: Sampler) -> None:
    """Print the result every second, without end. Raises EvaluationError."""
    hinted = False
    for now in ticks():
        if not show(expression, sampled.take(now)) and not hinted:
            hinted = True
            hint(expression, sampled.everything(), "this machine")


def _look(sampled: Sampler, duration: int) -> Moment:
    """Sample every second for `duration` ms. Returns the last moment."""
    if sampled.reach:
        more = (
            f" of {_spelled(sampled.reach)} (use --for to sample longer)"
            if duration < sampled.reach
            else ""
        )
        say(f"the expression looks back: sampling each second for {_spelled(duration)}{more}")
    progress = sys.stderr.isatty() and duration > 0
    times = ticks()
    begin = now = next(times)
    moment = sampled.take(now)
    while now - begin < duration:
        if progress:
            sys.stderr.write(f"\r{(now - begin) // 1000} of {duration // 1000} s")
            sys.stderr.flush()
        now = next(times)
        moment = sampled.take(now)
    if progress:
        sys.stderr.write("\r\033[K")
    return moment


def _hint_at_inputs(expression: Expression, sampled: Sampler, known: Collection[Labels]) -> None:
    """Print the series that are missing and that rules behind the expression read."""
    for metric, needed in sampled.inputs({need.selector.metric for need in expression.needs}):
        missing = [need for need in needed if not any(map(need.selector, known))]
        if missing:
            say(f"{metric} is recorded by a rule, and these inputs of it are missing:")
        for sentence in explained([n.selector for n in missing], known, where="this machine"):
            say(f"  {sentence}")
        _hint_at_switches(missing, sampled.collectors)


def _hint_at_switches(needed: Iterable[Need], enabled: Collection[str]) -> None:
    for name in sorted({need.selector.metric for need in needed}):
        serving = {n for n in registry.collectors_of(name) if not COLLECTORS[n].open_ended}
        for collector in sorted(serving.difference(enabled)):
            say(
                f"{name} needs the collector {collector}, which is disabled: enable it with --collector.{collector}"
            )


def _spelled(milliseconds: int) -> str:
    return format_duration(milliseconds / 1000)


def say(sentence: str) -> None:
    """Print a sentence to standard error."""
    sys.stderr.write(f"{sentence}\n")


def explained(selectors: Iterable[Selector], known: Collection[Labels], *, where: str) -> list[str]:
    """Return why a result is empty: a sentence for each selector that matches none of the known series, or one that says all selectors match.

    `where`: what the series belong to, such as "this machine".
    """
    hints = [
        sentence
        for selector in dict.fromkeys(selectors)
        if (sentence := _unmatched(selector, known, where))
    ]
    return hints or ["matching series exist, but the result is empty"]


def _written(selector: Selector) -> str:
    """Return a selector in PromQL syntax."""
    conditions = [
        f"{matcher.name}{matcher.operator}{quoted(matcher.value)}" for matcher in selector.matchers
    ]
    return f"{selector.metric}{{{', '.join(conditions)}}}" if conditions else selector.metric


def _unmatched(selector: Selector, known: Collection[Labels], where: str) -> str:
    alike = []
    for labels in known:
        if selector(labels):
            return ""
        if selector.metric and value_of(labels, NAME) == selector.metric:
            alike.append(series(labels))
    if alike:
        return f"no series {_written(selector)}; {where} has: {', '.join(_few(sorted(alike)))}"
    near = _close(selector.metric, {value_of(labels, NAME) for labels in known})
    has = f"; {where} has: {', '.join(near)}" if near else f" on {where}"
    return f"no series {_written(selector)}{has}"


def _close(metric: str, names: Iterable[str]) -> list[str]:
    """Return the names most similar to a metric's name, including the one that only adds `node_`."""
    candidates = sorted(names)
    near = difflib.get_close_matches(_PREFIX + metric, candidates, _SHOWN, cutoff=0.8)
    near += difflib.get_close_matches(metric, candidates, _SHOWN, cutoff=0.7)
    return sorted_by_nearness(_PREFIX + metric.removeprefix(_PREFIX), near)[:_SHOWN]


def _few(texts: Sequence[str]) -> Iterator[str]:
    yield from texts[:_SHOWN]
    if (more := len(texts) - _SHOWN) > 0:
        yield f"and {more} more"
