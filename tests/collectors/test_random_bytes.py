"""Whatever a kernel, a mount or a disk error hands over: a parser yields families of the catalog, or says CollectorError."""

import contextlib
import re
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors import (
    cpu,
    cpuinfo,
    hugepages,
    loadavg,
    machine_check,
    meminfo,
    numa,
    pcie_aer,
    pressure,
    promtext,
    vmstat,
)
from collectors.sample import CollectorError

EVERY_FIELD = re.compile("")
PARSERS: dict[str, Callable[[str], Iterable[object]]] = {
    "cpu": cpu.parse_stat,
    "cpu list": cpu.parse_cpu_list,
    "cpu seconds": lambda text: list(cpu.seconds(cpu.parse_stat(text), guest=True)),
    "cpuinfo": lambda text: [cpuinfo.info(cpuinfo.blocks(text))],
    "cpuinfo frequency": lambda text: list(cpuinfo.frequency(cpuinfo.blocks(text))),
    "loadavg": loadavg.parse,
    "meminfo": meminfo.parse,
    "machine_check": machine_check.parse,
    "numa distances": lambda text: numa.parse_distances(text, 2),
    "numa meminfo": numa.parse_meminfo,
    "pcie_aer": pcie_aer.parse,
    "hugepages": lambda text: [hugepages.page_size(text)],
    "pressure": lambda text: pressure.parse("memory", text),
    "promtext": lambda text: promtext.parse(text.encode("utf-8", "surrogateescape")),
    "vmstat": lambda text: vmstat.parse(text, EVERY_FIELD),
}
# Random bytes hardly ever get past the first character; these pieces do.
PIECES = st.sampled_from(
    [
        "cpu0", "cpu", "processor", "cpu MHz", "MemTotal", "(anon)", "kB", "some", "full", " avg10=0.00", " avg60=0.00",
        " avg300=0.00", " total=", "# HELP ", "# TYPE ", "a", "a_sum", "a_bucket", "a_count", "histogram", "summary",
        "counter", "{", "}", '"', "\\", "=", 'le="1"', 'quantile="0.5"', ",", ":", " ", "\t", "\n", "\r", "\0", "1", "12",
        "0.5", "1e9", "-1", "NaN", "+Inf", "1_0", "0x10", "9" * 30, "é", "CPU0", "MCE:", "Node 0 MemFree:", "\u2028", "-",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES, max_size=40).map("".join),
    st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(max_size=100).filter(lambda text: text.isprintable()),
)


@pytest.mark.parametrize("name", PARSERS)
@given(text=TEXTS)
def test_only_a_collector_error_comes_out(name: str, text: str) -> None:
    with contextlib.suppress(CollectorError):
        list(PARSERS[name](text))
