"""One odd token in a source costs the samples of its line, and no others: for each collector and each parser of a kernel's file."""

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.cpu import Options as CpuOptions
from collectors.interface import guard
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, Family
from collectors.netstat import Options as NetstatOptions
from collectors.registry import COLLECTORS
from collectors.stat import Options as StatOptions
from collectors.vmstat import Options as VmstatOptions
from tests.collectors.declared import declared

XEON = Path(__file__).parents[1] / "collectors/fixtures/xeon"
Parser = Callable[[str], Iterable[object]]
SAMPLES: dict[str, tuple[str, Parser]] = declared("SAMPLES")
_HEX = b"0x10"
HOSTILE = (
    *(b"", b"-1", b"-2031415926", b"18446744073709551616", b"\xe9\xff", b"Unknown", b"1 2"),
    *(_HEX, b"1_0", b"NaN", b"9" * 40, b"9" * 400, b"1e999"),
)
ALL = {
    "cpu": CpuOptions(cpu_info=True),
    "netstat": NetstatOptions(netstat_fields=".*"),
    "stat": StatOptions(stat_softirq=True),
    "vmstat": VmstatOptions(vmstat_fields=".*"),
}
_HERE = {"time", "timex", "uname", "filesystem"}
"""Collectors that describe the machine that runs the tests."""
_BY_PLACE = {"conntrack", "lnstat", "softnet"}
"""Collectors whose lines are CPUs by their place, or are added up: a line that is gone moves or changes the others."""


def files_of(name: str, root: Path) -> list[Path]:
    """Return the files of a fixture machine that a collector reads, by the sources in its table of metrics."""
    found: set[Path] = set()
    for metric in COLLECTORS[name].metrics:
        source = metric.source.replace("/1/net/", "/net/").partition(",")[0]
        place = re.sub(
            r"^<(?:procfs|sysfs|rootfs)>/",
            lambda m: {"<p": "proc/", "<s": "sys/", "<r": ""}[m[0][:2]],
            source,
        )
        if place != source:
            found.update(path for path in root.glob(re.sub(r"<\w+>", "*", place)) if path.is_file())
    return sorted(found)


NAMES = [name for name in COLLECTORS if name not in _HERE and files_of(name, XEON)]


def mutated(content: bytes, line: int, token: int, hostile: bytes) -> tuple[bytes, bytes]:
    """Return a file with one token replaced, and without that token's line."""
    lines = content.splitlines(keepends=True)
    number = line % len(lines)
    words = re.split(rb"(\s+)", lines[number])
    places = [place for place, word in enumerate(words) if word.strip()]
    if places:
        words[places[token % len(places)]] = hostile
    before, after = lines[:number], lines[number + 1 :]
    return b"".join([*before, *words, *after]), b"".join(before + after)


def series(found: Iterable[object]) -> set[str]:
    """Return samples, or other objects that a parser yields, in a form that can be compared."""
    shown: set[str] = set()
    for item in found:
        if isinstance(item, Family):
            shown.update(f"{sample}" for sample in item.samples)
        else:
            shown.add(repr(item))
    return shown


def read(found: Callable[[], Iterable[object]]) -> set[str] | None:
    try:
        return series(found())
    except CollectorError:
        return None


def check(whole: set[str], odd: set[str] | None, without: set[str] | None) -> None:
    """Check that all samples that do not depend on a line are as before if one of its tokens is odd.

    `without`: None if the token is not odd there, or nothing can be read without its line.
    """
    if without is None:
        return  # without this line, nothing can be read: it has the names of columns
    kept = whole & without
    assert odd is not None or not kept, "the collector failed"
    assert kept - (odd or set()) == set()


PLACES = st.tuples(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from(HOSTILE))


@pytest.mark.parametrize("name", SAMPLES)
@given(place=PLACES)
def test_odd_token_costs_its_line(name: str, place: tuple[int, int, bytes]) -> None:
    sample, parse = SAMPLES[name]
    content = (sample if "\n" in sample else (XEON / sample).read_text()).encode()
    odd, without = (text.decode("utf-8", "replace") for text in mutated(content, *place))
    check(series(parse(content.decode())), read(lambda: parse(odd)), read(lambda: parse(without)))


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Host:
    root = tmp_path_factory.mktemp("machine")
    shutil.copytree(XEON, root, symlinks=True, dirs_exist_ok=True)
    udev = root / "run/udev/data"
    return Host(name="x", procfs=root / "proc", sysfs=root / "sys", rootfs=root, udev=udev)


@pytest.mark.parametrize("name", NAMES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=st.integers(0, 10_000), place=PLACES)
def test_odd_token_costs_no_collector(
    name: str, machine: Host, file: int, place: tuple[int, int, bytes]
) -> None:
    entry = COLLECTORS[name]

    def collected() -> Iterable[object]:
        return list(entry.build(machine, ALL.get(name, entry.options())).collect())

    whole = read(collected)
    assert whole is not None
    files = files_of(name, machine.rootfs)
    path = files[file % len(files)]
    content = path.read_bytes()
    if not content.strip():
        return
    odd, without = mutated(content, *place)
    try:
        path.write_bytes(without)
        left = read(collected)
        path.write_bytes(odd)
        skipped, found = guard.skipped(), read(collected)
        if place[2] == _HEX and guard.skipped() == skipped:
            left = None  # a number of a column in hexadecimal
        if name not in _BY_PLACE:
            check(whole, found, left)
        elif left is not None:
            assert found is not None
    finally:
        path.write_bytes(content)
