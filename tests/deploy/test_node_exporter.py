"""The agent in place of node_exporter under kube-prometheus: what node-mixin reads has data, under the labels it selects by.

node-mixin: https://github.com/prometheus/node_exporter/tree/master/docs/node-mixin. Here are the names that it reads on Linux and
the labels that it selects or groups by, as of 2026-08; not its text.
"""

import contextlib
import shutil
import sys
import time

import pytest

from release import chart as generator
from tests import prometheus
from tests.agent.beside import LISTEN, PORT, running
from tests.agent.conftest import FIXTURES
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.e2e,
    *(
        pytest.mark.skipif(not shutil.which(program), reason=f"{program} is not installed")
        for program in ("prometheus", "kubectl")
    ),
]

READ = {
    "node_bonding_active": {"master"},
    "node_bonding_slaves": {"master"},
    "node_cpu_seconds_total": {"cpu", "mode"},
    "node_disk_io_time_seconds_total": {"device"},
    "node_disk_io_time_weighted_seconds_total": {"device"},
    "node_disk_read_bytes_total": {"device"},
    "node_disk_written_bytes_total": {"device"},
    "node_exporter_build_info": set(),
    "node_filefd_allocated": set(),
    "node_filefd_maximum": set(),
    "node_filesystem_avail_bytes": {"device", "fstype", "mountpoint"},
    "node_filesystem_files": {"device", "fstype", "mountpoint"},
    "node_filesystem_files_free": {"device", "fstype", "mountpoint"},
    "node_filesystem_readonly": {"device", "fstype", "mountpoint"},
    "node_filesystem_size_bytes": {"device", "fstype", "mountpoint"},
    "node_load1": set(),
    "node_load5": set(),
    "node_load15": set(),
    "node_md_disks": {"device", "state"},
    "node_md_disks_required": {"device"},
    "node_memory_Buffers_bytes": set(),
    "node_memory_Cached_bytes": set(),
    "node_memory_MemAvailable_bytes": set(),
    "node_memory_MemFree_bytes": set(),
    "node_memory_MemTotal_bytes": set(),
    "node_memory_Slab_bytes": set(),
    "node_network_receive_bytes_total": {"device"},
    "node_network_receive_drop_total": {"device"},
    "node_network_receive_errs_total": {"device"},
    "node_network_receive_packets_total": {"device"},
    "node_network_transmit_bytes_total": {"device"},
    "node_network_transmit_drop_total": {"device"},
    "node_network_transmit_errs_total": {"device"},
    "node_network_transmit_packets_total": {"device"},
    "node_nf_conntrack_entries": set(),
    "node_nf_conntrack_entries_limit": set(),
    "node_textfile_scrape_error": set(),
    "node_time_seconds": set(),
    "node_timex_maxerror_seconds": set(),
    "node_timex_offset_seconds": set(),
    "node_timex_sync_status": set(),
    "node_uname_info": {"nodename"},
    "node_vmstat_pgmajfault": set(),
}
POD = 'label_replace(label_replace(label_replace(vector(1), "namespace", "plimsoll", "", ""), "pod", "agent-a", "", ""), "node", "node-a", "", "")'
"""One series as kube-state-metrics has it for each pod: kube_pod_info."""
SHAPES = {
    '1 - avg without (cpu) (sum without (mode) (rate(node_cpu_seconds_total{$,mode=~"idle|iowait|steal"}[1m])))': ("node-a", 1),
    'count without (cpu, mode) (node_cpu_seconds_total{$,mode="idle"})': ("node-a", 4),
    f'count by (node) (node_cpu_seconds_total{{$,mode="idle"}} * on (namespace, pod) group_left (node) {POD})': ("node-a", 4),
    '1 - node_memory_MemAvailable_bytes{$} / node_memory_MemTotal_bytes{$}': ("node-a", 1 - 40116204 / 65782140),
    'sum without (device) (rate(node_network_receive_bytes_total{$,device!="lo"}[1m]))': ("node-a", 0),
    'rate(node_disk_io_time_seconds_total{$,device=~"(/dev/)?(mmcblk.p.+|nvme.+|rbd.+|sd.+|vd.+|xvd.+|dm-.+|md.+|dasd.+)"}[1m])': ("node-a", 0),
    'sum by (instance, job) (node_load1{$}) / count by (instance, job) (node_cpu_seconds_total{$,mode="idle"})': ("node-a", 3.42 / 4),
    'max without (fstype, mountpoint) (node_filesystem_size_bytes{$,fstype!="",mountpoint!=""})': ("node-b", None),
    'predict_linear(node_filesystem_avail_bytes{$,fstype!="",mountpoint!=""}[1h], 3600) > bool 0 and node_filesystem_readonly{$,fstype!="",mountpoint!=""} == bool 0': ("node-b", None),
    'node_bonding_slaves{$} - node_bonding_active{$}': ("node-b", 0),
    'count by (instance) (node_uname_info{$,sysname!="Darwin"})': ("node-a", 1),
    'group by (instance) (node_exporter_build_info{$})': ("node-a", 1),
    'count by (instance) (up{$} == 1)': ("node-a", 1),
    'min_over_time(node_timex_sync_status{$}[1m]) == bool 0 and node_timex_maxerror_seconds{$} >= bool 16': ("node-a", None),
    # The machine of the fixture has an array with a failed disk.
    'sum by (instance) (node_md_disks{$,state="failed"}) > 0': ("node-a", 1),
    'node_md_disks_required{$} - ignoring (state) node_md_disks{$,state="active"} > 0': ("node-a", 1),
}  # fmt: skip
"""Operations of the kinds that rules and dashboards of node-mixin and kubernetes-mixin use -> a node of the result, and its
value; $ stands for the selector of the job."""
SELECTOR = 'job="node-exporter"'


@pytest.fixture(scope="module")
def relabelings():
    """Those of the PodMonitor, in Prometheus' own words, after those that the Prometheus operator adds to any monitor."""
    monitor = generator.build("monitoring", "node-exporter")["PodMonitor", "plimsoll-agent"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    operator = {"namespace": "namespace", "pod_container_name": "container", "pod_name": "pod"}
    added = [{"source_labels": [f"__meta_kubernetes_{found}"], "target_label": label} for found, label in operator.items()]  # fmt: skip
    job = {"target_label": "job", "replacement": "plimsoll/plimsoll-agent"}
    own = [
        {names.get(key, key): value for key, value in one.items()}
        for one in endpoint["relabelings"]
    ]
    return [*added, job, *own]


@pytest.fixture(scope="module")
def ask(tmp_path_factory, relabelings):
    """Query a Prometheus that scrapes an agent of a fixture machine, found as a pod on node-a."""
    root = FIXTURES / "xeon"
    paths = [f"--path.{name}fs={root / name}" for name in ("proc", "sys")]
    text = tmp_path_factory.mktemp("text")
    agent = (sys.executable, "-P", "-m", "agent", LISTEN, "--web.node-exporter-compat", *paths, f"--path.rootfs={root}", f"--collector.textfile.directory={text}")  # fmt: skip
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(running(agent, PORT))
        # The file systems of the fixture are not mounted here, and it has no bond: a second agent.
        few = ("--collector.disable-defaults", "--collector.filesystem", "--collector.bonding")
        other = (*agent[:5], *few, f"--path.sysfs={bond(text)}")
        here = stack.enter_context(running(other, PORT))
        found = [
            {"targets": [target], "labels": {f"__meta_kubernetes_{name}": value for name, value in discovered(letter).items()}}
            for target, letter in ((address, "a"), (here, "b"))
        ]  # fmt: skip
        job = {"job_name": "podMonitor/plimsoll/plimsoll-agent/0", "static_configs": found, "relabel_configs": relabelings}  # fmt: skip
        times = {"scrape_interval": "500ms", "scrape_timeout": "500ms"}
        config = {"global": times, "scrape_configs": [job]}
        server = stack.enter_context(prometheus.running(tmp_path_factory.mktemp("p"), config))

        # At one moment, before which all scrapes have ended: on a busy machine a later one can take too long.
        samples = f"sum(up{{{SELECTOR}}}) == 2 and count(count_over_time(node_load1{{{SELECTOR}}}[1m]) > 3)"
        deadline = time.monotonic() + PATIENCE
        while not server.ask(samples, moment := int(time.time() * 1000) - 1000):
            assert time.monotonic() < deadline, "no samples"
            time.sleep(0.1)
        yield lambda expression: server.ask(expression, moment)


def discovered(letter):
    """What Prometheus finds of an agent's pod."""
    return {"pod_node_name": f"node-{letter}", "namespace": "plimsoll", "pod_name": f"agent-{letter}", "pod_container_name": "agent"}  # fmt: skip


def bond(folder):
    """A sysfs with two network devices in a bond."""
    device = folder / "sys/class/net/bond0"
    for slave in ("eth0", "eth1"):
        (device / f"lower_{slave}/bonding_slave").mkdir(parents=True)
        (device / f"lower_{slave}/bonding_slave/mii_status").write_text("up\n")
    (device / "bonding").mkdir()
    (device / "bonding/slaves").write_text("eth0 eth1\n")
    (device.parent / "bonding_masters").write_text("bond0\n")
    return folder / "sys"


def test_the_agents_have_the_flag_for_dashboards():
    daemonset = generator.build("core", "node-exporter")["DaemonSet", "plimsoll-agent"]
    (found,) = daemonset["spec"]["template"]["spec"]["containers"]
    assert "--web.node-exporter-compat" in found["args"]


@pytest.mark.parametrize("metric", READ)
def test_metric_of_node_mixin_has_data_with_its_labels(ask, metric):
    found = ask(f"{metric}{{{SELECTOR}}}")
    assert found
    for one in found:
        names = {name for name, _ in one}
        assert names >= {"instance", "job", "node"} | READ[metric]
        assert ("instance", "node-a") in one or ("instance", "node-b") in one


@pytest.mark.parametrize("expression", SHAPES)
def test_operations_of_rules_and_dashboards_have_their_result(ask, expression):
    node, value = SHAPES[expression]
    deadline = time.monotonic() + PATIENCE
    while not (found := ask(expression.replace("$", SELECTOR))):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    of_node = [one for labels, one in found.items() if {("instance", node), ("node", node)} & set(labels)]  # fmt: skip
    assert of_node
    if value is not None:
        assert of_node == pytest.approx([value] * len(of_node))


def test_no_series_of_the_agents_has_another_job(ask):
    """An alert that node_exporter is absent does not fire, and nothing is counted twice."""
    assert ask(f"absent(up{{{SELECTOR}}} == 1)") == {}
    assert ask(f"count(up{{{SELECTOR}}})") == ask("count(up)")
