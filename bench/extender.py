"""Latency, CPU and memory of the evaluator, serving kube-scheduler over mutual TLS and idle.

The evaluator runs on an API server with nodes of 11 to 12 KB each. A plain TLS socket sends requests like
kube-scheduler's client; every response is checked, and a wrong one fails the benchmark. The same bodies go to the baseline
handler (json.loads, a loop, json.dumps); `cpu_ratio`, `p50_ratio` and `rss_ratio` are its figures divided by the
evaluator's. One JSON line per case; times in milliseconds, memory in megabytes (10^6 bytes), CPU is user and system time of
the whole process. `queued_ms` is the time its threads waited for a CPU: if it is not small, latencies are the machine's.

    python -P bench/extender.py [--nodes 5000] [--policies 50] [--requests 400] [--seconds 10]
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench import cases, commandline, scene
from bench.cases import Case, Change, Repeat, Rest
from bench.commandline import Line
from bench.scene import Scene, Sizes


@dataclass(frozen=True, slots=True)
class Act:
    """A scene, its number of nodes, and its cases in order."""

    scene: Callable[[Sizes, int], contextlib.AbstractContextManager[Scene]]
    nodes: int
    cases: Sequence[Case]


def acts(sizes: Sizes) -> Sequence[Act]:
    """Return all cases, grouped by scene."""
    few, many, most = sizes.nodes // 10, sizes.nodes, 3 * sizes.nodes
    often, seldom = sizes.requests, max(3, sizes.requests // 30)
    verbs = ("filter", "prioritize")
    quick = "p50_ms <= 2 loops, p99_ms <= 5 loops"
    lean = "cpu_ratio >= 12, rss_ratio >= 3"
    calm = Change("names, 50 pods a second, nothing changes", many, cases.nothing, quick)
    edited = "names, {} pods a second, an edit of the policy each second"
    editing = [
        Change(edited.format(pods), many, cases.edit, quick, pods=pods) for pods in (50, 200)
    ]
    reported = "names, {} pods a second, 1 % of the readings new each second"
    reporting = [
        Change(
            reported.format(pods), many, cases.report, quick, pods=pods, after=cases.follow_readings
        )
        for pods in (50, 200)
    ]
    idle = "core_percent <= 15 loops, rss_mb <= 600"
    return (
        Act(
            scene.steady,
            many,
            (
                *(Repeat(verb, few, 3 * often) for verb in verbs),
                *(Repeat(verb, many, often, quick) for verb in verbs),
                Repeat("filter", few, often // 4, whole=True),
                Repeat("filter", many, seldom, lean, whole=True),
                Repeat("filter", many, seldom, "rss_ratio >= 3", whole=True, at_once=4),
                calm,
                *editing,  # last, since they leave the policy edited
            ),
        ),
        Act(scene.streaming, many, (Rest(0.0, idle), Rest(0.01), Rest(1.0), *reporting)),
        Act(
            scene.steady,
            most,
            tuple(Repeat(verb, most, often, "p99_ms <= 12 loops") for verb in verbs),
        ),
    )


def measured(
    nodes: int = 5000, policies: int = 50, requests: int = 400, seconds: float = 10.0
) -> Iterator[Line]:
    """Yield the line of each case. `seconds`: of those in which time passes."""
    sizes = Sizes(nodes, policies, requests, seconds)
    for act in acts(sizes):
        with act.scene(sizes, act.nodes) as around:
            for case in act.cases:
                yield case.run(around)


if __name__ == "__main__":
    commandline.run(measured)
