"""Lines for a terminal from the evaluator's pages. Pure: a page in, lines out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubectl_plimsoll.table import Cell, Style, table
from plimsoll.durations import format_duration
from plimsoll.quantity import readable
from plimsoll.text import counted, printable

Page = Mapping[str, Any]
_FEW = 3
"""Names in a cell; `wide` shows all."""
_MOST_FLAWS = 10
"""Problems and warnings of policies in the status; `wide` shows all."""


def as_text(value: object) -> str:
    """Return a value of a page for a terminal."""
    return printable(str(value))


def notices(page: Page, style: Style) -> Iterator[str]:
    """Return what every page says: what is stopped, by whom, when and why."""
    for notice in page.get("notices", ()):
        yield style.doubtful(f"stopped:   {as_text(notice)}")


def status(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return the state of the evaluator, and what its policies do."""
    policies = page.get("policies", [])
    waiting = page.get("waitingFor", [])
    state = (
        style.bad(f"waits for {as_text(', '.join(map(str, waiting)))}")
        if waiting
        else style.good("ready")
    )
    violated = [p for p in policies if p["dontschedule"] or p["deschedule"]]
    observed = [p for p in policies if p["enforcement"] == "observe"]
    flawed = [p for p in policies if p["problems"]]
    warned = [p for p in policies if p.get("warnings")]
    total = len(policies) + page.get("policiesMore", 0)
    yield f"evaluator: {state}"
    yield f"nodes:     {as_text(page.get('nodeCount', 0))}"
    yield from _port_restarts(page.get("agentsPort"), style)
    yield (
        f"policies:  {total}, {len(violated)} violated, {len(observed)} observed, "
        f"{len(flawed)} with problems, {len(warned)} with warnings"
    )
    for one in policies:
        if flapping := _flapping(one, wide):
            yield style.bad(f"flapping:  {_of(one, flapping)}")
    yield from _flaws(policies, style, wide)
    if wide:
        yield from ("", *policy_table(policies, style, wide))


def _port_restarts(port: Page | None, style: Style) -> Iterator[str]:
    """Yield the time and reason of the last restart of the agents' port, if there was one."""
    if port and port["restarts"]:
        times = counted(int(port["restarts"]), "time")
        ago = format_duration(round(port["lastRestartSeconds"]))
        yield style.doubtful(
            f"port:      agents' port restarted {times}, last {ago} ago: {as_text(port['reason'])}"
        )


def _flaws(policies: Sequence[Page], style: Style, wide: bool) -> Iterator[str]:
    """Yield the problems and warnings of the policies, problems first."""
    lines = [
        *(
            style.bad(f"problem:   {_of(one, text)}")
            for one in policies
            for text in one["problems"]
        ),
        *(
            style.doubtful(f"warning:   {_of(one, text)}")
            for one in policies
            for text in one.get("warnings", ())
        ),
    ]
    shown = lines if wide else lines[:_MOST_FLAWS]
    yield from shown
    if more := len(lines) - len(shown):
        yield f"and {more} more: kubectl plimsoll policies -A -o wide"


def _of(policy: Page, text: str) -> str:
    return printable(f"{policy['policy']}: {text}")


def _flapping(policy: Page, wide: bool) -> str:
    """Return the nodes that a policy's memory keeps in violation."""
    return _some(policy.get("flapping", []), wide, policy.get("flappingMore", 0))


def policy_table(policies: Sequence[Page], style: Style, wide: bool) -> list[str]:
    """Return the table of policies."""
    head = ["NAMESPACE", "NAME", "MODE", "DONTSCHEDULE", "DESCHEDULE", "PROBLEMS", "WARNINGS"]
    remember = any("flapping" in entry for entry in policies)
    rows: list[list[str | Cell]] = []
    for entry in policies:
        namespace, _, name = entry["policy"].partition("/")
        by_colour = {"bad": entry["problems"], "doubtful": entry.get("warnings", [])}
        rows.append(
            [
                namespace,
                name,
                _mode(entry),
                *(_violating(entry, strategy, wide) for strategy in ("dontschedule", "deschedule")),
                *(_sentences(texts, colour, wide) for colour, texts in by_colour.items()),
            ]
        )
        if remember:
            flapping = _flapping(entry, wide)
            rows[-1].append(Cell(flapping or "-", "bad" if flapping else ""))
    return table([*head, "FLAPPING"] if remember else head, rows, style)


def _mode(entry: Page) -> Cell:
    mode, stopped = entry["enforcement"], entry.get("stopped")
    text = f"{mode} ({stopped})" if stopped else mode
    return Cell(text, "doubtful" if stopped or mode == "observe" else "")


def _sentences(texts: Sequence[str], colour: str, wide: bool) -> Cell:
    return Cell("; ".join(texts) if wide else str(len(texts)), colour if texts else "")


def policies(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return the table of the policies of a page."""
    listed = page.get("policies", [])
    if not listed:
        yield "no policies"
        return
    yield from policy_table(listed, style, wide)
    if more := page.get("policiesMore"):
        yield f"and {as_text(more)} more"


def _violating(policy: Page, strategy: str, wide: bool) -> Cell:
    names, more = policy[strategy], policy.get(f"{strategy}More", 0)
    count = len(names) + more
    text = f"{count} ({_some(names, wide, more)})" if names else "0"
    held_back = policy.get(f"{strategy}HeldBack", 0)
    if held_back:
        text += f", {as_text(held_back)} held back"
    return Cell(text, "bad" if count else "doubtful" if held_back else "")


def _some(names: Sequence[str], wide: bool, more: int = 0) -> str:
    shown = names if wide else names[:_FEW]
    more += len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def nodes(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return the table of nodes: violated policies and labels."""
    rows = []
    for name, node in page.get("nodes", {}).items():
        violated = [f"{policy}: {'+'.join(kinds)}" for policy, kinds in node["violates"].items()]
        labels = [f"{key}={value}" for key, value in node["labels"].items()]
        text = _some(violated, wide, node.get("violatesMore", 0))
        if causes := node.get("causes"):
            text += f" ({_some(causes, wide, node.get('causesMore', 0))})"
        rows.append(
            [
                name,
                Cell(text, "bad" if violated else ""),
                _some(labels, wide, node.get("labelsMore", 0)),
            ]
        )
    yield from table(["NAME", "VIOLATES", "LABELS"], rows, style) if rows else ["no nodes"]


def node(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return one node: each policy with its verdict and readings."""
    ready = page.get("ready")
    yield f"node:      {printable(page['node'])}"
    yield f"ready:     {style.good('True') if ready == 'True' else style.bad(as_text(ready or 'unknown'))}"
    labels = [f"{key}={value}" for key, value in page.get("labels", {}).items()]
    yield f"labels:    {printable(', '.join(labels)) or '-'}"
    rows = []
    for name, entry in page.get("policies", {}).items():
        verdicts = [
            Cell("violated" if entry[kind] else "no", "bad" if entry[kind] else "")
            for kind in ("dontschedule", "deschedule")
        ]
        readings = [
            f"{metric}={reading_text(metric, reading)}"
            for metric, reading in entry["readings"].items()
        ]
        rows.append([name, entry["mode"], *verdicts, _some(readings, wide)])
    if rows:
        yield ""
        yield from table(["POLICY", "MODE", "DONTSCHEDULE", "DESCHEDULE", "READINGS"], rows, style)
    yield from _problems(page.get("problems", []), style)
    yield from _scores(page.get("written", {}).get("memory", {}), style)


def _scores(scores: Page, style: Style) -> Iterator[str]:
    """Return the table of a node's scores by policy, each with its devices; nothing if it never violated one with a memory."""
    rows = []
    for policy, one in scores.items():
        devices = [f"{found['device']}: {found['score']:g}" for found in one.get("devices", ())]
        score = Cell(f"{one['score']:g}", "bad" if one["violated"] else "")
        flaps = Cell("flapping", "bad") if one.get("flapping") else "no"
        rows.append([policy, score, flaps, one["lastViolation"], "; ".join(devices) or "-"])
    if rows:
        yield ""
        yield from table(["MEMORY OF", "SCORE", "FLAPS", "LAST VIOLATION", "DEVICES"], rows, style)


def _problems(problems: Sequence[Page], style: Style) -> Iterator[str]:
    """Return the table of a node's problems; nothing if its agent looks for none."""
    rows = []
    for one in problems:
        acknowledged = one.get("acknowledged") or {}
        by = f" by {acknowledged['by']}" if acknowledged.get("by") else ""
        rows.append(
            [
                one["type"],
                Cell("problem" if one["active"] else "healthy", "bad" if one["active"] else ""),
                one["reason"],
                one["since"] or "-",
                f"{acknowledged['at']}{by}" if acknowledged else "-",
                one["message"],
            ]
        )
    if rows:
        yield ""
        yield from table(
            ["PROBLEM", "STATE", "REASON", "SINCE", "ACKNOWLEDGED", "MESSAGE"], rows, style
        )


def reading_text(metric: str, reading: Page) -> str:
    if reading["value"] is None:
        return str(reading["state"]).partition(":")[0]
    value, target = reading["value"], reading.get("targetValue")
    text = readable(metric, value, target)
    if (peers := reading.get("peers")) and peers["median"] is not None:
        own, median = (_plain(peers[name]) for name in ("reading", "median"))
        text += f" ({own}, median of {as_text(peers['nodes'])} peers {median})"
    state = str(reading["state"]).partition(":")[0]
    notes = [note for note in ("" if state == "fresh" else state, reading.get("cause", "")) if note]
    return f"{text} ({', '.join(notes)})" if notes else text


def _plain(value: float | str | None) -> str:
    """Return a reading without its unit; infinities are text."""
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def policy(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return a policy: mode, problems, and each rule with the nodes that violate it."""
    mode = page.get("enforcement", {})
    yield f"policy:   {printable(page['policy'])}"
    by = f" (by {as_text(mode['by'])})" if mode.get("by") else ""
    yield f"mode:     {as_text(mode.get('mode', '-'))}{by}"
    for problem in page.get("problems", []):
        yield f"problem:  {style.bad(printable(problem))}"
    for warning in page.get("warnings", []):
        yield f"warning:  {style.doubtful(printable(warning))}"
    yield from _pods_add(page)
    yield from _stays(page, style, wide)
    yield from _memory(page.get("memory"), style, wide)
    if would := mode.get("wouldChange"):
        for field, label in (
            ("nodesRefused", "nodes refused"),
            ("nodesLabelled", "nodes labelled"),
            ("nodesTainted", "nodes tainted"),
            ("nodesWithCondition", "nodes with condition"),
            ("podsEvicted", "pods evicted"),
        ):
            if field in would:
                names = printable(_some(would[field], wide, would.get(f"{field}More", 0))) or "-"
                yield f"enforced: {label}: {names}"
    rows = []
    for strategy, strategy_page in page.get("strategies", {}).items():
        for rule in strategy_page["rules"]:
            names, more = rule["broken"], rule.get("brokenMore", 0)
            text = f"{len(names) + more} ({_some(names, wide, more)})" if names else "0"
            rows.append([strategy, rule["rule"], Cell(text, "bad" if names else "")])
    if ranking := page.get("scheduleonmetric"):
        rows.append(["scheduleonmetric", f"{ranking['metric']}, {ranking['order']}", ""])
    if rows:
        yield ""
        yield from table(["STRATEGY", "RULE", "VIOLATED ON"], rows, style)


def _stays(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Yield the pods that are not evicted, by why, and how the successors of others are checked."""
    for one in page.get("podsStay", []):
        pods = _some(one["pods"], wide, one.get("podsMore", 0))
        text = f"{pods}: {one['why']}"
        yield f"stay:     {style.doubtful(printable(text))}"
    if successors := page.get("successors"):
        yield f"evicted:  successors are {as_text(successors)}"


def _memory(memory: Page | None, style: Style, wide: bool) -> Iterator[str]:
    """Yield the scores of a policy's memory, those of flapping nodes first."""
    if memory is None:
        return
    above = memory["flappingAbove"]
    when = "never" if above is None else f"above {as_text(above)}"
    yield f"memory:   scores halve in {as_text(format_duration(memory['halfLifeSeconds']))}; nodes flap {when}"
    more = memory.get("nodesMore", 0)
    for flaps, label in ((True, "flapping"), (False, "scores")):
        found = [f"{n['node']} {n['score']}" for n in memory["nodes"] if n["flapping"] == flaps]
        if found:
            text = printable(_some(found, wide, 0 if flaps else more))
            yield f"{label + ':':<10}{style.bad(text) if flaps else text}"


def _pods_add(page: Page) -> Iterator[str]:
    for metric, one in page.get("podsAdd", {}).items():
        yield f"its pods: {printable(metric)}: {printable(one['text'])}"
