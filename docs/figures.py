"""Tables of the last full run of `make bench` (bench/results/latest.json), for docs/benchmarks.md and README.md.

In README.md the table is between two comments; the rest of the page is unchanged.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

LATEST = Path(__file__).resolve().parent.parent / "bench/results/latest.json"
SIGNALS = LATEST.with_name("signals.json")
AFTERMATH = LATEST.with_name("aftermath.json")

Line = Mapping[str, Any]

# Shown in another column or in the heading.
_SAID = {"benchmark", "case", "what", "verb", "aim", "met", "baseline"}
_UNITS = {
    "_per_s": " a second",
    "_ms": " ms",
    "_mb": " MB",
    "_us": " µs",
    "_s": " s",
    "_percent": " %",
    "_bytes": " bytes",
}


def into(page: str, lines: Iterable[str], name: str = "figures") -> str:
    """Return a page with these lines between its two comments of a name. Raises ValueError if it lacks them."""
    begin, end = (f"<!-- {name}: {which} -->" for which in ("begin", "end"))
    before, found, rest = page.partition(begin)
    _, also, after = rest.partition(end)
    if not found or not also:
        raise ValueError(f"a page without {begin} and {end}")
    return "\n".join([before + begin, *lines, end + after])


def everything(latest: Line) -> Iterator[str]:
    """Return every line of every benchmark as Markdown."""
    machine = latest["machine"]
    yield ""
    yield (
        f"Measured {latest['at'][:10]} at commit `{latest['commit'][:10]}`: {machine['cores']} cores of {machine['cpu']}, "
        f"kernel {machine['kernel']}, Python {latest['python']}, {latest['openssl']}. Load average {_load(machine)}."
    )
    for name, found in latest["benchmarks"].items():
        yield from ("", f"## bench/{name}.py", "")
        if "failed" in found:
            yield f"Failed: {found['failed']}"
            continue
        yield "| case | figures | aim | met |"
        yield "|---|---|---|---|"
        for line in found["lines"]:
            aim, met = line.get("aim", ""), line.get("met")
            verdict = "" if met is None else ("yes" if met else "**no**")
            yield f"| {_case(line)} | {_figures(line)} | {_aim(aim)} | {verdict} |"


def _load(machine: Line) -> str:
    times = (("load_before", "before"), ("load_after", "after"))
    return " and ".join(f"{machine[key]:.1f} {when}" for key, when in times if key in machine)


def _case(line: Line) -> str:
    words = [str(line.get(key, "")) for key in ("case", "what", "verb")]
    return ", ".join(filter(None, words)).replace("_", " ").replace("|", "\\|") or "all"


def _figures(line: Line) -> str:
    shown = [_figure(k, v) for k, v in line.items() if k not in _SAID and v not in ({}, "")]
    return ", ".join(shown).replace("|", "\\|")


def _aim(aim: object) -> str:
    text = ", ".join(f"{k} {v}" for k, v in aim.items()) if isinstance(aim, Mapping) else str(aim)
    return text.replace("<=", "≤").replace(">=", "≥").replace("|", "\\|")


def _figure(key: str, value: object) -> str:
    if isinstance(value, Mapping):
        inner = ", ".join(_figure(k, v) for k, v in value.items() if v not in ({}, ""))
        return f"{key.replace('_', ' ')} ({inner})"
    for suffix, unit in _UNITS.items():
        if key.endswith(suffix):
            return f"{key.removesuffix(suffix).replace('_', ' ')} {_number(value)}{unit}"
    return f"{key.replace('_', ' ')} {_number(value)}"


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_REQUESTS = (
    ("filter, 5,000 names", "names", "filter", 5000),
    ("prioritize, 5,000 names", "names", "prioritize", 5000),
    ("filter, 5,000 whole nodes", "whole nodes", "filter", 5000),
    ("four of these at once", "whole nodes, 4 at once", "filter", 5000),
)


def requests(latest: Line) -> Iterator[str]:
    """Return the table of CPU and memory of kube-scheduler requests, for README.md: reliable also on a busy machine."""
    lines = latest["benchmarks"]["extender"].get("lines", [])
    yield "| request | CPU | CPU of the baseline handler | peak memory |"
    yield "|---|---|---|---|"
    for title, case, verb, nodes in _REQUESTS:
        asked = {"case": case, "verb": verb, "nodes": nodes}
        found = [line for line in lines if asked.items() <= line.items()]
        for line in found[:1]:
            cost = f"{line['cpu_ms']:.3g} ms"
            times = f"{line['cpu_ratio']:.3g} times"
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
