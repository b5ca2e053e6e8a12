"""The placement benchmark at a small size."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from bench.placement import table
from bench.placement.systems import SYSTEMS, TABLE
from lab.closed_loop.use import UseHistory
from lab.closed_loop.workload import Nodes, SimulatedPod, equal_pods
from sandbox.envtest import NoControlPlaneError, find
from tests.bench import conftest

pytestmark = pytest.mark.features("evictions", "scorers")

PROGRAM = Path(table.__file__)


def lines_of(*arguments):
    return {line["system"]: line for line in conftest.lines_of(PROGRAM, *arguments)}


@pytest.mark.e2e
def test_table_shows_that_ranking_by_the_last_reading_herds():
    lines = lines_of(
        *("--scenarios=burst", "--seeds=1", "--workers=1"),
        "--systems=default,plimsoll-before-w10",
    )
    assert lines["default"]["engine"] == "model"
    assert lines["default"]["at_once"] == 5
    assert lines["plimsoll-before-w10"]["at_once"] > 30
    assert lines["plimsoll-before-w10"]["most_percent"] > 200


def test_unreadable_traces_are_an_error(tmp_path):
    (tmp_path / "day.csv").write_text("1,2\n")
    with pytest.raises(SystemExit, match=r"day\.csv: line 1: expected 288 percentages"):
        list(table.measured(traces=(str(tmp_path / "day.csv"),), systems=("default",), workers=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"systems": ("nomad",)}, "unknown in the engine 'model': nomad"),
        ({"scenarios": ("mars",)}, "unknown in the engine 'model': mars"),
        (
            {"systems": ("tas-w1-model",), "engine": "real"},
            "unknown in the engine 'real': tas-w1-model",
        ),
    ],
)
def test_unknown_names_are_errors(arguments, message):
    with pytest.raises(SystemExit, match=message):
        list(table.measured(**arguments))


@pytest.mark.parametrize("system", TABLE)
def test_every_system_places_pods(system):
    (line,) = table.measured(systems=(system,), scenarios=("right",), seeds=1, workers=1)
    assert line["pods"] + line["pending"] == 100
    assert line["most_percent"] > 0


@pytest.mark.parametrize("scenario", ["right", "second"])
def test_a_burst_of_known_pods_is_far_more_even_than_by_requests(scenario):
    """With the ranking and weight of the shipped example, and with others."""
    systems = ("default", "plimsoll-value-w1", "plimsoll-value-w5", "plimsoll-value-w10")
    default, *ours = table.measured(systems=systems, scenarios=(scenario,), workers=1)
    for line in ours:
        assert line["deviation_percent"] <= 0.6 * default["deviation_percent"], line["system"]


def test_descheduler_evicts_few_pods_of_each_labelled_node():
    """And none is placed where the label is; each change of a label is a write."""
    nodes = Nodes(3, 8.0)
    system = SYSTEMS["plimsoll-value-w5-labels-model"](nodes)
    history = UseHistory(np.array([7.0, 1.0, 1.0]), 400, 1.0)
    pods = equal_pods(8, SimulatedPod("p", 0.0, math.inf, 0.1, 0.0, 0.1, np.full(1, 0.1)))
    for second in range(130):
        history.add(np.array([7.0, 1.0, 1.0]))
        if second == 60:
            for pod in pods[:7]:
                system.bound(pod, 0, 60.0)
        if second % 5 == 0:
            system.read(float(second), history)
            evicted = system.descheduled(float(second))
            assert len(evicted) == (5 if second == 120 else 0)
    assert set(evicted) <= {pod.name for pod in pods[:7]}
    assert system.permitted(pods[7], np.arange(3), 129.0).tolist() == [1, 2]
    assert system.writes == 1


def test_fewer_nodes_are_found_by_bisection():
    names = ("default",)
    *_, line = table.measured(systems=names, scenarios=("burst",), seeds=1, workers=1, fewer=True)
    assert (line["scenario"], line["of"]) == ("nodes", 60)
    assert 42 <= line["nodes"] <= 60


@pytest.mark.e2e
def test_both_engines_place_a_burst_alike():
    try:
        find(os.environ)
    except NoControlPlaneError as error:
        pytest.skip(str(error))
    shorter = {"seeds": 1, "workers": 1, "factor": 4.0}
    arguments = {"systems": ("default",), "scenarios": ("burst",), **shorter}
    (model,) = table.measured(**arguments)
    (real,) = table.measured(**arguments, engine="real")
    assert (real["engine"], model["engine"]) == ("real", "model")
    assert real["pods"] == model["pods"] == 100
    assert real["most_percent"] == pytest.approx(model["most_percent"], abs=5)


def test_picture_has_the_use_of_each_node_with_both_systems(tmp_path):
    file = tmp_path / "use.json"
    assert not list(table.measured(picture=str(file)))
    found = json.loads(file.read_text())
    assert [run["system"] for run in found["runs"]] == ["default", "plimsoll-value-w5"]
    for run in found["runs"]:
        use = np.array(run["use_percent"])
        assert use.shape[0] == 48
        assert 0 < use.mean() <= 100
