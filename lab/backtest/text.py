"""Writes a report as text for people, and its intervals as CSV."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from plimsoll.durations import format_duration
from plimsoll.text import counted, one_line, printable

MOST_LINES = 80
_WARNINGS = 3
_RULES, _NODES, _INTERVALS = 6, 5, 3
"""Rules of a policy, nodes of a policy and intervals of a node that are shown."""

Json = Mapping[str, Any]
_CSV_COLUMNS = ("strategy", "rule", "start", "end", "worst", "byMissing", "beganBefore", "ongoing")


def as_text(report: Json) -> str:
    """Return the report for people."""
    head = [*_head(report)]
    tail = [*_compared(report), *_sensitivity(report), "", report["note"]]
    policies = [[*_policy(policy, report)] for policy in report["policies"]]
    body: list[str] = []
    room = MOST_LINES - len(head) - len(tail) - 1
    for number, full in enumerate(policies):
        left = len(policies) - number
        share = max(2, (room - len(body)) // left)
        lines = (
            full if len(full) <= share else [*full[: share - 1], "  ... (--output json has all)"]
        )
        if len(body) + len(lines) > room:
            body.append(f"... and {counted(left, 'more policy', 'more policies')}")
            break
        body += lines
    return "".join(f"{printable(line)}\n" for line in (*head, *body, *tail))


_SHOWN_COMPARED = 4


def _compared(report: Json) -> Iterator[str]:
    """Yield the figures of --compare beside those of the same policy."""
    others = report.get("compared", ())
    if others:
        yield ""
        yield "compared with --compare (nodes at once, node-hours, changes, worst hour of a node):"
    own = {(policy["namespace"], policy["name"]): policy for policy in report["policies"]}
    for other in others[:_SHOWN_COMPARED]:
        key = (other["namespace"], other["name"])
        before = f"{_figures(own[key])} here, " if key in own else ""
        yield f"  {key[0]}/{key[1]}: {before}{_figures(other)} there"
    if len(others) > _SHOWN_COMPARED:
        yield f"  ... and {len(others) - _SHOWN_COMPARED} more (--output json has all)"


def _figures(policy: Json) -> str:
    flaps = policy["flaps"]
    return f"{policy['nodesAtOnce']['max']}, {policy['nodeHours']:.1f}, {flaps['changes']}, {flaps['worstNodeHour']}"


def _sensitivity(report: Json) -> Iterator[str]:
    """Yield the table of one policy: all targets by `for`, with clearAfter as written."""
    rows = report.get("sensitivity", ())
    if not rows:
        return
    first = rows[0]
    own = [r for r in rows if (r["namespace"], r["name"]) == (first["namespace"], first["name"])]
    holds = sorted({row["forSeconds"] for row in own})
    clears = sorted({row["clearAfterSeconds"] for row in own})
    clear = clears[len(clears) // 2]
    yield ""
    yield (
        f"sensitivity of {first['namespace']}/{first['name']}: most nodes at once / changes, with clearAfter "
        f"{format_duration(clear)} (--output json has all)"
    )
    yield "  target" + "".join(f"{'for ' + format_duration(hold):>14}" for hold in holds)
    for factor in sorted({row["targetFactor"] for row in own}):
        cells = [
            f"{row['nodesAtOnceMax']} / {row['changes']}"
            for hold in holds
            for row in own
            if (row["targetFactor"], row["forSeconds"], row["clearAfterSeconds"])
            == (factor, hold, clear)
        ]
        yield f"  {factor:>5.0%} " + "".join(f"{cell:>14}" for cell in cells)


def _head(report: Json) -> Iterator[str]:
    yield (
        f"{report['from']} to {report['to']}: {counted(report['nodes'], 'node')}, "
        f"{report['samples']:,} samples, a step of {format_duration(report['stepSeconds'])}, "
        f"readings stale after {format_duration(report['staleAfterSeconds'])}"
    )
    for warning in report.get("warnings", ())[:_WARNINGS]:
        yield f"warning of the source: {one_line(warning)}"
    if report["gaps"]:
        yield (
            f"no data of any node in {counted(len(report['gaps']), 'gap')}, {_span(report['gapSeconds'])} in all: the source "
            "was down, or nothing was recorded"
        )


def _policy(policy: Json, report: Json) -> Iterator[str]:
    at_once, flaps = policy["nodesAtOnce"], policy["flaps"]
    yield ""
    mode = ", only observed: as if it were enforced" if policy["mode"] == "observe" else ""
    yield f"policy {policy['namespace']}/{policy['name']}{mode}"
    for problem in policy["problems"][:3]:
        yield f"  problem: {one_line(problem)}"
    if detection := policy.get("detection"):
        yield f"  {_detection(detection)}"
    if policy["metricsWithoutData"]:
        yield f"  no data: no node has {', '.join(policy['metricsWithoutData'])}"
    yield (
        f"  nodes in violation at once: most {at_once['max']} of {report['nodes']} ({at_once['maxShare']:.0%}), "
        f"p95 {at_once['p95']}; {policy['nodeHours']:.1f} node-hours"
    )
    yield from _limit(policy)
    yield (
        f"  changes: {flaps['changes']}, worst hour of a node {flaps['worstNodeHour']}"
        + "".join(f"; {n['node']} {n['changes']}" for n in flaps["worstNodes"][:3])
    )
    if policy["refused"]:
        refused = policy["refused"]
        more = (
            f", {refused['coreHours']:.1f} core-hours, {refused['gibHours']:.1f} GiB-hours"
            if refused["coreHours"] is not None and refused["gibHours"] is not None
            else ""
        )
        yield (
            f"  closed to new pods: {refused['nodeHours']:.1f} node-hours{more}; no node left for "
            f"{policy['noNodeMinutes']:.1f} minutes"
        )
    yield f"  would write: {_writes(**policy['writes'])}"
    share = policy["missingShare"]
    yield f"  missing readings: {'all' if share is None else f'{share:.1%}'}"
    for rule in policy["rules"][:_RULES]:
        yield (
            f"  {rule['strategy']} {rule['rule']}: {counted(rule['count'], 'time')} on {counted(rule['nodes'], 'node')}, "
            f"{_span(rule['totalSeconds'])} in all, longest {_span(rule['longestSeconds'])}"
        )
    if len(policy["rules"]) > _RULES:
        yield f"  ... and {counted(len(policy['rules']) - _RULES, 'more rule')}"
    yield from _intervals(policy["nodes"])


def _writes(nodesEmptied: int | None = None, **changes: int) -> str:  # noqa: N803 (the field of the report)
    text = ", ".join(f"{n} {kind.removesuffix('s')} changes" for kind, n in changes.items())
    return text if nodesEmptied is None else f"{text}; nodes emptied {nodesEmptied} times"


def _limit(policy: Json) -> Iterator[str]:
    limit = policy["limit"]
    if limit is not None:
        tripped = (
            f"would have tripped {counted(limit['trips'], 'time')}, {limit['heldBackHours']:.1f} h over it"
            if limit["trips"]
            else "never reached"
        )
        yield f"  limit of {counted(limit['nodes'], 'node')} of {limit['of']}: {tripped}"


def _intervals(nodes: Mapping[str, Any]) -> Iterator[str]:
    worst: Sequence[str] = sorted(nodes, key=lambda name: (-nodes[name]["seconds"], name))
    for name in worst[:_NODES]:
        intervals = nodes[name]["intervals"]
        yield f"  {name}: {_span(nodes[name]['seconds'])} in {counted(len(intervals), 'interval')}"
        for interval in intervals[:_INTERVALS]:
            value = _worst(interval["worst"])
            flags = "".join(
                f", {text}"
                for key, text in (("beganBefore", "began before"), ("ongoing", "ongoing"))
                if interval.get(key)
            )
            yield f"    {interval['start']} to {interval['end']} {interval['strategy']}: {interval['rule']}, {value}{flags}"
    if len(worst) > _NODES:
        yield f"  ... and {counted(len(worst) - _NODES, 'more node')}"


def _worst(value: float | str | None) -> str:
    if value is None:
        return "no reading"
    return f"worst {value}" if isinstance(value, str) else f"worst {value:g}"


def _span(seconds: float) -> str:
    """Return a duration in whole seconds, with days."""
    days, rest = divmod(round(seconds), 86400)
    return f"{days}d{format_duration(rest) if rest else ''}" if days else format_duration(rest)


def as_csv(report: Mapping[str, Any]) -> str:
    """Return one line per interval; flags are 1 or 0, and `worst` is empty without a reading."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["namespace", "policy", "node", *_CSV_COLUMNS])
    for policy in report["policies"]:
        for node, node_facts in policy["nodes"].items():
            for interval in node_facts["intervals"]:
                flags = [int(interval.get(name, False)) for name in _CSV_COLUMNS[5:]]
                values = [interval[name] for name in _CSV_COLUMNS[:5]]
                row = [policy["namespace"], policy["name"], node, *values]
                writer.writerow([*map(_cell, row), *flags])
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a value without control characters: tables are shown on terminals."""
    return printable(value) if isinstance(value, str) else value


def _detection(detection: Json) -> str:
    """Return how well the policy finds the faults of --faults."""
    if not detection["faults"]:
        return "faults: none of --faults is on these nodes in this range"
    times = detection["secondsToDetection"]
    took = (
        f", after {_span(times['p50'])} (p50) and {_span(times['p95'])} (p95)"
        if detection["found"]
        else ""
    )
    precision = "-" if detection["precision"] is None else f"{detection['precision']:.3f}"
    return (
        f"faults: {detection['found']} of {detection['faults']} found (recall {detection['recall']:.3f}){took}; "
        f"{detection['right']} of {counted(detection['violations'], 'violation')} right (precision {precision}), "
        f"F1 {detection['f1']:.3f}; {detection['falsePer1000NodeDays']:.1f} false in 1,000 node-days"
    )
