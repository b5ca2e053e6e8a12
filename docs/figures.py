"""Tables of the last full run of `make bench` (bench/results/latest.json) and of others, for pages under docs/.

In a page, a table is between two comments; the rest of the page is unchanged.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

LATEST = Path(__file__).resolve().parent.parent / "bench/results/latest.json"
SIGNALS = LATEST.with_name("signals.json")
AFTERMATH = LATEST.with_name("aftermath.json")

Line = Mapping[str, Any]


def into(page: str, lines: Iterable[str], name: str = "figures") -> str:
    """Return a page with these lines between its two comments of a name. Raises ValueError if it lacks them."""
    begin, end = (f"<!-- {name}: {which} -->" for which in ("begin", "end"))
    before, found, rest = page.partition(begin)
    _, also, after = rest.partition(end)
    if not found or not also:
        raise ValueError(f"a page without {begin} and {end}")
    return "\n".join([before + begin, *lines, end + after])


def missed(latest: Line) -> Iterator[str]:
    """Return the table of aims that the last full run missed, for performance.md."""
    machine = latest["machine"]
    lines = [line for found in latest["benchmarks"].values() for line in found.get("lines", ())]
    judged = [line for line in lines if "met" in line]
    late = [line for line in judged if not line["met"]]
    yield (
        f"Measured {latest['at'][:10]} at commit `{latest['commit'][:10]}` on {machine['cores']} cores of {machine['cpu']}, load average "
        f"{machine['load_before']:.0f} to {machine['load_after']:.0f}. {len(judged) - len(late)} of {len(judged)} aims were met; the others:"
    )
    yield ""
    yield "| benchmark | case | measured | aim |"
    yield "|---|---|---|---|"
    for line in late:
        yield f"| {line['benchmark']} | {_case(line)} | {_measured(line)} | {_aim(line['aim'])} |"


def _case(line: Line) -> str:
    words = [str(line.get(key, "")) for key in ("case", "what", "verb")]
    return ", ".join(filter(None, words)).replace("_", " ") or "all"


def _measured(line: Line) -> str:
    """Return the figures that the aim is about."""
    names = _COMPARED.findall(line["aim"])
    return ", ".join(f"{name.replace('_', ' ')} {_number(_value(line, name))}" for name in names)


_COMPARED = re.compile(r"([\w.]+) [<>]=")


def _value(line: Line, name: str) -> float:
    found: Any = line
    for key in name.split("."):
        found = found[key]
    return float(found)


def _aim(aim: str) -> str:
    return aim.replace("<=", "≤").replace(">=", "≥").replace("_", " ")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_REQUESTS = (
    ("filter, 5,000 names", "names", "filter", 5000),
    ("prioritize, 5,000 names", "names", "prioritize", 5000),
    ("filter, 5,000 whole nodes", "whole nodes", "filter", 5000),
    ("four of these at once", "whole nodes, 4 at once", "filter", 5000),
)


def requests(latest: Line) -> Iterator[str]:
    """Return the table of CPU and memory of kube-scheduler requests, for performance.md: reliable also on a busy machine."""
    lines = latest["benchmarks"]["extender"].get("lines", [])
    yield "| request | CPU | the baseline's CPU ÷ Plimsoll's | peak memory |"
    yield "|---|---|---|---|"
    for title, case, verb, nodes in _REQUESTS:
        asked = {"case": case, "verb": verb, "nodes": nodes}
        found = [line for line in lines if asked.items() <= line.items()]
        for line in found[:1]:
            cost = f"{line['cpu_ms']:.3g} ms"
            times = f"{line['cpu_ratio']:.3g}"
            yield f"| {title} | {cost} | {times} | {line['peak_rss_mb']:.0f} MB |"


def faults() -> Iterator[str]:
    """Return the table of times from a fault to a refused pod, for node-problem-detector.md."""
    run = read(SIGNALS)
    names = {
        "hung": "a problem in the kernel's log",
        "xid": "a GPU's error, by a recording rule",
        "ext4": "an error count in sysfs, by a recording rule",
    }
    yield "| fault | times | p50 | p99 | load average |"
    yield "|---|---|---|---|---|"
    for line in run["benchmarks"]["signals"]["lines"]:
        figures = f"{line['p50_ms']:.0f} ms | {line['p99_ms']:.0f} ms | {line['load']:.0f}"
        yield f"| {names[line['case']]} | {line['faults']} | {figures} |"
    yield ""
    machine = run["machine"]
    yield f"Measured {run['at'][:10]}: {machine['cores']} cores of {machine['cpu']} (`bench/signals.py`)."


_RECORDS = {
    "cluster": "objects and Events",
    "without_events": "objects, after an hour",
    "log": "log",
    "history": "history",
    "restarted": "after a restart",
    "file": "`--historyFile`",
}


def answers() -> Iterator[str]:
    """Return the table of the questions that each record answers, for history.md."""
    run = read(AFTERMATH)
    yield f"| question | times | {' | '.join(_RECORDS.values())} |"
    yield "|---|" + "---:|" * (1 + len(_RECORDS))
    for line in run["benchmarks"]["aftermath"]["lines"]:
        figures = " | ".join(str(line[name]) for name in ("facts", *_RECORDS))
        yield f"| {line['case']} | {figures} |"
    yield ""
    yield f"Measured {run['at'][:10]} at commit `{run['commit'][:10]}` (`bench/aftermath.py`)."


def read(file: Path = LATEST) -> Line:
    """Return the results of a run, by default the last full one."""
    found: Line = json.loads(file.read_text())
    return found
