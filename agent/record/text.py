"""Samples as OpenMetrics lines with a timestamp and the node's name."""

from collections.abc import Iterable

from collectors.base.sample import Family, Labels
from collectors.formats.numerals import format_float

NODE = "node"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def lines(families: Iterable[Family], node: str, at: float) -> bytes:
    """Return the samples of one moment (Unix seconds). A label `node` of the metric becomes `exported_node`."""
    stamp, label = f"{at:.3f}", f'{NODE}="{node.translate(_ESCAPES)}"'
    return "".join(
        f"{name}{{{label}{_more(labels)}}} {format_float(value)} {stamp}\n"
        for family in families
        for name, labels, value in family.samples
    ).encode()


def _more(labels: Labels) -> str:
    return "".join(
        f',{"exported_node" if key == NODE else key}="{value.translate(_ESCAPES)}"'
        for key, value in labels
    )
