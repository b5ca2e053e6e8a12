"""Lines for a terminal about pods and gangs: why a pod waits, and whether Plimsoll is the cause. Pure."""

from collections.abc import Iterator

from kubectl_plimsoll.table import Cell, Style, table
from kubectl_plimsoll.views import Page, as_text, reading_text
from plimsoll.quantity import readable
from plimsoll.text import counted, printable


def pod(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return why a pod waits: the answer first, then each node; of a pod that is gone, how it was evicted."""
    if evicted := page.get("evicted"):
        return _gone(page, evicted)
    return _existing(page, style, wide)


def _existing(page: Page, style: Style, wide: bool) -> Iterator[str]:
    turned_away = page.get("turnedAwayByPlimsoll")
    answer = {True: style.bad("yes"), False: style.good("no"), None: style.doubtful("unknown")}
    yield f"pod:                     {printable(page['pod'])}"
    yield f"turned away by Plimsoll: {answer[turned_away]}"
    yield f"why:                     {printable(page.get('summary') or '')}"
    if policy := page.get("policy"):
        yield from _policy_of_pod(policy, page.get("summary") or "", style)
    if why := page.get("notEvicted"):
        yield f"not evicted:             {style.doubtful(printable(why))}"
    yield from _gang_of_pod(page)
    if nominated := page.get("nominatedNode"):
        yield f"nominated node:          {printable(nominated)}"
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
    if more := int(page.get("nodesMore", 0)):
        yield f"and {counted(more, 'more node')}"
    placed = [
        f"{printable(name)}: {printable(one['metric'])}: {printable(one['text'])}"
        for name, entry in page.get("nodes", {}).items()
        for one in entry.get("placed", [])
    ]
    if placed:
        yield ""
        yield from placed


def _gone(page: Page, evicted: Page) -> Iterator[str]:
    """Yield when and why a pod was evicted, and what replaced it."""
    yield f"pod:                     {printable(page['pod'])}"
    yield f"gone:                    evicted at {as_text(evicted['at'])} from {as_text(evicted['node'])}"
    yield f"by policy:               {as_text(evicted['policy'])}"
    yield f"why:                     {as_text(evicted['why'])}"
    for one in evicted["successors"]:
        where = f"on {as_text(one['node'])}" if one["node"] else "waits"
        yield f"successor:               {as_text(one['pod'])} {where}"


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
    yield f"last decision:           {as_text(counts)} at {as_text(found['at'])} by {as_text(found['policy'])}"
    for one in found["refusedNodes"]:
        yield f"  refused:               {printable(one['node'])}: {_values(one['readings'])}"
    metric = found.get("rankedBy", "")
    for one in found.get("ranked", []):
        value = _values({metric: one["reading"]})
        yield f"  ranked:                {printable(one['node'])}: {as_text(one['score'])} of 10, {value}"
    if chosen := found.get("chosen"):
        values = _values(found["readings"])
        yield f"  chosen:                {printable(chosen)} at {as_text(found['chosenAt'])}: {values}"


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
    mode = f", {as_text(policy['mode'])}" if "mode" in policy else ""
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
        yield [first[0], first[1], rule["rule"], reading_text(metric, rule), age, first[2]]


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


def gang(page: Page, style: Style, wide: bool) -> Iterator[str]:
    """Return a gang: its state, the reason, and its pods."""
    yield f"gang:    {printable(page['gang'])}"
    yield f"state:   {as_text(page.get('state') or '-')}"
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
