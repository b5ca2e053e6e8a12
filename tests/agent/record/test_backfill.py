"""`plimsoll backfill`: recording rules over recorded samples, as input of a backtest."""

import asyncio
import subprocess
import sys

import pytest

from agent.rules.storage import exposition
from tests import preloaded

BEGIN = 1_763_164_800
RULES = """
groups:
- name: load
  rules:
  - {record: load_average, expr: 'avg_over_time(node_load1[1m])'}
  - {record: load_twice, expr: '2 * load_average', labels: {kind: double}}
  - {record: numa_sum, expr: 'sum(numa)'}
"""
PROGRAM = (sys.executable, "-P", "-m", "agent", "backfill")


def dump(series, every=15):
    lines = [
        f"{head} {value} {BEGIN + every * number}\n"
        for head, values in series.items()
        for number, value in enumerate(values)
    ]
    return "".join([*lines, "# EOF\n"])


@pytest.fixture
def run(tmp_path):
    def run_program(text, rules=RULES, *flags):
        (tmp_path / "rules.yaml").write_text(rules)
        (tmp_path / "dump.om").write_text(text)
        files = (f"--rules.file={tmp_path / 'rules.yaml'}", str(tmp_path / "dump.om"))
        command = (*PROGRAM, *files, *flags)
        return subprocess.CompletedProcess(command, *asyncio.run(preloaded.run(command)))

    return run_program


def results(done):
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("# EOF\n")
    found = {}
    for labels, time, value in exposition.parse(done.stdout).samples:
        found.setdefault(labels, []).append((time // 1000 - BEGIN, value))
    return found


@pytest.mark.e2e
def test_rules_see_the_samples_of_their_node_and_the_rules_before_them(run):
    found = results(
        run(
            dump(
                {
                    'node_load1{instance="a:9100",job="node"}': [1, 3, 5],
                    'node_load1{node="b"}': [10, 20, 30],
                    'numa{node="b",exported_node="0"}': [1, 1, 1],
                    'numa{node="b",exported_node="1"}': [2, 2, 2],
                }
            )
        )
    )
    assert found[("__name__", "load_average"), ("node", "a")] == [(0, 1), (15, 2), (30, 3)]
    assert found[("__name__", "load_average"), ("node", "b")] == [(0, 10), (15, 15), (30, 20)]
    twice = found[("__name__", "load_twice"), ("kind", "double"), ("node", "b")]
    assert twice == [(0, 20), (15, 30), (30, 40)]
    assert found[("__name__", "numa_sum"), ("node", "b")][-1] == (30, 3)
    assert (("__name__", "numa_sum"), ("node", "a")) not in found


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("instance", "node"),
    [
        ("worker-1", "worker-1"),
        ("worker-1:9100", "worker-1"),
        ("[fd00::7]:9100", "fd00::7"),
        ("fd00::7", "fd00::7"),
        ("10.0.0.5:9100", "10.0.0.5"),
    ],
)
def test_node_is_the_host_of_an_instance(run, instance, node):
    found = results(run(dump({f'node_load1{{instance="{instance}",job="n"}}': [1, 3]})))
    assert found[("__name__", "load_average"), ("node", node)] == [(0, 1), (15, 2)]


@pytest.mark.e2e
def test_samples_of_no_node_are_an_error(run):
    done = run(dump({'node_load1{job="n",pod="x"}': [1, 3]}))
    assert (done.returncode, done.stdout) == (1, "")
    assert "no sample names a node" in done.stderr


@pytest.mark.e2e
def test_stale_marker_of_promtool_ends_its_series(run):
    rules = "groups: [{name: g, rules: [{record: now, expr: node_load1}, {record: mean, expr: 'avg_over_time(node_load1[10m])'}]}]"
    found = results(run(dump({'node_load1{node="a"}': [4, 6, "NaN", "NaN", 8]}), rules))
    assert found[("__name__", "now"), ("node", "a")] == [(0, 4), (15, 6), (60, 8)]
    assert found[("__name__", "mean"), ("node", "a")] == [
        (0, 4),
        (15, 5),
        (30, 5),
        (45, 5),
        (60, 6),
    ]


@pytest.mark.e2e
def test_only_chosen_series_and_what_they_need_are_evaluated(run):
    text = dump({'node_load1{node="a"}': [1, 3], 'numa{node="a",exported_node="0"}': [1, 1]})
    found = results(run(text, RULES, "--metrics=load_twice"))
    names = {dict(labels)["__name__"] for labels in found}
    assert names == {"load_average", "load_twice"}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("text", "rules", "message"),
    [
        ("what\n", RULES, "line 1: not a sample"),
        (dump({}), "groups: []", "no rules"),
        (dump({}), "groups: [{name: g, rules: [{record: x, expr: 'sum('}]}]", "rule x of g"),
    ],
)
def test_mistakes_get_one_sentence(run, text, rules, message):
    done = run(text, rules)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.e2e
def test_samples_count_at_the_first_evaluation_after_them(run):
    found = results(run(dump({'node_load1{node="a"}': [1, 3]}, every=20)))
    assert found[("__name__", "load_average"), ("node", "a")] == [(0, 1), (30, 2)]
