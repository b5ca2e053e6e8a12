"""How long the programs take to start: imports, and until the evaluator is ready.

`imports`: CPU time of a process that imports a program; the least of several, with compiled modules. `ready`: from the start
of the evaluator's process until /readyz, on an API server that has nodes of 11 to 14 KB and policies, with readings from
Prometheus. `queued_ms` is how long it waited for a CPU; `unqueued_ms`, the time without it, is what an idle machine would
take. One JSON line per case, times in milliseconds.

    python -P bench/startup.py [--nodes 5000] [--policies 50] [--repeats 5]
"""

import subprocess
import sys
import time
from collections.abc import Iterator

from bench import commandline, measure, site
from bench.commandline import Line

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


def measured(nodes: int = 5000, policies: int = 50, repeats: int = 5) -> Iterator[Line]:
    """Yield the line of each case."""
    for program, aim in _IMPORTS.items():
        cpu = round(min(imports(program) for _ in range(repeats)))
        line = {"benchmark": "startup", "case": "imports", "program": program}
        yield {**line, "cpu_ms": cpu, "aim": aim}
    line = {"benchmark": "startup", "case": "ready", "nodes": nodes, "policies": policies}
    yield {**line, **ready(nodes, policies), "aim": _READY}


if __name__ == "__main__":
    commandline.run(measured)
