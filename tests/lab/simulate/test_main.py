"""The command simulate: what it reads, what it compares, and its report."""

import gzip
import json
import random
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from evaluator.main import main
from lab.closed_loop.workload import TRACE_VALUES
from lab.simulate.report import as_svg

DEPLOY = Path(__file__).parents[3] / "deploy"
BALANCE = str(DEPLOY / "examples/balance/policy.yaml")
PACK = str(DEPLOY / "examples/pack/policy.yaml")
SMALL = ("--nodes=8", "--for=1h", "--load=0.5")
HEAD = "arrives,life,cpu_request,memory_request,cpu_limit,cpu_use,owner\n"
POLICY = """
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: "%s"}
spec: {strategies: {deschedule: {rules: [{metricname: %s, operator: GreaterThan, target: %s}]}}}
"""


def simulated(capsys, *arguments):
    """Both runs' figures."""
    assert main(("simulate", *arguments, "--output=json")) == 0
    found = json.loads(capsys.readouterr().out)
    return found["default"], found["simulated"], found


def test_shipped_policy_balances_a_steady_stream(capsys):
    default, balanced, _ = simulated(capsys, "-f", BALANCE, *SMALL, "--seed=3")
    assert balanced["deviation_percent"] < default["deviation_percent"]
    assert balanced["pods"] + balanced["pending"] == default["pods"] + default["pending"]


def test_shipped_policy_does_not_herd_bursts(capsys, tmp_path):
    arguments = ("--nodes=20", "--for=3h", "--load=0.5", "--burst", "--weight=10")
    default, balanced, _ = simulated(capsys, "-f", BALANCE, *arguments)
    by_reading = tmp_path / "policy.yaml"
    ignoring = "plimsoll.io/placed-since: ignore\n    plimsoll.io/ranking"
    by_reading.write_text(Path(BALANCE).read_text().replace("plimsoll.io/ranking", ignoring))
    _, herded, _ = simulated(capsys, "-f", str(by_reading), *arguments)
    assert balanced["deviation_percent"] < 1.1 * default["deviation_percent"]
    assert herded["deviation_percent"] > 1.25 * balanced["deviation_percent"]


def test_shipped_policy_packs(capsys):
    default, packed, _ = simulated(capsys, "-f", PACK, *SMALL, "--weight=10", "--load=0.3")
    assert packed["deviation_percent"] > default["deviation_percent"]


def test_the_same_arguments_give_the_same_report(capsys):
    arguments = ("-f", BALANCE, *SMALL, "--burst", "--seed=5")
    assert simulated(capsys, *arguments) == simulated(capsys, *arguments)


def test_traces_of_a_file_are_used(capsys, tmp_path):
    traces = tmp_path / "day.csv"
    traces.write_text(",".join(["50"] * TRACE_VALUES) + "\n")
    default, _, found = simulated(capsys, "-f", BALANCE, *SMALL, f"--traces={traces}")
    assert "day.csv" in found["about"]
    assert default["p50_percent"] > 20


@pytest.fixture
def recording(tmp_path):
    """A busy and an idle node for ten minutes, and ten pods."""
    lines = [
        f'node_cpu_used_cores{{node="{node}"}} {use} {1_700_000_000 + 15 * n}'
        for n in range(41)
        for node, use in (("busy", 6), ("idle", 1))
    ]
    dump, pods = tmp_path / "day.om", tmp_path / "pods.csv"
    dump.write_text("\n".join(["# TYPE node_cpu_used_cores gauge", *lines, "# EOF"]) + "\n")
    rows = [
        f"{30 * n + 60},inf_or_600,0.1,1e8,1,0.5 0.6,".replace("inf_or_", "") for n in range(10)
    ]
    pods.write_text(HEAD + "\n".join(rows) + "\n")
    return dump, pods


def test_pods_are_placed_beside_recorded_use(capsys, recording):
    dump, pods = recording
    arguments = ("-f", BALANCE, f"--openmetrics={dump}", f"--arrivals={pods}", "--cores=8")
    default, balanced, found = simulated(capsys, *arguments, "--weight=10")
    assert "10 pods of pods.csv" in found["about"]
    assert default["pods"] == balanced["pods"] == 10
    assert balanced["most_percent"] < default["most_percent"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("", "no pods: expected the columns arrives, life"),
        ("1,2,3,4,5\n", "line 2: not a number"),
        ("1,2,3,4,5,nan,\n", "line 2: numbers must be finite and at least 0"),
        ("-1,2,3,4,5,6,\n", "line 2: numbers must be finite and at least 0"),
        ("1,2,3,4,5,,\n", "line 2: numbers must be finite and at least 0"),
        (f"1,2,3,4,5,6,{'x' * 300}\n", "is too long"),
        (f"1,2,3,4,5,{'1 ' * 3000},\n", "more than a week of values"),
    ],
)
def test_malformed_arrivals_are_refused(capsys, recording, row, message):
    dump, pods = recording
    pods.write_text(HEAD + row)
    arguments = (f"--openmetrics={dump}", f"--arrivals={pods}")
    assert main(("simulate", "-f", BALANCE, *arguments)) == 2
    assert message in capsys.readouterr().err


def test_arrivals_without_a_column_are_refused(capsys, recording):
    dump, pods = recording
    pods.write_text("arrives,life\n1,2\n")
    assert main(("simulate", "-f", BALANCE, f"--openmetrics={dump}", f"--arrivals={pods}")) == 2
    assert "no column cpu_request, memory_request, cpu_limit, cpu_use" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--nodes=0",), "must be a whole number from 1 to 5000"),
        (("--load=-1",), "must be a number above 0"),
        (("--load=nan",), "must be a number above 0"),
        (("--for=1m",), "must be from 10m to 7d"),
        (("--openmetrics=x.om",), "need each other"),
        (("--openmetrics=x.om", "--arrivals=y", "--traces=z"), "--traces is for generated pods"),
    ],
)
def test_invalid_arguments_are_refused(capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        main(("simulate", "-f", BALANCE, *arguments))
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--traces=missing.csv",), "missing.csv: cannot be read"),
        (("--nodes=5000", "--for=7d"), "too many nodes for so long"),
    ],
)
def test_input_that_cannot_be_simulated_is_an_error(capsys, arguments, message):
    assert main(("simulate", "-f", BALANCE, *arguments)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (",".join(["0"] * TRACE_VALUES), "the load takes inf pods"),
        ("1," * 10_000, "a line of more than 16384 characters"),
        (",".join(["1e-9"] * TRACE_VALUES), "traces that use more CPU"),
        ("\x00" * 100, "line 1: not numbers"),
    ],
)
def test_hostile_traces_are_refused(capsys, tmp_path, content, message):
    packed = tmp_path / "day.csv.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    assert main(("simulate", "-f", BALANCE, f"--traces={packed}")) == 2
    assert message in capsys.readouterr().err


def test_truncated_gzip_is_refused(capsys, tmp_path):
    packed = tmp_path / "day.csv.gz"
    packed.write_bytes(gzip.compress(random.Random(1).randbytes(5000).hex().encode())[:-9])
    assert main(("simulate", "-f", BALANCE, f"--traces={packed}")) == 2
    assert "incomplete gzip file" in capsys.readouterr().err


def test_metric_that_is_not_simulated_is_named(capsys, tmp_path):
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY % ("p", "health_metric", "0"))
    assert main(("simulate", "-f", str(policy))) == 2
    assert (
        "health_metric: not simulated; simulated metrics are cpu_headroom"
        in capsys.readouterr().err
    )


def test_page_and_picture_are_complete_without_a_network(capsys):
    assert main(("simulate", "-f", BALANCE, *SMALL, "-o", "html")) == 0
    page = capsys.readouterr().out
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "node-minutes over 80 %" in page
    assert main(("simulate", "-f", BALANCE, *SMALL, "-o", "svg")) == 0
    picture = ElementTree.fromstring(capsys.readouterr().out)
    lines = [one for one in picture.iter() if one.tag.endswith("polyline")]
    assert len(lines) == 2 * 8


def test_names_are_escaped():
    svg = as_svg([("<script>alert(1)</script>", np.zeros((3, 2)))], 3)
    assert "<script" not in svg
    ElementTree.fromstring(svg)
