"""Which waiting pods are worth another try: those that a policy kept off a node which it lets them onto again.

kube-scheduler tries a pod that an extender turned away again only after minutes, unless something changes; a pod with a
new annotation it tries at once. Whom we turned away is read from the pod: kube-scheduler writes our reason into its
condition. So any replica knows it, also one that has just started.
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from evaluator.decisions import Decision, Decisions
from evaluator.evictions import would_take
from evaluator.extender.verbs import POLICY_LABEL
from evaluator.objects import NUDGED, Node, Pod
from evaluator.policy import PolicyKey
from evaluator.rules import accusation

_IN_FLIGHT = 2.0
"""Seconds between our answer and its text in the pod. A refusal seen so late may be of before the node was let in again."""

_SKEW = 60.0
"""Seconds by which another replica's clock may be ahead; an annotation from farther away is nobody's nudge."""

Openings = Mapping[PolicyKey, Mapping[str, float]]
"""Per policy the nodes that it stopped refusing, and when (seconds). Those it refuses again stay in it: a plan asks."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Times in seconds; `limit` pods at once. After its first nudge a pod rests for `first`, after each more for twice as long, up to `longest`.

    What happened longer than `memory` ago is forgotten: by then the scheduler has tried again by itself. A nudge waits for
    `settle`, so that every replica that the scheduler may ask has had the time to decide the same.
    """

    limit: int = 10
    first: float = 1.0
    longest: float = 60.0
    settle: float = 0.1
    memory: float = 300.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A waiting pod that a policy turned away: since when its condition says so, when it was last nudged, how often by then."""

    pod: Pod
    policy: PolicyKey
    text: str
    since: float
    nudged: float = 0.0
    times: int = 0

    def after_nudge(self, at: float) -> "Refusal":
        """The same, when it was nudged."""
        return replace(self, nudged=at, times=self.times + 1)

    def rested(self, pace: Pace) -> float:
        """When it may be nudged again."""
        if not self.times:
            return 0.0
        return self.nudged + min(pace.first * 2.0 ** min(self.times - 1, 32), pace.longest)


Refusals = Mapping[str, Refusal]
"""By the pod's uid."""


def refusals(pods: Iterable[Pod], known: Refusals, now: float) -> dict[str, Refusal]:
    """The pods that wait because of a policy, with what was known of them before."""
    found: dict[str, Refusal] = {}
    for pod in pods:
        policy, text = _turned_away(pod)
        if policy is None:
            continue
        uid = pod.metadata.uid
        refusal = known.get(uid) or Refusal(pod, policy, "", now)
        if (refusal.policy, refusal.text) != (policy, text):
            refusal = replace(refusal, policy=policy, text=text, since=now)
        # Another replica, or this one before it was started again, may have nudged it.
        if refusal.nudged < (at := _nudged_at(pod)) < now + _SKEW:
            refusal = refusal.after_nudge(at)
        found[uid] = replace(refusal, pod=pod)
    return found


def _turned_away(pod: Pod) -> tuple[PolicyKey | None, str]:
    name = (pod.metadata.labels or {}).get(POLICY_LABEL)
    if not name or not pod.waiting:
        return None, ""
    text = pod.unschedulable_because
    blamed = accusation(name) in text
    return (PolicyKey(pod.metadata.namespace, name), text) if blamed else (None, "")


def _nudged_at(pod: Pod) -> float:
    try:
        text = (pod.metadata.annotations or {}).get(NUDGED, "")
        at = datetime.datetime.fromisoformat(text)
    except ValueError:  # never, or an annotation that is not ours
        return 0.0
    return at.replace(tzinfo=at.tzinfo or datetime.UTC).timestamp()


def opened(before: Decisions, after: Decisions) -> dict[PolicyKey, frozenset[str]]:
    """Per policy the nodes that it refused and refuses no longer, because a reading, a rule or the policy itself changed."""
    found = {}
    for key, was in before.policies.items():
        now = after.policies.get(key)
        nodes = was.dontschedule.keys() - (now.dontschedule.keys() if now else ())
        if nodes:
            found[key] = frozenset(nodes)
    return found


def all_open(decisions: Decisions) -> dict[PolicyKey, frozenset[str]]:
    """Per policy the nodes that it does not refuse."""
    return {
        key: frozenset(decisions.view.nodes) - decision.dontschedule.keys()
        for key, decision in decisions.policies.items()
    }


def remember(
    openings: Openings, more: Mapping[PolicyKey, Iterable[str]], *, now: float, memory: float
) -> dict[PolicyKey, dict[str, float]]:
    """Openings with those of this moment in it, and without those of long ago."""
    merged: dict[PolicyKey, dict[str, float]] = {}
    for key in openings.keys() | more.keys():
        old = {node: at for node, at in openings.get(key, {}).items() if now - at < memory}
        if new := old | dict.fromkeys(more.get(key, ()), now):
            merged[key] = new
    return merged


@dataclass(frozen=True, slots=True)
class Plan:
    """Whom to nudge now, in that order, and when to look again though nothing changes (None: never)."""

    due: tuple[Refusal, ...]
    again: float | None


def plan(
    refused: Refusals,
    openings: Openings,
    decisions: Decisions,
    nodes: Mapping[str, Node],
    *,
    pace: Pace,
    now: float,
) -> Plan:
    """The pods that have a node now which they had not when they were refused, of high priority and of old age first.

    One nudge for each time that a node was let in again, however often its pod is refused after that.
    """
    due: list[Refusal] = []
    later: list[float] = []
    for refusal in sorted(refused.values(), key=_order):
        at = _opened_for(refusal, openings, decisions, nodes, now - pace.memory)
        if at is None:
            continue
        start = max(at + pace.settle, refusal.rested(pace))
        if start <= now:
            due.append(refusal)
        else:
            later.append(start)
        if len(due) == pace.limit:
            break  # the others' turn comes when these were nudged
    return Plan(tuple(due), min(later, default=None))


def _order(refusal: Refusal) -> tuple[int, str, str]:
    pod = refusal.pod
    return (-pod.spec.priority, pod.metadata.creation_timestamp or "", str(pod))


def _opened_for(
    refusal: Refusal,
    openings: Openings,
    decisions: Decisions,
    nodes: Mapping[str, Node],
    horizon: float,
) -> float | None:
    """When a node was let in that this pod was not yet nudged for and could go to; None if there is none."""
    decision = decisions.policies.get(refusal.policy)
    if decision is not None and decision.awaited:
        return None  # it would be told to come again later
    oldest = max(horizon, refusal.nudged, refusal.since - _IN_FLIGHT)
    times = (
        at
        for node, at in _still_open(openings.get(refusal.policy, {}), decision)
        if at > oldest and node in nodes and would_take(nodes[node], refusal.pod)
    )
    return next(times, None)


def _still_open(
    opening: Mapping[str, float], decision: Decision | None
) -> Iterator[tuple[str, float]]:
    refused = decision.dontschedule if decision else {}
    return ((node, at) for node, at in opening.items() if node not in refused)
