"""The stop of policies by a ConfigMap: its watch, and what statuses, Events, pages and metrics say about it."""

from functools import partial

import msgspec
from prometheus_client import CollectorRegistry, Gauge

from evaluator.core.assembly import Core
from evaluator.core.feature import Feature
from evaluator.core.kube.reflector import Reflector
from evaluator.core.kube.resources import config_map
from evaluator.core.metrics import PolicyGauge
from evaluator.core.model.events import EventSpec
from evaluator.core.options import FeatureOptions
from evaluator.core.pages.part import PagePart
from evaluator.core.policy.decide import Decision
from evaluator.core.policy_status import Episode, PolicyCondition, PolicyPart
from evaluator.core.signals import StopsChanged, wakes
from evaluator.core.wiring import Wired
from evaluator.features.stop.entries import FREEZE, NAME, RAISED, StopEntry, StopObject, parse
from evaluator.features.stop.page import (
    PAGES,
    ListedStopFields,
    ReadStop,
    ShownStop,
    StopFields,
    StoppedPolicyFields,
)
from evaluator.features.stop.state import RESUMED, STOPPED, UNREAD, StopState
from plimsoll.text import one_line

CONDITION = "Stopped"
"""Condition type of a stopped policy; others have none."""
_EPISODE = Episode(
    CONDITION,
    EventSpec(
        "Warning",
        "PolicyStopped",
        f"the policy is stopped: the condition {CONDITION} says how, by whom and why",
    ),
    EventSpec("Normal", "PolicyResumed", "the policy is not stopped any more"),
)
_LONGEST_WATCH = 60.0
"""Seconds after which a watch is opened anew: a lost connection that nothing reports delays a stop by as much."""
_LONGEST_WHY = 200
"""Characters of the label `why`."""
_SHOWN = 10
"""Entries that every page shows; the others are counted."""


class StopMetrics:
    """The metrics of the stop."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.stopped = PolicyGauge(
            "plimsoll_stopped",
            f"1 for each entry of the ConfigMap {NAME}; without namespace and policy, it is for all policies. "
            "`why`: by whom, when and why, as the entry says.",
            ["namespace", "policy", "mode", "why"],
            registry=registry,
        )
        self.age = Gauge(
            "plimsoll_stop_age_seconds",
            f"Time since the evaluator's copy of the ConfigMap {NAME} was known to be current.",
            registry=registry,
        )


class StopReport:
    """The parts of statuses and pages."""

    def __init__(self, state: StopState, metrics: StopMetrics) -> None:
        self._state = state
        self._gauge = metrics.stopped
        self._gauged: set[tuple[str, ...]] = set()

    def changed(self) -> None:
        """Update the gauge."""
        found = self._state.object
        series = {_series(entry) for entry in (found.entries if found else ())}
        for labels in self._gauged - series:
            self._gauge.remove(labels)
        for labels in series:
            self._gauge.set(labels, 1)
        self._gauged = series

    def part(self, decision: Decision) -> PolicyPart:
        """Return the condition and the Events of a stopped policy; no condition of another one."""
        if self._state.object is None:
            return PolicyPart(
                conditions=(PolicyCondition(CONDITION, "Unknown", "NotRead", UNREAD),)
            )
        entry = self._state.entry(decision.policy.key)
        if entry is None:
            return PolicyPart(episodes={_EPISODE: False})
        condition = PolicyCondition(CONDITION, "True", _reason(entry), _message(entry))
        return PolicyPart(conditions=(condition,), episodes={_EPISODE: True})

    def page(self) -> PagePart:
        """Return the part of pages."""
        return PagePart(
            evaluator=self.evaluator,
            policy=self.policy,
            listed=self.listed,
            notices=self.notices,
        )

    def notices(self, namespace: str = "") -> list[str]:
        """Return what is stopped in a namespace, or in all if it is empty, for every page."""
        sentences = self._state.sentences(namespace)
        more = len(sentences) - _SHOWN
        return sentences[:_SHOWN] + ([f"and {more} more are stopped"] if more > 0 else [])

    def evaluator(self) -> StopFields:
        """Return all entries."""
        found = self._state.object
        entries = found.entries if found else ()
        return StopFields(stop=ReadStop(read=found is not None, entries=[*map(_shown, entries)]))

    def policy(self, decision: Decision) -> StoppedPolicyFields | None:
        """Return how a policy is stopped; None for one that is not."""
        entry = self._state.entry(decision.policy.key)
        return StoppedPolicyFields(stopped=_shown(entry)) if entry is not None else None

    def listed(self, decision: Decision) -> ListedStopFields | None:
        """Return how a policy is stopped, for lists."""
        entry = self._state.entry(decision.policy.key)
        return ListedStopFields(stopped=entry.mode) if entry is not None else None


def _series(entry: StopEntry) -> tuple[str, ...]:
    return (*(entry.policy or ("", "")), entry.mode, one_line(entry.why, _LONGEST_WHY))


def _shown(entry: StopEntry) -> ShownStop:
    return ShownStop(
        policy=str(entry.policy) if entry.policy else None,
        mode=entry.mode,
        by=entry.by or None,
        at=entry.at or None,
        reason=entry.reason or None,
        problem=entry.problem or None,
    )


def _reason(entry: StopEntry) -> str:
    return "Frozen" if entry.mode == FREEZE else "Released"


def _message(entry: StopEntry) -> str:
    if entry.mode == FREEZE:
        return f"frozen: no eviction, and no change of nodes; what stands stays ({entry.why})"
    return f"only observed ({entry.why})"


def stop_watch(core: Core, state: StopState) -> Reflector[StopObject]:
    """Return the watch of the object. One whose reading raises freezes all policies: skipped, it would stop nothing."""
    part = core.isolation.part("watch of the stop")

    def read(raw: msgspec.Raw) -> StopObject:
        return part.run(NAME, partial(parse, raw), RAISED)

    return Reflector(
        core.api,
        config_map(core.namespace, NAME),
        read,
        state,
        guard=part,
        on_activity=state.alive,
        longest_watch=_LONGEST_WATCH,
    )


def wire(core: Core, _options: FeatureOptions) -> Wired:
    """Read the object on every replica; none writes it."""
    metrics = StopMetrics(core.metrics.registry)
    state = StopState(core.signals.publish)
    report = StopReport(state, metrics)
    metrics.age.set_function(lambda: state.age)
    return Wired(
        reacts=wakes(report.changed, StopsChanged),
        loops=[stop_watch(core, state).run],
        stops=lambda: state.stops,
        policy_part=report.part,
        part_known=lambda: state.settled,
        action_kinds=(STOPPED, RESUMED),
        page=report.page(),
    )


FEATURE = Feature(name="stop", options=FeatureOptions, metrics=StopMetrics, wire=wire, pages=PAGES)
