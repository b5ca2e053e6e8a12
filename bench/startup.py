"""How long the programs take to start: imports, and until the evaluator is ready.

`imports`: CPU time of a process that imports a program; the least of several, with compiled modules. `ready`: from the start
of the evaluator's process until /readyz, on an API server that has nodes of 11 to 14 KB and policies, with readings from
Prometheus. `queued_ms` is how long it waited for a CPU; `unqueued_ms`, the time without it, is what an idle machine would
take. One JSON line per case, times in milliseconds.

    python -P bench/startup.py [--nodes 5000] [--policies 50] [--repeats 5]
"""

import argparse
import json
import subprocess
import sys
import time

from bench import measure, site
from plimsoll import logs

_IMPORTS = {"agent": "cpu_ms <= 200 loops", "evaluator": "cpu_ms <= 600 loops"}
_READY = "unqueued_ms <= 2500 loops, cpu_ms <= 1500 loops"


def imports(program: str) -> float:
    """Return the CPU time in ms of a process that imports a program."""
    code = f"import time, {program}.main; print(time.process_time())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, env={}
    )
    return float(done.stdout) * 1e3


def ready(nodes: int, policies: int) -> dict[str, float]:
    """Return the figures of one start."""
    with site.starting(nodes, policies) as (begun, found):
        found.until("/readyz")
        ready_ms = (time.monotonic() - begun) * 1e3
        queued_ms = measure.queued_seconds(found.pid) * 1e3
        return {
            "ready_ms": round(ready_ms),
            "queued_ms": round(queued_ms),
            "unqueued_ms": round(ready_ms - queued_ms),
            "cpu_ms": round(measure.cpu_seconds(found.pid) * 1e3),
            "peak_rss_mb": round(measure.memory_mb(found.pid, "VmHWM")),
        }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=5000, help="in the cluster (default 5000)")
    parser.add_argument("--policies", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--repeats", type=int, default=5, help="of the imports (default 5)")
    given = parser.parse_args()
    logs.setup("error")
    for program, aim in _IMPORTS.items():
        cpu = min(imports(program) for _ in range(given.repeats))
        line = {"benchmark": "startup", "case": "imports", "program": program}
        print(json.dumps(measure.judged({**line, "cpu_ms": round(cpu)}, aim)), flush=True)
    found = ready(given.nodes, given.policies)
    line = {"benchmark": "startup", "case": "ready", "nodes": given.nodes}
    print(json.dumps(measure.judged({**line, "policies": given.policies, **found}, _READY)))


if __name__ == "__main__":
    main()
