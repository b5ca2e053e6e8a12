"""Queries of the dashboard "Node Exporter Full" find the same series of the agent as of node_exporter on this machine."""

import contextlib
import json
import shutil
import sys
import time
import urllib.parse
import urllib.request

import pytest

from tests.agent.beside import LISTEN, PEER, PORT, running
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.e2e,
    *(
        pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")
        for program in (PEER, "prometheus")
    ),
]
# $ stands for the job. The last is the dashboard's variable.
TEXT = """
rate(node_pressure_cpu_waiting_seconds_total{$}[1m])
rate(node_pressure_memory_waiting_seconds_total{$}[1m])
rate(node_pressure_io_waiting_seconds_total{$}[1m])
100 * (1 - avg(rate(node_cpu_seconds_total{mode="idle",$}[1m])))
scalar(node_load1{$}) * 100 / count(count(node_cpu_seconds_total{$}) by (cpu))
clamp_min((1 - (node_memory_MemAvailable_bytes{$} / node_memory_MemTotal_bytes{$})) * 100, 0)
(node_memory_SwapTotal_bytes{$} > bool 0) * (node_memory_SwapTotal_bytes{$} - node_memory_SwapFree_bytes{$})
(node_filesystem_size_bytes{$,mountpoint="/",fstype!="rootfs"} - node_filesystem_avail_bytes{$,mountpoint="/",fstype!="rootfs"})
count(count(node_cpu_seconds_total{$}) by (cpu))
node_time_seconds{$} - node_boot_time_seconds{$}
avg(rate(node_cpu_seconds_total{$,mode="system"}[1m]))
avg(sum without(mode) (rate(node_cpu_seconds_total{$,mode=~".*irq"}[1m])))
sum(rate(node_cpu_seconds_total{mode="steal",$}[1m])) / scalar(count(count(node_cpu_seconds_total{$}) by (cpu)))
node_memory_MemTotal_bytes{$} - node_memory_MemFree_bytes{$} - (node_memory_Cached_bytes{$} + node_memory_Buffers_bytes{$} + node_memory_SReclaimable_bytes{$})
node_memory_Slab_bytes{$}
node_memory_PageTables_bytes{$}
node_memory_HardwareCorrupted_bytes{$}
node_memory_Committed_AS_bytes{$}
node_memory_Dirty_bytes{$}
node_memory_Inactive_anon_bytes{$}
node_memory_Percpu_bytes{$}
node_memory_AnonHugePages_bytes{$}
rate(node_vmstat_pgpgin{$}[1m])
rate(node_vmstat_pgmajfault{$}[1m])
rate(node_vmstat_oom_kill{$}[1m])
rate(node_network_receive_bytes_total{$}[1m]) * 8
rate(node_network_transmit_packets_total{$}[1m])
rate(node_network_receive_drop_total{$}[1m])
node_network_up{$}
node_network_mtu_bytes{$}
rate(node_disk_reads_completed_total{$,device=~"[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+"}[1m])
rate(node_disk_written_bytes_total{$,device=~"[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+"}[1m])
rate(node_disk_io_time_seconds_total{$,device=~"[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+"}[1m])
node_filesystem_avail_bytes{$,device!~"rootfs"}
node_filesystem_files_free{$,device!~"rootfs"}
node_filesystem_readonly{$,device!~"rootfs"}
node_load5{$}
rate(node_context_switches_total{$}[1m])
rate(node_intr_total{$}[1m])
node_procs_running{$}
node_filefd_allocated{$}
node_entropy_available_bits{$}
node_timex_offset_seconds{$}
rate(node_softnet_processed_total{$}[1m])
node_sockstat_TCP_inuse{$}
node_sockstat_sockets_used{$}
rate(node_netstat_IpExt_InOctets{$}[1m])
rate(node_netstat_Tcp_InSegs{$}[1m])
rate(node_netstat_Udp_InDatagrams{$}[1m])
node_netstat_Tcp_CurrEstab{$}
node_arp_entries{$}
node_scrape_collector_success{$,collector=~"cpu|meminfo|netdev|filesystem|diskstats|loadavg|stat"}
node_uname_info{$}
"""
QUERIES = TEXT.strip().split("\n")


@pytest.fixture(scope="module")
def query(tmp_path_factory):
    """Query a Prometheus that scrapes both; returns label sets without the target's own."""
    folder = tmp_path_factory.mktemp("dashboard")
    agent = (sys.executable, "-P", "-m", "agent", "--web.node-exporter-compat", LISTEN)
    with contextlib.ExitStack() as stack:
        targets = {
            "agent": stack.enter_context(running(agent, PORT)),
            "peer": stack.enter_context(running((PEER, LISTEN), PORT)),
        }
        jobs = [
            {"job_name": job, "static_configs": [{"targets": [address]}]}
            for job, address in targets.items()
        ]
        times = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
        config = {"global": times, "scrape_configs": jobs}
        (folder / "prometheus.yml").write_text(json.dumps(config))
        argv = (
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            LISTEN,
        )
        ready = r"(?=.*Server is ready).*Listening on.*?(127\.0\.0\.1:\d+)"
        server = stack.enter_context(running(argv, ready))

        def ask(expression: str) -> list[frozenset[tuple[str, str]]]:
            form = urllib.parse.urlencode({"query": expression})
            with urllib.request.urlopen(
                f"http://{server}/api/v1/query?{form}", timeout=PATIENCE
            ) as reply:
                answer = json.load(reply)
            return [
                frozenset(one["metric"].items() - {("job", "agent"), ("job", "peer")})
                for one in answer["data"]["result"]
            ]

        deadline = time.monotonic() + PATIENCE
        while len(ask("count_over_time(node_load1[1m]) > 3")) < 2:
            assert time.monotonic() < deadline, "no samples of both programs"
            time.sleep(0.1)
        yield ask


def missing(query, expression):
    """Return label sets that only node_exporter's result has; later releases added labels such as device_error."""
    own, peer = (query(expression.replace("$", f'job="{job}"')) for job in ("agent", "peer"))
    bare = [{pair for pair in labels if pair[0] != "instance"} for labels in peer]
    return [labels for labels in bare if not any(labels <= found for found in own)]


@pytest.mark.parametrize("expression", QUERIES)
def test_query_of_the_dashboard_finds_what_it_finds_with_node_exporter(query, expression) -> None:
    deadline = time.monotonic() + PATIENCE
    while lost := missing(query, expression):  # devices may have been added between two scrapes
        assert time.monotonic() < deadline, lost
        time.sleep(0.1)


def test_most_queries_find_something_on_this_machine(query) -> None:
    found = [expression for expression in QUERIES if query(expression.replace("$", 'job="peer"'))]
    assert len(found) >= 40


def test_build_info_has_the_labels_of_node_exporter(query) -> None:
    own, peer = (query(f'node_exporter_build_info{{job="{job}"}}') for job in ("agent", "peer"))
    names = [{name for name, _ in labels} - {"__name__", "instance"} for (labels,) in (own, peer)]
    assert names[0] >= names[1]
    assert ("goos", "linux") in own[0]
