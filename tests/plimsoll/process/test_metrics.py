"""Process metrics agree with what the kernel reports."""

import os
import resource
import subprocess
import sys
import time

from prometheus_client import CollectorRegistry, generate_latest

from plimsoll.process import metrics as process_metrics
from plimsoll.process.metrics import ProcessCollector


def values(collector):
    return {
        sample.name: sample.value for family in collector.collect() for sample in family.samples
    }


def test_metrics_of_this_process_agree_with_the_kernel():
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = values(ProcessCollector())
    assert found["process_cpu_seconds_total"] >= used.ru_utime + used.ru_stime - 0.02  # two ticks
    assert found["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 0 < found["process_resident_memory_bytes"] <= found["process_virtual_memory_bytes"]
    assert 0 < found["process_start_time_seconds"] <= time.time() + 1


def test_opened_descriptor_is_counted():
    collector = ProcessCollector()
    before = values(collector)["process_open_fds"]
    descriptor = os.open("/dev/null", os.O_RDONLY)
    try:
        assert values(collector)["process_open_fds"] == before + 1
    finally:
        os.close(descriptor)


def test_ended_process_has_no_metrics():
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as child:
        collector = ProcessCollector(child.pid)
        assert values(collector)["process_resident_memory_bytes"] > 0
        child.communicate(b"\n")
    assert values(collector) == {}


def test_register_adds_the_standard_metrics_of_a_python_program():
    registry = CollectorRegistry()
    process_metrics.register(registry)
    text = generate_latest(registry).decode()
    for name in ("process_cpu_seconds_total", "process_open_fds", "python_info", "python_gc_"):
        assert f"\n{name}" in text
