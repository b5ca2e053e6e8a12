"""What an evaluator costs that nobody asks: agents that report over mutual TLS, policies that are decided, nothing else.

Each node's agent has a connection of its own and reports every ten seconds; one line for each share of its readings that
is another each time. CPU is user and system time of the whole process, in percent of one core; memory in megabytes
(10^6 bytes).

    python -P bench/idle.py [--nodes 5000] [--policies 50] [--seconds 15]
"""

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

from bench import measure, site
from bench.fleet import Fleet
from bench.site import Site
from plimsoll import logs

_SHARES = (0.0, 0.01, 1.0)
_AIM = "core_percent <= 15, rss_mb <= 600"
_SPREAD = 1.0  # seconds until reports with other habits are spread over the time again


def measured(nodes: int, policies: int, seconds: float) -> Iterator[dict[str, Any]]:
    """One line for each share of readings that are new."""
    with site.streaming(nodes, policies) as (found, fleet):
        for share in _SHARES:
            fleet.habits = fleet.habits._replace(share=share)
            time.sleep(min(_SPREAD, seconds))
            yield measure.judged(_line(found, fleet, seconds), _AIM)


def _line(found: Site, fleet: Fleet, seconds: float) -> dict[str, Any]:
    pid = found.evaluator.pid
    reports, losses, decided = fleet.reports, fleet.losses, _decided(found)
    cpu = measure.cpu_seconds(pid)
    begin = time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - begin
    used = measure.cpu_seconds(pid) - cpu
    return {
        "benchmark": "idle",
        "case": f"{fleet.habits.share:.0%} of a report is new",
        "nodes": len(found.names),
        "policies": found.policies,
        "connected": fleet.connected,
        "reports_per_s": round((fleet.reports - reports) / took, 1),
        "decisions_per_s": round((_decided(found) - decided) / took, 1),
        "core_percent": round(100 * used / took, 1),
        "rss_mb": round(measure.memory_mb(pid), 1),
        "lost_streams": fleet.losses - losses,
    }


def _decided(found: Site) -> float:
    return found.evaluator.metric("plimsoll_decide_duration_seconds_count")


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=5000, help="how many (default 5000)")
    parser.add_argument("--policies", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--seconds", type=float, default=15, help="for each share (default 15)")
    given = parser.parse_args()
    logs.setup("error")
    for line in measured(given.nodes, given.policies, given.seconds):
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
