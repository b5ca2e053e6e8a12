"""A Hypothesis state machine: any sequence of cluster events while leaders decide about gangs."""

import itertools
import math
import random
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from evaluator.features.gangs.core.decide import decide
from evaluator.features.gangs.core.membership import QoS
from evaluator.features.gangs.core.types import GangDecisions, GangHistory, GangReason, GangTimings
from tests.evaluator.features.gangs.invariants import FINALLY, INVARIANTS, LONG, Decision, History
from tests.evaluator.features.gangs.model import WHERES, Cluster, Pod

BEGIN = 1_000_000.0
WHICH = st.integers(0, 30)


def pick(things, which):
    return things[which % len(things)]


@dataclass(frozen=True)
class Job:
    """The template of a controller's pods."""

    name: str
    replicas: int
    template: dict[str, object]


class GangMachine(RuleBasedStateMachine):
    """Random cluster events in any order."""

    decider = staticmethod(decide)
    promises = (*INVARIANTS, FINALLY)
    sound = False
    """Whether all invariants have held so far."""

    @initialize(
        nodes=st.lists(st.integers(2, 8), min_size=1, max_size=4),
        longest_wait=st.sampled_from([math.inf, math.inf, 900.0, 100.0]),
    )
    def begin(self, nodes: list[int], longest_wait: float) -> None:
        self.now = BEGIN
        self.timings = GangTimings(gate_max_age=longest_wait)
        self.cluster = Cluster(dict(zip("abcdef", nodes, strict=False)))
        self.jobs: list[Job] = []
        self.memory, self.history = GangHistory(), History()
        self.sound = True
        self.numbers = itertools.count()
        self.chance = random.Random(1)

    @rule(
        replicas=st.integers(1, 5),
        controlled=st.booleans(),
        all_at_once=st.booleans(),
        group=st.sampled_from(["", "red", "red", "green", "green", "blue", "grey"]),
        minimum=st.integers(2, 5),
        priority=st.integers(-1, 1),
        qos=st.sampled_from(QoS),
        cpu=st.integers(1, 4),
        where=st.sampled_from([*WHERES]),
        rare=st.sampled_from([{}] * 8 + [{"foreign": True}, {"native": True}, {"gated": False}]),
    )
    def create_job(self, replicas, controlled, all_at_once, group, minimum, rare, **template):
        name = f"job{next(self.numbers)}"
        about = {"group": group, "minimum": minimum} if group else {}
        owner = {"owner": name} if controlled else {}
        self.jobs.append(Job(name, replicas, template | about | owner | rare))
        self._make(self.jobs[-1], replicas if all_at_once else 1)

    def _make(self, job: Job, most: int) -> None:
        mine = [pod for pod in self.cluster.pods if pod.name.startswith(f"{job.name}-")]
        missing = job.replicas - sum(pod.living or pod.phase == "Succeeded" for pod in mine)
        for _ in range(min(missing, most)):
            name = f"{job.name}-{next(self.numbers)}"
            self.cluster.pods.append(Pod(name, self.now, **job.template))

    @precondition(lambda self: self.jobs)
    @rule(which=WHICH, most=st.sampled_from([1, 9]))
    def controller_replaces_missing_pods(self, which, most):
        self._make(pick(self.jobs, which), most)

    @precondition(lambda self: self.jobs)
    @rule(which=WHICH)
    def controller_replaces_all(self, which):
        job = pick(self.jobs, which)
        mine = [pod for pod in self.cluster.pods if pod.name.startswith(f"{job.name}-")]
        self.cluster.pods = [pod for pod in self.cluster.pods if pod not in mine]
        self._make(job, job.replicas)

    @rule(cpu=st.integers(1, 4))
    def create_other_pod(self, cpu):
        self.cluster.pods.append(Pod(f"other-{next(self.numbers)}", self.now, cpu, gated=False))

    @precondition(lambda self: self.cluster.pods)
    @rule(which=WHICH, how=st.sampled_from(["Succeeded", "Failed", "leaving", "gone"]))
    def end_pod(self, which, how):
        pod = pick(self.cluster.pods, which)
        if how == "gone":
            self.cluster.pods.remove(pod)
        elif how == "leaving":
            pod.leaving = True
        elif pod.node:
            pod.phase = how

    @precondition(lambda self: any(pod.foreign for pod in self.cluster.pods))
    @rule(which=WHICH)
    def lift_foreign_gate(self, which):
        pick([pod for pod in self.cluster.pods if pod.foreign], which).foreign = False

    @rule(name=st.sampled_from("abcdef"), cpu=st.integers(2, 8))
    def add_or_remove_node(self, name, cpu):
        if self.cluster.nodes.pop(name, None) is None:
            self.cluster.nodes[name] = cpu
        self.cluster.pods = [pod for pod in self.cluster.pods if pod.node != name]

    @rule(seconds=st.sampled_from([1.0, 9.0, 30.0, 61.0, 310.0]))
    def advance_time(self, seconds):
        self.now += seconds

    @rule()
    def run_scheduler(self):
        self.cluster.schedule()

    @rule()
    def change_leader(self):
        self.memory = GangHistory()

    @rule(lifted=st.sampled_from([99] * 6 + [0, 1, 2]))
    def run_leader(self, lifted):
        """Decide and lift at most `lifted` gates, then crash if that was not all."""
        decision = self.step(lifted)
        if lifted < len(decision.released()):
            self.change_leader()

    def step(self, most: int = 99) -> Decision:
        decision, self.sound = self.decide(), False
        for promise in INVARIANTS:
            if promise in self.promises:
                promise(decision)
        self.sound = True
        self.ungate_pods(decision, most)
        return decision

    def decide(self) -> Decision:
        gangs, capacity = self.cluster.gangs(), self.cluster.capacity()
        if self.memory.fresh:  # a new leader knows what the pods' annotations say
            told = {(pod.key, pod.owner) for pod in self.cluster.pods if pod.admitted is not None}
            self.history.admitted &= told

        def ask(memory: GangHistory, now: float) -> GangDecisions:
            chance = self.chance.random
            return self.decider(gangs, capacity, memory, self.timings, now=now, random=chance)

        return Decision(ask, self.cluster, self.history, self.timings, self.memory, self.now)

    def ungate_pods(self, decision: Decision, most: int) -> None:
        """Apply the decision and record it."""
        decisions, pods = decision.decisions, {pod.name: pod for pod in self.cluster.pods}
        late = [pod for pod in pods.values() if pod.loose and pod.key in decisions.timeouts]
        self.history.told |= {pod.name for pod in late}
        self.memory = decisions.memory
        for release in decisions.releases:
            needed = decision.missing(release.gang)
            lifted = [pods[one.name] for one in release.pods][:most]
            most -= len(lifted)
            if lifted:
                self.memory = self.memory.released(release, now=self.now)
                if release.reason is GangReason.ADMITTED:
                    names = frozenset(pod.name for pod in release.pods)
                    self.history.reservations[release.gang] = names, needed
            for pod in lifted:
                pod.gated = False
                pod.admitted = None if release.reason is GangReason.OVERDUE else self.now
                pod.reservation = release.reason is GangReason.ADMITTED
                if pod.reservation:
                    self.history.admitted.add((release.gang, pod.owner))

    def teardown(self) -> None:
        """Run without new events until nothing changes; then let placed gangs finish."""
        if self.sound:
            self.settle_down()
            while self.finish_gangs():
                self.settle_down()

    def settle_down(self) -> None:
        until = self.now + LONG
        while self.now < until:
            decision = self.step()
            self.cluster.schedule()
            if not decision.decisions.releases:
                self.now = min(max(decision.decisions.again, self.now + 1), until)
        if FINALLY in self.promises:
            FINALLY(self.decide())

    def finish_gangs(self) -> bool:
        """Finish gangs that are placed whole; return whether there were any."""
        decision, ended = self.decide(), False
        for key in decision.groups:
            placed = [pod for pod in decision.living(key) if pod.node]
            if placed and len(placed) >= decision.minimum(key):
                ended = True
                for pod in placed:
                    pod.phase = "Succeeded"
        return ended
