"""Cost of the shipped recording rules: an agent with them beside an agent without, at the same time.

Both run the default collectors and do not stream, so the difference is the rules: reading their sources, keeping samples,
evaluation. CPU is user and system time of the whole process, memory is resident. Groups with an interval of a minute run at
least twice in the default time. Prints one JSON line.

    python -P bench/rules.py [--seconds 125] [--rules 'deploy/rules/*.yaml']
"""

import argparse
import json
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import measure
from bench.processes import program

SHIPPED = Path(__file__).resolve().parent.parent / "deploy/rules/*.yaml"
AIM = "percent_of_a_core <= 0.25 loops, memory_mb <= 8"
_SAMPLE = re.compile(r"^(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)


@dataclass
class Agent:
    """A running agent, and its CPU time at the last call of `used`."""

    pid: int
    url: str
    cpu: float = 0.0

    def total(self, metric: str) -> float:
        """Return the sum of all samples of a metric."""
        with urllib.request.urlopen(self.url) as response:
            text = response.read().decode()
        return sum(float(value) for name, value in _SAMPLE.findall(text) if name == metric)

    def used(self) -> float:
        """Return the CPU seconds since the last call."""
        before, self.cpu = self.cpu, measure.cpu_seconds(self.pid)
        return self.cpu - before


def start(stack: ExitStack, folder: Path, name: str, flags: Sequence[str]) -> Agent:
    """Start an agent on a free loopback port and wait for its first response."""
    log = folder / f"{name}.log"
    argv = (sys.executable, "-P", "-m", "agent", "--web.listen-address=127.0.0.1:0", *flags)
    process = stack.enter_context(program(argv, log))
    until = time.monotonic() + 30
    while not (found := re.search(r"listening.*address=(127\.0\.0\.1:\d+)", log.read_text())):
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"the agent did not start: {log.read_text()[-500:]}")
        time.sleep(0.05)
    agent = Agent(process.pid, f"http://{found[1]}/metrics")
    agent.total("up")
    return agent


def run(seconds: float, rules: str) -> dict[str, object]:
    """Measure and return the line."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        state = f"--rules.state-file={folder}/state"
        with_rules = start(stack, folder, "with", [f"--rules.file={rules}", state])
        without = start(stack, folder, "without", [])
        time.sleep(15)  # the startup is over
        for agent in (with_rules, without):
            agent.used()
        time.sleep(seconds)
        more = with_rules.used() - without.used()
        return {
            "seconds": seconds,
            "rules": with_rules.total("plimsoll_rule_group_rules"),
            "failing": with_rules.total("plimsoll_rule_error"),
            "series": with_rules.total("plimsoll_rule_group_series"),
            "percent_of_a_core": round(100 * more / seconds, 3),
            "evaluating_ms": round(
                1000 * with_rules.total("plimsoll_rule_group_last_duration_seconds"), 2
            ),
            "memory_mb": round(
                measure.memory_mb(with_rules.pid) - measure.memory_mb(without.pid), 1
            ),
        }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=125.0, help="how long (default 125)")
    parser.add_argument("--rules", default=str(SHIPPED), help="rule files (default deploy/rules)")
    given = parser.parse_args()
    print(json.dumps({"benchmark": "rules", **run(given.seconds, given.rules), "aim": AIM}))


if __name__ == "__main__":
    main()
