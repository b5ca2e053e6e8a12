"""Cost of the shipped recording rules: an agent with them beside an agent without, at the same time.

Both run the default collectors and do not stream, so the difference is the rules: reading their sources, keeping samples,
evaluation. CPU is user and system time of the whole process, memory is resident. Groups with an interval of a minute run at
least twice in the default time. Prints one JSON line.

    python -P bench/rules.py [--seconds 125] [--rules 'deploy/rules/*.yaml']
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import commandline, measure
from bench.commandline import Line
from bench.exporters import AGENT, RULES, running

AIM = "percent_of_a_core <= 0.25 loops, memory_mb <= 8"


def measured(seconds: float = 125.0, rules: str = RULES) -> Iterator[Line]:
    """Yield the line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = (f"--rules.file={rules}", f"--rules.state-file={folder}/state")
        with (
            running(folder, "with", [*AGENT, *flags]) as loaded,
            running(folder, "without", AGENT) as plain,
        ):
            time.sleep(15)  # the startup is over
            for agent in (loaded, plain):
                agent.scrape(anew=True)
                agent.begin()
            time.sleep(seconds)
            more = loaded.used() - plain.used()
            loaded.scrape(anew=True)
            evaluating = 1000 * loaded.total("plimsoll_rule_group_last_duration_seconds")
            memory = measure.memory_mb(loaded.pid) - measure.memory_mb(plain.pid)
            yield {
                "benchmark": "rules",
                "seconds": seconds,
                "rules": loaded.total("plimsoll_rule_group_rules"),
                "failing": loaded.total("plimsoll_rule_error"),
                "series": loaded.total("plimsoll_rule_group_series"),
                "percent_of_a_core": round(100 * more / seconds, 3),
                "evaluating_ms": round(evaluating, 2),
                "memory_mb": round(memory, 1),
                "aim": AIM,
            }


if __name__ == "__main__":
    commandline.run(measured)
