"""Synthetic values that depend only on node, metric and time: for demos, tests and benchmarks on any machine."""

import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from collectors.interface.entry import Entry
from collectors.interface.host import Host
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family, Sample
from plimsoll.durations import duration
from plimsoll.flags import option

METRICS = Table(
    Metric(
        "node_synthetic_<number>",
        "gauge",
        "A synthetic value.",
        "",
        node_exporter=False,
    )
)

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_HASHES = 1 << 32


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 100_000:
        raise ValueError(f"not a number of metrics: {text!r} (0 to 100000)")
    return int(text)


def _metric_name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise ValueError(f"not a metric name: {text!r}")
    return text


@dataclass(frozen=True, slots=True)
class Options:
    """The flags of this collector."""

    synthetic_metrics: int = option(
        "collector.synthetic.metrics",
        10,
        "number of metrics to generate: node_synthetic_0, node_synthetic_1, ...",
        metavar="N",
        parse=_count,
    )
    synthetic_names: tuple[str, ...] = option(
        "collector.synthetic.name",
        (),
        "also generate a metric of this name (repeatable)",
        metavar="METRIC",
        parse=_metric_name,
    )
    synthetic_period: float = option(
        "collector.synthetic.period",
        60.0,
        "time in which a value goes from 0 to 100 and back; 0 keeps it constant",
        metavar="DURATION",
        parse=duration,
    )


def value(node: str, name: str, now: float, *, period: float) -> float:
    """Return a triangle wave between 0 and 100 in hundredths, with a phase that depends on metric and node."""
    phase = zlib.crc32(f"{node}/{name}".encode()) / _HASHES
    position = (phase + (now / period if period else 0.0)) % 1.0
    return round(200 * min(position, 1 - position), 2)


class Synthetic:
    """The `synthetic` collector."""

    def __init__(
        self, machine: Host, options: Options, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._node = machine.name
        self._numbered = [f"node_synthetic_{i}" for i in range(options.synthetic_metrics)]
        self._named = list(dict.fromkeys(options.synthetic_names))
        self._period = options.synthetic_period
        self._clock = clock

    def collect(self) -> Iterator[Family]:
        """Yield all values for the current time."""
        now = self._clock()
        for name in self._numbered:
            yield METRICS.single(name, self._value(name, now))
        for name in self._named:
            sample = Sample(name, (), self._value(name, now))
            yield Family(name, "gauge", "A synthetic value with the requested name.", (sample,))

    def _value(self, name: str, now: float) -> float:
        return value(self._node, name, now, period=self._period)


ENTRY = Entry(
    build=Synthetic,
    metrics=METRICS,
    about="synthetic values, for demos and tests",
    on=False,
    options=Options,
    open_ended=True,
)
