"""Invariants of every write and answer, and in quiet periods a comparison with a decision from scratch."""

import bisect
import gc
import sys
from collections import defaultdict

import msgspec
import policies
import psutil
from cluster import NAMESPACE
from replica import CLUSTER_STALE_AFTER, STALE_AFTER

from evaluator.core.model.node import Node
from evaluator.core.policy import parse
from evaluator.core.policy.decide import decide
from evaluator.core.readings.store import Store
from evaluator.features.registry import VOCABULARY
from evaluator.features.status.plan import statuses
from tests.evaluator.core.writes.from_scratch import label_writes
from wire.codec import Delta

SLACK = 1.0
"""Tolerance in seconds for what takes no time except pauses of the test."""


class InvariantChecks:
    """Collects violations as sentences."""

    def __init__(self, admin, server, clock):
        self.wrong = []
        self.answers = 0
        self.unready = 0
        self.writes = 0
        self.evictions = 0
        self._admin = admin
        self._clock = clock
        self._specs = defaultdict(list)
        """Policy → (since when, spec; None: deleted)."""
        self._born = {}
        """Node → when it was created or recreated."""
        server.store.listen(self._changed)

    def say(self, sentence):
        self.wrong.append(f"at {self._clock.now:.2f}: {sentence}")

    # At every write.

    def _changed(self, change):
        if change.collection == "taspolicies.telemetry.intel.com":
            self._policy_changed(change)
        elif change.collection == "pods" and change.before is not None:
            self.evictions += _is_evicted(change.record.obj) and not _is_evicted(change.before.obj)
        elif change.collection == "nodes" and change.before is None:
            self._born[change.key[1]] = self._clock.now
        elif change.collection == "nodes":
            self._node_changed(change)

    def _policy_changed(self, change):
        spec = None if change.type == "DELETED" else change.record.obj["spec"]
        known = self._specs[change.key[1]]
        if not known or known[-1][1] != spec:
            known.append((self._clock.now, spec))
        while len(known) > 2 and known[1][0] < self._clock.now - 600:
            del known[0]

    def _node_changed(self, change):
        before, after = _labels(change.before.obj), _labels(change.record.obj)
        if change.type == "MODIFIED" and before != after:
            self.writes += 1
        if change.type == "DELETED":
            del self._born[change.key[1]]
            return
        for (node, key), value in self._admin.theirs.items():
            if node == change.key[1] and before.get(key) == value != after.get(key):
                self.say(f"label {key} of somebody else was {value} on {node}, now {after}")

    # At every answer.

    def check_answer(self, replica, name, nodes, said):
        """A recent spec and recent readings must explain each rejected or passing node."""
        refused = replica.refused(name, nodes)
        if refused is None:
            self.unready += 1
            return
        self.answers += 1
        specs = self._specs_of_late(name)
        if replica.waiting_for:
            return  # it reported so itself
        known = self._clock.now - CLUSTER_STALE_AFTER - SLACK
        for node in nodes:
            if self._born[node] > known:
                continue  # it may not have received it
            recent = said(replica, node, self._clock.now - STALE_AFTER - SLACK)

            def candidates(metric, recent=recent):
                return {None, *(snapshot.get(metric) for snapshot in recent)}

            possible = set()
            for spec in specs:
                possible |= policies.refusals(spec, candidates) if spec else {False}
            if (node in refused) not in possible:
                verb = "refused" if node in refused else "let through"
                self.say(
                    f"{replica.name} {verb} {node} for {name} on data that is too old: "
                    f"{[spec and spec['strategies']['dontschedule'] for spec in specs]}, {recent[-2:]}"
                )

    def _specs_of_late(self, name):
        known = self._specs[name]
        since = self._clock.now - CLUSTER_STALE_AFTER - SLACK
        first = bisect.bisect_right([at for at, _ in known], since) - 1
        missing = [None] if first < 0 else []
        return missing + [spec for _, spec in known[max(0, first) :]]

    # In quiet periods.

    def check_calm(self, replicas, agents):
        """Labels, statuses and answers equal those of a decision from scratch."""
        for replica in replicas:
            if replica.waiting_for:
                self.say(f"{replica.name} is not ready: {list(replica.waiting_for)}")
        if (leaders := sum(replica.leads for replica in replicas)) != 1:
            self.say(f"{leaders} replicas lead")
        decisions = self._from_scratch(agents)
        seen = self._seen()
        applies, conflicts = label_writes(seen, decisions.labels)
        for apply in applies:
            found = seen[apply.node].ours
            self.say(f"labels of {apply.node}: {found}, and from scratch {dict(apply.labels)}")
        for node, key in self._admin.theirs:
            if key in seen[node].owned and seen[node].labels[key] != self._admin.theirs[node, key]:
                self.say(f"label {key} on {node} is somebody else's and ours")
        self._check_statuses(dict(statuses(decisions, conflicts)))
        for replica in replicas:
            for key, decision in decisions.policies.items():
                refused = replica.refused(key.name, seen)
                if refused is None or refused != set(decision.dontschedule):
                    told = "nothing" if refused is None else sorted(refused)
                    self.say(
                        f"{replica.name} refuses {told} for {key.name}, and from scratch "
                        f"{sorted(decision.dontschedule)}"
                    )

    def _from_scratch(self, agents):
        """Decided twice, an hour apart, so that every `for` has expired."""
        parsed = [
            parse.parse(obj, vocabulary=VOCABULARY) for obj in self._admin.policies().values()
        ]
        metrics = frozenset().union(*(one.metrics for one in parsed))
        store = Store(stale_after=STALE_AFTER, started=-1e9)
        store.subscribe(metrics)
        nodes = self._admin.nodes()
        before = None
        for now in (self._clock.now - 3600, self._clock.now):
            for name, agent in agents.items():
                if name in nodes and not agent.off and not agent.silent:
                    store.report(name, _everything(agent, metrics), now)
            before = decide(parsed, nodes, store, now=now, before=before)
        return before

    def _seen(self):
        return {
            name: msgspec.json.decode(msgspec.json.encode(obj), type=Node).node_labels
            for name, obj in self._admin.nodes().items()
        }

    def _check_statuses(self, wanted):
        for key, status in wanted.items():
            found = _timeless(self._admin.policies()[key.name].get("status") or {})
            right = _timeless(status.body(lambda _condition: ""))
            if found != right:
                self.say(f"status of {key}: {found}, and from scratch {right}")
            assert key.namespace == NAMESPACE


def _everything(agent, metrics):
    values = {name: value for name, value in agent.readings.items() if name in metrics}
    several = {name: count for name, count in agent.several.items() if name in metrics}
    unread = agent.unread & metrics
    return Delta(values, metrics - {*values, *several, *unread}, several, unread)


def _is_evicted(pod):
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("reason") == "EvictionByEvictionAPI" for one in conditions)


def _labels(obj):
    return obj["metadata"].get("labels") or {}


def _timeless(status):
    """A status without what depends on its past: times, names of similar metrics, nodes within a limit, pods that stay."""
    conditions = [
        {**condition, "message": condition["message"].partition("; similar metrics")[0]}
        for condition in status.get("conditions", ())
        if condition["type"] not in {"NodeLimitReached", "PodsStay"}
    ]
    for condition in conditions:
        condition.pop("lastTransitionTime", None)
    return {**status, "conditions": conditions}


def measures(tasks):
    """Values that must not grow: blocks of memory, resident kilobytes, open files, tasks."""
    gc.collect()
    process = psutil.Process()
    return {
        "blocks": sys.getallocatedblocks(),
        "rss_kb": process.memory_info().rss // 1024,
        "files": process.num_fds(),
        "tasks": tasks,
    }
