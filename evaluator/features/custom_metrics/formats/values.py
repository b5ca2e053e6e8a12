"""Writes MetricValueLists of custom.metrics.k8s.io v1beta2 and v1beta1.

Format: https://github.com/kubernetes/metrics/blob/master/pkg/apis/custom_metrics. A list of thousands of items is made in
pieces, so that the caller can yield to the event loop between them.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from plimsoll import quantity, rfc3339

_ITEMS = 200
"""Items in one piece: 50 KB, in half a millisecond."""
_OBJECTS = 1 << 14
"""Objects whose beginning is kept: 5 MB."""


@lru_cache(_OBJECTS)
def described(kind: str, name: str, namespace: str = "") -> str:
    """Return the beginning of an item: `describedObject` with the object's kind of the core group, name and namespace."""
    where = {"namespace": namespace} if namespace else {}
    reference = {"kind": kind, **where, "name": name, "apiVersion": "/v1"}
    return f'{{"describedObject":{msgspec.json.encode(reference).decode()},'


def pieces(
    version: str,
    metric: str,
    objects: Iterator[str],
    seconds: Sequence[int],
    values: Sequence[float],
) -> Iterator[bytes]:
    """Yield a list of finite `values` measured at these Unix `seconds`, one for each of `objects` (from `described`)."""
    yield (
        f'{{"kind":"MetricValueList","apiVersion":"custom.metrics.k8s.io/{version}","metadata":{{}},"items":['
    ).encode()
    names = _metric(version, metric)
    at = {
        second: f'{names}"timestamp":"{rfc3339.seconds(second)}","value":"'
        for second in set(seconds)
    }
    items = map(_item, objects, map(at.__getitem__, seconds), map(quantity.text, values))
    for begin in range(0, len(values), _ITEMS):
        some = ",".join(islice(items, _ITEMS))
        yield (f",{some}" if begin else some).encode()
    yield b"]}\n"


def _item(described_object: str, metric_and_time: str, value: str) -> str:
    return f'{described_object}{metric_and_time}{value}"}}'


def _metric(version: str, metric: str) -> str:
    name = msgspec.json.encode(metric).decode()
    if version == "v1beta1":
        return f'"metricName":{name},"selector":null,'
    return f'"metric":{{"name":{name},"selector":null}},'
