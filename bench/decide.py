"""Duration of decide() and of lookups in its result, in this process, without network.

Every policy has four rules, one for each strategy, over a few dozen metrics that all nodes have. Before each run one node
in a hundred reports other values. Prints one JSON line per case with times in milliseconds: wall-clock (p50, p99) and CPU
time (cpu), which is more reliable on a busy machine:

    plain       compare and label: about 6 % of the nodes violate each rule
    half        the same, with half of the nodes violating each rule
    terms       every fourth policy has `for` and `clearAfter`, every fourth allOf over two rules, every fourth whenMissing:
                violate, and 2 % of the readings are missing
    merged      as terms, over two sources: agents, and a polled one with the metrics that half of the agents lack
    peers       20 policies with one rule on peers each, by the number of groups and the share of nodes that report other
                values; its ratio is to rules without peers that as many nodes violate, about 6 %, decided in turn

Each is decided `cold` (without previous decisions) and `steady` (with them); `published` is steady plus all results by
name: reasons, labels, rankings with scores, missing readings. `longest_step` is the longest step of `deciding()`, for which
other tasks wait. The last lines are one filter and one prioritize over all nodes in random order, and one report of an
agent, changed or confirmed.

    python -P bench/decide.py [--nodes 5000] [--policies 100] [--repeats 40]
"""

import gc
import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench import commandline
from bench.cluster import policy_object, rule
from bench.commandline import Line
from bench.measure import percentile
from bench.timing import Elapsed, figures, timed
from evaluator.core.policy.decide import Decisions, decide, deciding
from evaluator.core.policy.parse import parse
from evaluator.core.policy.types import Policy
from evaluator.core.protocol import Args
from evaluator.core.readings.column import Reading
from evaluator.core.readings.merged import Merged, Readings
from evaluator.core.readings.peer_metrics import INSTANCE_TYPE
from evaluator.core.readings.peer_readings import PeerColumns
from evaluator.core.readings.peers import LabelGroups
from evaluator.core.readings.polled import PolledReadings
from evaluator.core.readings.store import Store
from evaluator.features.extender.verbs import answer_filter, answer_prioritize
from wire.codec import Delta

METRICS = tuple(f"metric_{number}" for number in range(40))
STALE_AFTER = 30.0
CHANGING = 0.01
AIMS = {"cold": 10.0, "steady": 10.0, "published": 25.0}
PEER_RULES = 20
PEER_LOADS = tuple((groups, share) for groups in (1, 20) for share in (CHANGING, 0.0, 1.0))
"""Groups of peers, and the share of nodes that report other values before each decision."""
_END = object()


def line(case: str, what: str, times: list[Elapsed], **more: Any) -> Line:
    """Return the figures of one case."""
    about = {"benchmark": "decide", "case": case, "what": what}
    return {**about, **figures(times, 4, p99_ms=0.99), **more}


def longest_step(steps: Iterator[None]) -> Elapsed:
    """Return the time of the longest step."""
    longest, step = Elapsed(0.0, 0.0), None
    while step is not _END:
        step, elapsed = timed(next, steps, _END)
        longest = max(longest, elapsed, key=lambda one: one.cpu)
    return longest


@dataclass(eq=False)
class World:
    """Nodes with readings, and policies. Values are uniform over 0..100, so a target is a share of nodes."""

    nodes: list[str]
    policies: list[Policy]
    lacking: float = 0.0
    polled: bool = False
    peers: PeerColumns | None = None
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    now: float = 1000.0

    def __post_init__(self) -> None:
        self.store = Store(stale_after=STALE_AFTER, started=0.0)
        self.polls = PolledReadings("prometheus", stale_after=STALE_AFTER, started=0.0)
        both = {"agents": self.store, "prometheus": self.polls}
        self.readings: Readings = Merged(both) if self.polled else self.store
        self.readings.subscribe(METRICS)
        for node in self.nodes:
            self.report(node)
        for metric in METRICS if self.polled else ():
            told = {n: Reading(1, self.rng.random() * 100, self.now) for n in self.nodes[::2]}
            self.polls.answer(metric, told, self.now)

    def report(self, node: str) -> None:
        """Report new values of all metrics that the node has."""
        lacks = {m for m in METRICS if self.rng.random() < self.lacking}
        values = {m: self.rng.random() * 100 for m in METRICS if m not in lacks}
        self.store.report(node, Delta(values, lacks), self.now)

    def change(self, share: float = CHANGING) -> None:
        """Report other values for a share of the nodes, at least one unless it is 0."""
        self.now += 0.01
        for node in self.rng.sample(self.nodes, math.ceil(share * len(self.nodes))):
            self.report(node)

    def decide(self, before: Decisions | None = None) -> Decisions:
        """Return the decisions at this time."""
        return decide(
            self.policies, self.nodes, self.readings, now=self.now, before=before, peers=self.peers
        )

    def steps(self, before: Decisions) -> Iterator[None]:
        """Yield the steps of a decision."""
        return deciding(
            self.policies, self.nodes, self.readings, now=self.now, before=before, peers=self.peers
        )


def generated(count: int, share: float, *, timings: bool) -> list[Policy]:
    """Return policies whose rules are each violated by about this share of nodes."""
    rng = random.Random(2)

    def strategy(number: int, kind: str) -> dict[str, Any]:
        target = round(100 * (1 - share), 3)
        rules = [rule(rng.choice(METRICS), target)]
        more: dict[str, Any] = {}
        if timings and number % 4 == 1:
            more = {"for": "20s", "clearAfter": "60s"}
        elif timings and number % 4 == 2:
            rules.append(rule(rng.choice(METRICS), 0))
            more = {"logicalOperator": "allOf"}
        elif timings and number % 4 == 3:
            more = {"whenMissing": "violate"}
        if kind == "labeling":
            rules = [{**one, "labels": ["load=high"]} for one in rules]
        return {"rules": rules, **more}

    kinds = ("dontschedule", "deschedule", "labeling")

    def policy(number: int) -> Policy:
        strategies = {kind: strategy(number, kind) for kind in kinds}
        preferred = rule(rng.choice(METRICS), 0, "LessThan")
        return _parsed("policy", number, {**strategies, "scheduleonmetric": {"rules": [preferred]}})

    return [policy(number) for number in range(count)]


def compared(suffix: str, target: float) -> list[Policy]:
    """Return policies with one rule each, on the metric of that number with `suffix`."""
    return [
        _parsed(
            "peers", number, {"dontschedule": {"rules": [rule(METRICS[number] + suffix, target)]}}
        )
        for number in range(PEER_RULES)
    ]


def _parsed(name: str, number: int, strategies: Mapping[str, Line]) -> Policy:
    found = policy_object(f"{name}-{number}", strategies, namespace="default", uid=f"{number}")
    return parse(found)


def measure_peers(names: list[str], repeats: int, groups: int, share: float) -> Iterator[Line]:
    """Yield the cost of rules on peers beside that of the same rules without them."""
    types = {name: {INSTANCE_TYPE: str(n % groups)} for n, name in enumerate(names)}
    peers = World(
        names, compared(":peer_deviation", 1.19), peers=PeerColumns(LabelGroups(types.__getitem__))
    )
    plain = World(names, compared("", 94.0))
    spent: dict[World, list[Elapsed]] = {peers: [], plain: []}
    steps, before = [], {world: world.decide() for world in spent}
    for _ in range(repeats):
        for world, times in spent.items():
            world.change(share)
            before[world], elapsed = timed(world.decide, before[world])
            times.append(elapsed)
        peers.change(share)
        steps.append(longest_step(peers.steps(before[peers])))
    ours, without = (percentile([one.cpu for one in spent[world]], 0.5) for world in (peers, plain))
    size = {
        "nodes": len(names),
        "rules": PEER_RULES,
        "groups": groups,
        "changing_percent": 100 * share,
    }
    ratio = {"without_peers_cpu_p50_ms": round(1e3 * without, 4), "ratio": round(ours / without, 2)}
    yield line("peers", "steady", spent[peers], **ratio, aim="ratio <= 1.25", **size)
    yield line("peers", "longest_step", steps, aim="cpu_p50_ms <= 5 loops", **size)


def publish(decisions: Decisions, names: list[str]) -> None:
    """Look up all results by name."""
    for decision in decisions.policies.values():
        for reasons in decision.violations.values():
            reasons.keys()
        for _ in decision.missing.values():
            pass
        if decision.ranking is not None:
            decision.ranking.scores(names[:1])
    for node in decisions.labels:
        decisions.labels[node]


def measure(case: str, world: World, repeats: int) -> Iterator[Line]:
    """Yield the cost of decide() in one world."""
    size = {"nodes": len(world.nodes), "policies": len(world.policies)}
    before = world.decide()
    violating = [len(v) for d in before.policies.values() for v in d.violations.values()]
    size["violators_percent"] = round(100 * sum(violating) / len(violating) / len(world.nodes), 1)
    times: dict[str, list[Elapsed]] = {
        "cold": [],
        "steady": [],
        "published": [],
        "longest_step": [],
    }
    for _ in range(repeats):
        world.change()
        times["cold"].append(timed(world.decide)[1])
        made, steady = timed(world.decide, before)
        _, after = timed(publish, made, world.nodes)
        times["steady"].append(steady)
        times["published"].append(Elapsed(steady.clock + after.clock, steady.cpu + after.cpu))
        world.change()
        before, steps = made, world.steps(made)
        times["longest_step"].append(longest_step(steps))
    for what, found in times.items():
        aim = {"aim": f"cpu_p50_ms <= {AIMS[what]:g} loops"} if what in AIMS else {}
        yield line(case, what, found, **aim, **size)


def look_up(case: str, world: World, repeats: int) -> Iterator[Line]:
    """Yield the cost of one filter and one prioritize, with names as new strings, as from JSON."""
    decisions = world.decide()
    times: dict[str, list[Elapsed]] = {"filter": [], "prioritize": []}
    for number in range(repeats):
        names = [f"{name[:-1]}{name[-1]}" for name in world.nodes]
        world.rng.shuffle(names)
        labels = {"telemetry-policy": f"policy-{number % len(world.policies)}"}
        args = Args("default", "pod", labels, names, None)
        times["filter"].append(timed(answer_filter, args, decisions)[1])
        args = Args("default", "pod", labels, [f"{name[:-1]}{name[-1]}" for name in names], None)
        times["prioritize"].append(timed(answer_prioritize, args, decisions)[1])
    for what, found in times.items():
        yield line(case, what, found, names=len(world.nodes))


def report(world: World, repeats: int) -> Iterator[Line]:
    """Yield the cost of one report."""
    world.now += 1
    changed, same = [], []
    for node in world.rng.choices(world.nodes, k=50 * repeats):
        delta = Delta({metric: world.rng.random() for metric in METRICS})
        changed.append(timed(world.store.report, node, delta, world.now)[1])
        same.append(timed(_confirm, world, node)[1])
    yield line("report", "changed", changed, metrics=len(METRICS))
    yield line("report", "confirmed", same, metrics=len(METRICS))


def _confirm(world: World, node: str) -> None:
    world.store.report(node, Delta(), world.now)


def measured(nodes: int = 5000, policies: int = 100, repeats: int = 40) -> Iterator[Line]:
    """Yield the lines of all cases."""
    names = [f"node-{number:05d}.example.com" for number in range(nodes)]
    plain = World(names, generated(policies, 0.06, timings=False))
    gc.freeze()
    yield from measure("plain", plain, repeats)
    yield from look_up("plain", plain, repeats)
    half = World(names, generated(policies, 0.5, timings=False))
    yield from measure("half", half, repeats)
    yield from look_up("half", half, repeats)
    mixed = generated(policies, 0.06, timings=True)
    yield from measure("terms", World(names, mixed, lacking=0.02), repeats)
    yield from measure("merged", World(names, mixed, lacking=0.02, polled=True), repeats)
    for groups, share in PEER_LOADS:
        # Reports of all nodes take a hundred times as long as the decision.
        runs = repeats if share < 1 else max(2, repeats // 4)
        yield from measure_peers(names, runs, groups, share)
    yield from report(plain, repeats)


if __name__ == "__main__":
    commandline.run(measured)
