import errno
import mmap
import os
import struct
from collections.abc import Callable, Mapping

import pytest

from agent import config
from collectors import perf
from collectors.interface.host import Host
from collectors.interface.sample import CollectorError, SourceAbsentError
from collectors.perf import Event, EventCounter, Perf, parse_ranges
from collectors.perf import Options as PerfOptions
from plimsoll.flags import options

CYCLES, FAULTS, READ_MISSES = Event(0, 0), Event(1, 2), Event(3, 1 << 16)


def descriptor(*readings: tuple[int, int, int]) -> int:
    """An event with these readings, each of count, time enabled and time running."""
    reader, writer = os.pipe()
    for reading in readings:
        os.write(writer, struct.pack("=QQQ", *reading))
    os.close(writer)
    return reader


def kernel(counts: Mapping[Event, int]) -> Callable[[Event, int], int]:
    """A machine that has these events; on CPU 1 with ten times the count."""

    def opened(event: Event, cpu: int) -> int:
        if event not in counts:
            raise OSError(errno.ENOENT, "No such file or directory")
        return descriptor((counts[event] * 10**cpu, 100, 100))

    return opened


def test_events_of_this_machine_are_counted_on_each_cpu(values) -> None:
    opened = kernel({CYCLES: 5, FAULTS: 7, READ_MISSES: 2})
    found = values(Perf(Host(), PerfOptions(perf_cpus="0-1"), open_event=opened).collect())
    assert found == {
        'node_perf_cpucycles_total{cpu="0"}': 5,
        'node_perf_cpucycles_total{cpu="1"}': 50,
        'node_perf_page_faults_total{cpu="0"}': 7,
        'node_perf_page_faults_total{cpu="1"}': 70,
        'node_perf_cache_l1d_read_misses_total{cpu="0"}': 2,
        'node_perf_cache_l1d_read_misses_total{cpu="1"}': 20,
    }


def test_events_can_be_chosen(values) -> None:
    opened = kernel({CYCLES: 5, Event(0, 1): 6, FAULTS: 7, READ_MISSES: 2})
    options = PerfOptions("0", perf_hardware=("CpuInstr",), perf_no_cache=True)
    found = values(Perf(Host(), options, open_event=opened).collect())
    assert list(found) == [
        'node_perf_instructions_total{cpu="0"}',
        'node_perf_page_faults_total{cpu="0"}',
    ]


def test_tracepoint_is_counted(plant, values) -> None:
    host = plant({"sys/kernel/tracing/events/sched/sched_process_exec/id": "312\n"})
    options = PerfOptions("0", ("sched:sched_process_exec",))
    found = values(Perf(host, options, open_event=kernel({Event(2, 312): 9})).collect())
    assert found == {'node_perf_sched_sched_process_exec{cpu="0"}': 9}


def test_unknown_tracepoint_is_an_error(plant) -> None:
    collector = Perf(plant({}), PerfOptions("0", ("a:b",)), open_event=kernel({FAULTS: 1}))
    with pytest.raises(CollectorError, match="no tracepoint a:b"):
        list(collector.collect())


def test_increases_are_scaled_by_the_share_of_time_that_the_counter_ran() -> None:
    counter = EventCounter(descriptor((10, 100, 50), (40, 200, 150), (40, 300, 150)))
    assert [counter.read() for _ in range(3)] == [20, 50, 50]


def test_counter_of_a_cpu_that_went_offline_keeps_its_value() -> None:
    counter = EventCounter(descriptor((10, 100, 100)))
    assert [counter.read() for _ in range(2)] == [10, 10]


def test_missing_permission_is_an_error_that_says_what_to_do() -> None:
    def opened(_event: Event, _cpu: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(CollectorError, match="needs CAP_PERFMON"):
        list(Perf(Host(), PerfOptions(), open_event=opened).collect())


def test_machine_without_counters_has_no_source() -> None:
    with pytest.raises(SourceAbsentError):
        list(Perf(Host(), PerfOptions(), open_event=kernel({})).collect())


def test_page_faults_of_this_machine_grow(values) -> None:
    options = PerfOptions(perf_no_hardware=True, perf_no_cache=True, perf_software=("PageFault",))
    collector = Perf(Host(), options)
    try:
        before = sum(values(collector.collect()).values())
    except CollectorError as error:
        pytest.skip(str(error))
    with mmap.mmap(-1, 1 << 24) as pages:  # always new pages: an allocator would reuse touched ones
        pages[:: 1 << 12] = bytes(range(256)) * (len(pages) // (1 << 20))
    assert sum(values(collector.collect()).values()) > before


def test_flags_name_and_accept_all_events() -> None:
    tables = {"hardware": perf._HARDWARE, "software": perf._SOFTWARE, "cache": perf._CACHE}
    accepted = {option.flag: option for _, option in options(PerfOptions)}
    for kind, rows in tables.items():
        option = accepted[f"collector.perf.{kind}-profilers"]
        names = [row[0] for row in rows]
        assert option.help.endswith(": " + ", ".join(names))
        assert [option.parse(name) for name in names] == names


@pytest.mark.parametrize(
    "flag",
    ["cpus=x", "tracepoint=exec", "hardware-profilers=Cycles", "cpus=3-1-2"],
)
def test_mistaken_flag_is_rejected(flag: str, capsys) -> None:
    with pytest.raises(SystemExit):
        config.parse([f"--collector.perf.{flag}"], {}, hostname="h")
    assert f"--collector.perf.{flag.partition('=')[0]}: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", []),
        ("3", [3]),
        ("0,2-4", [0, 2, 3, 4]),
        ("1-10:5", [1, 6]),
        ("6-12:3,0", [0, 6, 9, 12]),
        ("4-2", []),
    ],
)
def test_ranges_are_parsed(text: str, cpus: list[int]) -> None:
    assert parse_ranges(text) == cpus


@pytest.mark.parametrize("text", ["x", "1-", "-1", "1-2-3", "1:2", "0-5:0", "99999"])
def test_other_text_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a list of CPUs"):
        parse_ranges(text)
