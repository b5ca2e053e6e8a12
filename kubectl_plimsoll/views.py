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


def _text(value: object) -> str:
    """Return a value of a page for a terminal."""
    return printable(str(value))


def status(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return the state of the evaluator, and what its policies do."""
    policies = page.get("policies", [])
    waiting = page.get("waitingFor", [])
    state = (
        style.bad(f"waits for {_text(', '.join(map(str, waiting)))}")
        if waiting
        else style.good("ready")
    )
    violated = [p for p in policies if p["dontschedule"] or p["deschedule"]]
    observed = [p for p in policies if p["enforcement"] == "observe"]
    flawed = [p for p in policies if p["problems"]]
    warned = [p for p in policies if p.get("warnings")]
    total = len(policies) + page.get("policiesMore", 0)
    yield f"evaluator: {state}"
    yield f"nodes:     {_text(page.get('nodeCount', 0))}"
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
                Cell(entry["enforcement"], "doubtful" if entry["enforcement"] == "observe" else ""),
                *(_violating(entry, strategy, wide) for strategy in ("dontschedule", "deschedule")),
                *(_sentences(texts, colour, wide) for colour, texts in by_colour.items()),
            ]
        )
        if remember:
            flapping = _flapping(entry, wide)
            rows[-1].append(Cell(flapping or "-", "bad" if flapping else ""))
    return table([*head, "FLAPPING"] if remember else head, rows, style)


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
        yield f"and {_text(more)} more"


def _violating(policy: Page, strategy: str, wide: bool) -> Cell:
    names, more = policy[strategy], policy.get(f"{strategy}More", 0)
    count = len(names) + more
    text = f"{count} ({_some(names, wide, more)})" if names else "0"
    held_back = policy.get(f"{strategy}HeldBack", 0)
    if held_back:
        text += f", {_text(held_back)} held back"
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
    yield f"ready:     {style.good('True') if ready == 'True' else style.bad(_text(ready or 'unknown'))}"
    labels = [f"{key}={value}" for key, value in page.get("labels", {}).items()]
    yield f"labels:    {printable(', '.join(labels)) or '-'}"
    rows = []
    for name, entry in page.get("policies", {}).items():
        verdicts = [
            Cell("violated" if entry[kind] else "no", "bad" if entry[kind] else "")
            for kind in ("dontschedule", "deschedule")
        ]
        readings = [
            f"{metric}={_reading(metric, reading)}" for metric, reading in entry["readings"].items()
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


def _reading(metric: str, reading: Page) -> str:
    if reading["value"] is None:
        return str(reading["state"]).partition(":")[0]
    value, target = reading["value"], reading.get("targetValue")
    text = str(value) if isinstance(value, str) else readable(metric, value, target)
    if (peers := reading.get("peers")) and peers["median"] is not None:
        text += (
            f" ({peers['reading']:g}, median of {_text(peers['nodes'])} peers {peers['median']:g})"
        )
    state = str(reading["state"]).partition(":")[0]
    notes = [note for note in ("" if state == "fresh" else state, reading.get("cause", "")) if note]
    return f"{text} ({', '.join(notes)})" if notes else text


def pod(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return why a pod waits: the answer first, then each node."""
    turned_away = page.get("turnedAwayByPlimsoll")
    answer = {True: style.bad("yes"), False: style.good("no"), None: style.doubtful("unknown")}
    yield f"pod:                     {printable(page['pod'])}"
    yield f"turned away by Plimsoll: {answer[turned_away]}"
    yield f"why:                     {printable(page.get('summary') or '')}"
    if policy := page.get("policy"):
        yield from _policy_of_pod(policy, page.get("summary") or "", style)
    yield from _gang_of_pod(page)
    if told := _attempt(page):
        yield f"kube-scheduler:          {printable(told)}"
    if decide := page.get("requestsDecide"):
        yield f"                         {style.doubtful(printable(decide))}"
    if decision := (page.get("past") or {}).get("decision"):
        yield from _decision(decision)
    rows = [
        row for name, entry in page.get("nodes", {}).items() for row in _pod_rows(name, entry, wide)
    ]
    if rows:
        yield ""
        yield from table(["NODE", "RESULT", "RULE", "VALUE", "AGE", "OBSTACLES"], rows, style)
    if more := page.get("nodesMore"):
        yield f"and {counted(more, 'more node')}"
    placed = [
        f"{printable(name)}: {printable(one['metric'])}: {printable(one['text'])}"
        for name, entry in page.get("nodes", {}).items()
        for one in entry.get("placed", [])
    ]
    if placed:
        yield ""
        yield from placed


def _gang_of_pod(page: Page) -> Iterator[str]:
    """Yield the gates of a pod, and its gang."""
    if gates := page.get("gates"):
        yield f"gates:                   {printable(', '.join(gates))}"
    if message := page.get("gangMessage"):
        yield f"gang waits:              {printable(message)}"
    if gang := page.get("gang"):
        yield f"gang:                    {printable(gang)} (kubectl plimsoll explain gang {printable(gang)})"


def _decision(found: Page) -> Iterator[str]:
    """Yield the last answer to kube-scheduler: which nodes were refused, ranked and chosen, with the readings then."""
    verb = "would have been refused" if found["mode"] == "observe" else "refused"
    counts = f"{found['refused']} of {found['candidates']} nodes {verb}"
    yield f"last decision:           {_text(counts)} at {_text(found['at'])} by {_text(found['policy'])}"
    for one in found["refusedNodes"]:
        yield f"  refused:               {printable(one['node'])}: {_values(one['readings'])}"
    metric = found.get("rankedBy", "")
    for one in found.get("ranked", []):
        value = _values({metric: one["reading"]})
        yield f"  ranked:                {printable(one['node'])}: {_text(one['score'])} of 10, {value}"
    if chosen := found.get("chosen"):
        values = _values(found["readings"])
        yield f"  chosen:                {printable(chosen)} at {_text(found['chosenAt'])}: {values}"


def _values(readings: Page) -> str:
    return printable(
        ", ".join(
            f"{metric}={'no reading' if value is None else readable(metric, value)}"
            for metric, value in readings.items()
        )
    )


def _policy_of_pod(policy: Page, summary: str, style: Style) -> Iterator[str]:
    """Yield the policy that a pod names, and why it has no effect unless the summary says so."""
    applies = "applies" if policy["applies"] else style.bad("does not apply")
    mode = f", {_text(policy['mode'])}" if "mode" in policy else ""
    yield f"policy:                  {printable(policy['name'])} ({applies}{mode})"
    if (why := policy.get("problem")) and why not in summary:
        yield f"why it does not apply:   {style.bad(printable(why))}"
    for problem in policy.get("problems", []):
        yield f"problem of the policy:   {style.bad(printable(problem))}"
    for warning in policy.get("warnings", []):
        yield f"warning of the policy:   {style.doubtful(printable(warning))}"


def _attempt(page: Page) -> str:
    """Return what kube-scheduler reported of its last attempt; an error is named as one."""
    reason, message = page.get("schedulerReason"), page.get("schedulerMessage") or ""
    return f"{reason}: {message}" if reason and reason != "Unschedulable" else message


def _pod_rows(name: str, entry: Page, wide: bool) -> Iterator[list[str | Cell]]:
    """Yield a row for each rule of the policy; without `wide` only the violated rules, or the first."""
    rules = entry.get("rules", [])
    if not wide:
        rules = [rule for rule in rules if rule["violated"]] or rules[:1]
    obstacles = "; ".join(entry.get("obstacles", []))
    result = _result(entry)
    if not rules:
        yield [name, result, "", "", "", obstacles]
    for number, rule in enumerate(rules):
        age = "" if rule["ageSeconds"] is None else f"{rule['ageSeconds']:.0f}s"
        first: tuple[str, str | Cell, str] = (
            (name, result, obstacles) if number == 0 else (" ", " ", " ")
        )
        metric = rule["rule"].partition(" ")[0]
        yield [first[0], first[1], rule["rule"], _reading(metric, rule), age, first[2]]


def _result(entry: Page) -> Cell:
    if entry.get("obstacles"):
        return Cell("not feasible", "doubtful")
    if entry.get("refused"):
        return Cell("refused", "bad")
    if entry.get("awaited"):
        return Cell("awaited", "bad")
    if by := entry.get("refusedBy"):
        return Cell(f"refused by {', '.join(by)}", "bad")
    return Cell("would be refused", "doubtful") if entry.get("wouldRefuse") else Cell("ok", "good")


def policy(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return a policy: mode, problems, and each rule with the nodes that violate it."""
    mode = page.get("enforcement", {})
    yield f"policy:   {printable(page['policy'])}"
    by = f" (by {_text(mode['by'])})" if mode.get("by") else ""
    yield f"mode:     {_text(mode.get('mode', '-'))}{by}"
    for problem in page.get("problems", []):
        yield f"problem:  {style.bad(printable(problem))}"
    for warning in page.get("warnings", []):
        yield f"warning:  {style.doubtful(printable(warning))}"
    yield from _pods_add(page)
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


def _memory(memory: Page | None, style: Style, wide: bool) -> Iterator[str]:
    """Yield the scores of a policy's memory, those of flapping nodes first."""
    if memory is None:
        return
    above = memory["flappingAbove"]
    when = "never" if above is None else f"above {_text(above)}"
    yield f"memory:   scores halve in {_text(format_duration(memory['halfLifeSeconds']))}; nodes flap {when}"
    more = memory.get("nodesMore", 0)
    for flaps, label in ((True, "flapping"), (False, "scores")):
        found = [f"{n['node']} {n['score']}" for n in memory["nodes"] if n["flapping"] == flaps]
        if found:
            text = printable(_some(found, wide, 0 if flaps else more))
            yield f"{label + ':':<10}{style.bad(text) if flaps else text}"


def _pods_add(page: Page) -> Iterator[str]:
    for metric, one in page.get("podsAdd", {}).items():
        yield f"its pods: {printable(metric)}: {printable(one['text'])}"


def gang(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return a gang: its state, the reason, and its pods."""
    yield f"gang:    {printable(page['gang'])}"
    yield f"state:   {_text(page.get('state') or '-')}"
    yield f"message: {printable(page.get('message') or '-')}"
    for problem in (*page.get("problems", []), *page.get("obstacles", [])):
        yield f"problem: {style.bad(printable(problem))}"
    rows = [
        [name, member["state"], member["node"] or "", ", ".join(member["gates"]) if wide else ""]
        for name, member in page.get("members", {}).items()
    ]
    if rows:
        head = ["POD", "STATE", "NODE", "GATES"] if wide else ["POD", "STATE", "NODE"]
        yield ""
        yield from table(head, [row[: len(head)] for row in rows], style)
