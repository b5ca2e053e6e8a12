"""Latency, CPU and memory of the evaluator, serving kube-scheduler over mutual TLS and idle.

The evaluator runs on an API server with nodes of 11 to 12 KB each. A plain TLS socket sends requests like
kube-scheduler's client; every response is checked, and a wrong one fails the benchmark. The same bodies go to the baseline
handler (json.loads, a loop, json.dumps); `cpu_ratio`, `p50_ratio` and `rss_ratio` are its figures divided by the
evaluator's. One JSON line per case; times in milliseconds, memory in megabytes (10^6 bytes), CPU is user and system time of
the whole process. `queued_ms` is the time its threads waited for a CPU: if it is not small, latencies are the machine's.

    python -P bench/extender.py [--nodes 5000] [--policies 50] [--requests 400] [--seconds 10]
"""

import argparse
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench import cases, measure, scene
from bench.cases import Case, Change, Repeat, Rest
from bench.scene import Scene, Sizes
from plimsoll import logs


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


def measured(sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Yield the line of each case."""
    for act in acts(sizes):
        with act.scene(sizes, act.nodes) as around:
            for case in act.cases:
                yield measure.judged(case.run(around), case.aim)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=5000, help="how many (default 5000)")
    parser.add_argument("--policies", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--requests", type=int, default=400, help="per case (default 400)")
    parser.add_argument(
        "--seconds", type=float, default=10, help="of cases in which time passes (default 10)"
    )
    given = parser.parse_args()
    logs.setup("error")
    for line in measured(Sizes(given.nodes, given.policies, given.requests, given.seconds)):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
