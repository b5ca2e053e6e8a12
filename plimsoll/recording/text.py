"""Samples as OpenMetrics lines with a timestamp and the node's name."""

from collections.abc import Iterable

NODE = "node"
"""The label with the node's name."""
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def head(name: str, node: str, labels: Iterable[tuple[str, str]] = ()) -> str:
    """Return a line up to its value. A label `node` of the series becomes `exported_node`, as in a scrape."""
    more = "".join(
        f',{"exported_node" if key == NODE else key}="{value.translate(_ESCAPES)}"'
        for key, value in labels
    )
    return f'{name}{{{NODE}="{node.translate(_ESCAPES)}"{more}}}'


def timestamp(at: float) -> str:
    """Return a time (Unix seconds) with milliseconds."""
    return f"{at:.3f}"
