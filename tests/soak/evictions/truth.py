"""Judges every eviction by what the API server stores, and says which evictions are still to come.

The programs under test know the cluster with a delay: what was right at any moment of the last WINDOW seconds is right.
"""

import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from functools import partial

from plimsoll import rfc3339
from sandbox.apiserver.kinds.disruption import matching
from sandbox.scheduler import fitting, neighbours
from tests.soak.evictions import doors

WINDOW = 45.0
"""Seconds for which a cache may be behind, readings old and a request under way, together."""
HOUR = 3600.0
MOST_PER_POD = 6
TARGET = 5.0
SYSTEM_PRIORITY = 2_000_000_000


@dataclass(frozen=True)
class Moment:
    """The cluster after one change."""

    at: float
    pods: tuple
    nodes: dict
    policies: dict
    stopped: bool
    hot: dict
    """By metric, the nodes that violate."""


@dataclass
class Limits:
    """--evictPeriod and --evictLimit."""

    period: float
    limit: int


@dataclass
class Truth:
    """The history of a cluster, and what was wrong in it."""

    store: object
    limits: Limits
    wrong: list = field(default_factory=list)
    evicted: Counter = field(default_factory=Counter)
    """By policy."""
    readings: dict = field(default_factory=dict)
    """By metric and node."""
    _moments: deque = field(default_factory=deque)
    _times: dict = field(default_factory=lambda: defaultdict(list))
    _by: dict = field(default_factory=dict)
    """Who evicted a pod at a time."""
    _most_pods: Counter = field(default_factory=Counter)

    def __post_init__(self):
        self.store.listen(self._changed)

    def say(self, node, metric, value):
        """Set a reading."""
        self.readings[metric, node] = value
        self._note()

    def _objects(self, collection):
        return [record.obj for _, record in self.store.items(collection)]

    def _note(self):
        now = time.monotonic()
        hot = defaultdict(set)
        for (metric, node), value in self.readings.items():
            if value > TARGET:
                hot[metric].add(node)
        pods = tuple(self._objects("pods"))
        policies = self._objects("taspolicies.telemetry.intel.com")
        self._moments.append(
            Moment(
                now,
                pods,
                {node["metadata"]["name"]: node for node in self._objects("nodes")},
                {policy["metadata"]["name"]: policy for policy in policies},
                self.store.get("configmaps", ("default", "plimsoll-stop")) is not None,
                hot,
            )
        )
        while len(self._moments) > 1 and self._moments[1].at < now - WINDOW:
            self._moments.popleft()
        for policy, count in Counter(_policy(pod) for pod in pods if _runs(pod)).items():
            self._most_pods[policy] = max(count, self._most_pods[policy])

    def _changed(self, change):
        if change.collection == "pods" and _begins_to_leave(change):
            self._judge(change.before.obj)
        if change.collection in {
            "pods",
            "nodes",
            "configmaps",
            "taspolicies.telemetry.intel.com",
        } and (change.collection != "configmaps" or change.key[1] == "plimsoll-stop"):
            self._note()

    def _judge(self, pod):
        """Judge an eviction."""
        policy, node, now = _policy(pod), _node(pod), time.monotonic()
        times = self._times[policy]
        times.append(now)
        self._by[now] = doors.client.get()
        self.evicted[policy] += 1

        def wrong(why):
            name = pod["metadata"]["name"]
            at = rfc3339.seconds(time.time())
            self.wrong.append(f"{at} {doors.client.get()} evicted {name} from {node}: {why}")

        if why := stays_for_ever(pod):
            wrong(why)
        lately = [at for at in times if at > now - self.limits.period]
        if len(lately) > self.limits.limit:
            ages = [f"{now - at:.2f} s ago by {self._by[at]}" for at in lately]
            wrong(f"{len(lately)} evictions for {policy} in {self.limits.period} s: {ages}")
        in_hour = [at for at in times if at > now - HOUR]
        if len(in_hour) > MOST_PER_POD * self._most_pods[policy]:
            wrong(f"{len(in_hour)} in an hour for {self._most_pods[policy]} pods")
        moments = [*self._moments]
        if not any(_enforced(moment, policy) for moment in moments):
            wrong("the policy was not enforced")
        elif not any(node in _hot(moment, policy) for moment in moments):
            wrong("the node did not violate the policy")
        elif not any(could_run(moment, pod) for moment in reversed(moments)):
            wrong("its successor could not run anywhere")

    def due(self):
        """Return the pods that are still to be evicted now, with their nodes, as text."""
        self._note()
        moment = self._moments[-1]
        found = []
        for pod in moment.pods:
            policy = _policy(pod)
            if (
                _runs(pod)
                and _enforced(moment, policy)
                and _node(pod) in _hot(moment, policy)
                and not self._excused(moment, pod)
            ):
                found.append(f"{pod['metadata']['name']} on {_node(pod)}")
        return found

    def unsettled(self):
        """Return the pods that start on a node, or leave it."""
        return [
            pod["metadata"]["name"]
            for pod in self._objects("pods")
            if _node(pod)
            and (
                (pod.get("status") or {}).get("phase") != "Running"
                or "deletionTimestamp" in pod["metadata"]
            )
        ]

    def _excused(self, moment, pod):
        """Return why a pod stays: nothing evicts it, or a budget, or the limit of the hour."""
        policy, now = _policy(pod), time.monotonic()
        if (why := stays_for_ever(pod)) or not could_run(moment, pod):
            return why or "its successor could not run"
        budgets = matching(self._objects("poddisruptionbudgets.policy"), pod)
        if len(budgets) > 1 or any(_is_full(budget) for budget in budgets):
            return "budgets"
        running = sum(_policy(one) == policy and _runs(one) for one in moment.pods)
        in_hour = sum(at > now - HOUR for at in self._times[policy])
        if in_hour >= MOST_PER_POD * running:
            return "the hour is used up"
        return ""


def stays_for_ever(pod):
    """Return why a pod must never be evicted; empty if it may."""
    meta, owner = pod["metadata"], _owner(pod)
    annotations = meta.get("annotations") or {}
    if owner is None:
        return "nothing recreates it"
    if annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "false":
        return "its annotation forbids it"
    if "kubernetes.io/config.mirror" in annotations or owner[0] in {"Node", "Job"}:
        return f"its owner is a {owner[0]}"
    if (pod["spec"].get("priority") or 0) >= SYSTEM_PRIORITY:
        return "its priority"
    return ""


def could_run(moment, pod):
    """Return whether another node that does not violate the policy could take a pod's successor."""
    hot = _hot(moment, _policy(pod))
    others = [one for one in moment.pods if one["metadata"]["uid"] != pod["metadata"]["uid"]]
    placed = [(_node(one), one) for one in others if _runs(one)]
    used = fitting.usage(placed)
    obstacle = partial(neighbours.obstacle, placed=placed, nodes=moment.nodes)
    left = [node for name, node in moment.nodes.items() if name not in {_node(pod), *hot}]
    return any(fitting.fit(pod, [node], used, obstacle).nodes for node in left)


def _begins_to_leave(change):
    """Return whether a change marks a pod as evicted."""
    return (
        change.before is not None
        and _is_target(change.record.obj)
        and not _is_target(change.before.obj)
    )


def _is_target(pod):
    found = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("reason") == "EvictionByEvictionAPI" for one in found)


def _is_full(budget):
    """Return whether a budget permits no eviction, although all of its pods run."""
    status = budget.get("status") or {}
    return not status["disruptionsAllowed"] and status["currentHealthy"] >= status["expectedPods"]


def _enforced(moment, policy):
    found = moment.policies.get(policy)
    annotations = (found or {"metadata": {}})["metadata"].get("annotations") or {}
    observed = annotations.get("plimsoll.io/enforcement") == "observe"
    return found is not None and not observed and not moment.stopped


def _hot(moment, policy):
    found = moment.policies.get(policy)
    if found is None:
        return set()
    return moment.hot[found["spec"]["strategies"]["deschedule"]["rules"][0]["metricname"]]


def _policy(pod):
    return (pod["metadata"].get("labels") or {}).get("telemetry-policy")


def _node(pod):
    return pod["spec"].get("nodeName") or ""


def _runs(pod):
    done = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
    return bool(_node(pod)) and not done and "deletionTimestamp" not in pod["metadata"]


def _owner(pod):
    owners = pod["metadata"].get("ownerReferences") or ()
    return next(((one["kind"], one["uid"]) for one in owners if one.get("controller")), None)
