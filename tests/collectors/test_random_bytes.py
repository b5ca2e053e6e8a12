"""Parsers yield families of the catalog or raise CollectorError for any bytes."""

import contextlib
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.interface.sample import CollectorError
from tests.collectors.declared import declared

PARSERS: dict[str, Callable[[str], Iterable[object]]] = declared("PARSERS")
# Random bytes rarely get past the first character; these parts do.
PIECES = st.sampled_from(
    [
        "cpu0", "cpu", "processor", "cpu MHz", "MemTotal", "(anon)", "kB", "some", "full", " avg10=0.00", " avg60=0.00",
        " avg300=0.00", " total=", "# HELP ", "# TYPE ", "a", "a_sum", "a_bucket", "a_count", "histogram", "summary",
        "counter", "{", "}", '"', "\\", "=", 'le="1"', 'quantile="0.5"', ",", ":", " ", "\t", "\n", "\r", "\0", "1", "12",
        "0.5", "1e9", "-1", "NaN", "+Inf", "1_0", "0x10", "9" * 30, "é", "CPU0", "MCE:", "Node 0 MemFree:", "\u2028", "-",
        "Node 0, zone DMA", "\nNode 0, zone DMA\n", "protection: (", " : tunables ", "E:ID_ATA=1\n", "E:ID_ATA_WRITE_CACHE=",
        "softirq", "ctxt ", "HI:", "VERSION_ID=", "SUPPORT_END=", "2026-02-30", "0:21", " - ", "ro", "\\040", ") S ",
        "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", "numa_hit", "intr", "\nmd0 : active raid1 sda[0](F)\n", " 12 blocks", "[2/1] [U_]", "resync = (1/2)",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(PIECES, max_size=40).map("".join),
    st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.text(max_size=100).filter(lambda text: text.isprintable()),
)


@pytest.mark.parametrize("name", PARSERS)
@given(text=TEXTS)
def test_only_collector_errors_are_raised(name: str, text: str) -> None:
    with contextlib.suppress(CollectorError):
        list(PARSERS[name](text))
