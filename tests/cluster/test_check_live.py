"""plimsoll check --live against a running evaluator."""

import json
import sys

import pytest

from tests import preloaded

pytestmark = [pytest.mark.e2e, pytest.mark.features("pages")]


async def check(world, *metrics):
    """The findings of `check --live` in a policy on these metrics."""
    rules = [{"metricname": name, "operator": "GreaterThan", "target": 5} for name in metrics]
    body = {
        "apiVersion": "telemetry.intel.com/v1alpha1",
        "kind": "TASPolicy",
        "metadata": {"name": "new"},
        "spec": {"strategies": {"dontschedule": {"rules": rules}}},
    }
    live = f"--live={world.evaluator.operations}"
    command = (sys.executable, "-P", "-m", "evaluator", "check", "-", "--output=json", live)
    status, out, err = await preloaded.run(command, text=json.dumps(body))
    assert status == 0, err
    (found,) = json.loads(out)["findings"]
    return found


async def test_live_check_says_which_nodes_have_a_metric_and_its_values(world):
    one, two = await world.add_node("a"), await world.add_node("b")
    await world.add_policy("used", dontschedule=["fan_rpm LessThan 1", "fan_rmp LessThan 1"])
    world.fleet.say(one, fan_rpm=900)
    world.fleet.say(two, fan_rpm=1200)
    await world.start()

    async def settled():
        found = await check(world, "fan_rpm", "fan_rmp", "rack_inlet")
        return found if "similar" in str(found["warnings"]) else None

    found = await world.eventually(settled)
    (warning,) = found["warnings"]
    assert warning.startswith("fan_rmp is on none of ")
    assert warning.endswith("similar metrics that nodes have: fan_rpm")
    notes = [line for line in found["meanings"] if line.startswith("now: ")]
    assert notes[0].startswith("now: fan_rpm is 900 rpm to 1200 rpm on 2 of ")
    assert notes[1].startswith("now: no policy in the cluster uses rack_inlet")
