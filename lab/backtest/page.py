"""Writes a report as one HTML file: figures, and a heat strip per node. It has no script and loads nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from lab.backtest.text import as_text
from plimsoll import rfc3339
from plimsoll.text import counted, printable

COLUMNS = 480
"""Parts of the range that a strip shows."""
MOST_NODES = 300
"""Nodes of a policy with a strip, the longest in violation first."""
_SHADES = 5
_ROW = 12
_TICKS = 6

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:1.5em;color:#1a1a1a;background:#fff}
h1{font-size:1.3em}h2{font-size:1.1em;margin:1.6em 0 .4em}
pre{background:#f5f5f5;padding:.8em;overflow-x:auto;font-size:12px}
.strips{display:grid;grid-template-columns:max-content 1fr;gap:1px .6em;align-items:center;font-size:12px}
.strips svg{width:100%;height:12px;background:#e9efe9;display:block}
.strips .ticks{height:16px;background:none}
.dontschedule{fill:#c77700}.deschedule{fill:#b3261e}.labeling{fill:#3457a6}
.key span{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 1em;vertical-align:-.1em}
.note{color:#555}
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#181818}pre{background:#242424}
.strips svg{background:#2a322a}.note{color:#aaa}.strips .ticks{fill:#ccc}}
"""
_KEY = (("deschedule", "#b3261e"), ("dontschedule", "#c77700"), ("labeling", "#3457a6"))


def as_html(report: Mapping[str, Any]) -> str:
    """Return the page."""
    body = [
        *(part for policy in report["policies"] for part in _policy(policy, report)),
        "<h2>Summary</h2>",
        f"<pre>{escape(as_text(report))}</pre>",
    ]
    return document(f"Backtest {report['from']} to {report['to']}", report["note"], body)


def document(title: str, note: str, body: Iterable[str]) -> str:
    """Return a page with a title, a note and a body of HTML. It has no script and loads nothing."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">',
        '<meta name="viewport" content="width=device-width">',
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title><style>{_STYLE}</style></head><body>',
        f"<h1>{escape(title)}</h1>",
        f'<p class="note">{escape(note)}</p>',
        *body,
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _policy(policy: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[str]:
    nodes: Mapping[str, Any] = policy["nodes"]
    key = printable(f"{policy['namespace']}/{policy['name']}")
    yield f"<h2>{escape(key)}</h2>"
    if not nodes:
        yield "<p>No node violates it in this range.</p>"
        return
    names = sorted(nodes, key=lambda name: (-nodes[name]["seconds"], name))
    colours = "".join(f'<span style="background:{colour}"></span>{name}' for name, colour in _KEY)
    yield f'<p class="key">One row per node, the longest in violation first.{colours}</p>'
    yield '<div class="strips">'
    begin, end = rfc3339.parse(report["from"]), rfc3339.parse(report["to"])
    for name in names[:MOST_NODES]:
        yield f"<div>{escape(printable(name))}</div>{_strip(nodes[name]['intervals'], begin, end)}"
    yield f"<div></div>{_ticks(begin, end)}"
    yield "</div>"
    if len(names) > MOST_NODES:
        yield f"<p>{counted(len(names) - MOST_NODES, 'more node')} not drawn: --output json has all.</p>"


def _strip(intervals: Sequence[Mapping[str, Any]], begin: float, end: float) -> str:
    """Return the strip of one node: per part of the range, the share of it in violation as opacity."""
    rects: list[str] = []
    for strategy, _ in reversed(_KEY):  # deschedule is drawn last, above the others
        own = [interval for interval in intervals if interval["strategy"] == strategy]
        if not own:
            continue
        shares = [0.0] * COLUMNS
        scale = COLUMNS / max(end - begin, 1e-9)
        for interval in own:
            _add(
                shares,
                (rfc3339.parse(interval["start"]) - begin) * scale,
                (rfc3339.parse(interval["end"]) - begin) * scale,
            )
        rects += _rects(shares, strategy)
    count = counted(len(intervals), "interval")
    size = f'viewBox="0 0 {COLUMNS} {_ROW}" preserveAspectRatio="none"'
    return (
        f'<svg {size} role="img" aria-label="{count}"><title>{count}</title>{"".join(rects)}</svg>'
    )


def _add(shares: list[float], first: float, last: float) -> None:
    for column in range(max(0, int(first)), min(COLUMNS - 1, int(last)) + 1):
        shares[column] += max(0.0, min(last, column + 1) - max(first, column))


def _rects(shares: Sequence[float], strategy: str) -> Iterator[str]:
    """Yield one rectangle for each run of equal shades."""
    shades = [min(_SHADES, -int(-share * _SHADES // 1)) for share in shares]
    column = 0
    while column < COLUMNS:
        run = column
        while run < COLUMNS and shades[run] == shades[column]:
            run += 1
        if shades[column]:
            opacity = 0.3 + 0.7 * shades[column] / _SHADES
            yield (
                f'<rect class="{strategy}" x="{column}" width="{run - column}" height="{_ROW}" opacity="{opacity:.2f}"/>'
            )
        column = run


def _ticks(begin: float, end: float) -> str:
    labels = []
    for number in range(_TICKS):
        at = begin + (end - begin) * number / (_TICKS - 1)
        anchor = "start" if not number else "end" if number == _TICKS - 1 else "middle"
        labels.append(
            f'<text x="{100 * number / (_TICKS - 1):g}%" y="12" font-size="11" text-anchor="{anchor}">'
            f"{rfc3339.seconds(at)[5:16].replace('T', ' ')}</text>"
        )
    return f'<svg class="ticks">{"".join(labels)}</svg>'
