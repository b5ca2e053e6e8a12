"""Values of the chart render flags that the programs accept, or the chart refuses them with the same words."""

import itertools
import shutil

import pytest

from evaluator.config import Settings
from plimsoll import flags
from plimsoll.commandline import Parser
from release import chart as generator
from tests.deploy.chart_values import BUNDLE, COMPONENTS

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel here")

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")

SWITCHES = [generator._camel(name) for name in COMPONENTS]


def refused_by_the_program(objects):
    """What plimsoll-evaluator would say about the flags of its Deployment; empty if it starts."""
    deployment = objects["Deployment", "plimsoll-evaluator"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    settings = flags.parse_settings(
        Settings, Parser("plimsoll-evaluator", about=""), argv=container.get("args", ()), env={}
    )
    return settings.mistakes()


@pytest.mark.parametrize("first", SWITCHES)
def test_two_components_render_flags_that_the_evaluator_accepts_or_are_refused(render, first):
    wrong = {}
    for second in SWITCHES:
        on = {"components": {first: True, second: True}} | BUNDLE
        try:
            objects = render(on)
        except helm.HelmError as error:
            assert " needs " in str(error)
            continue
        if mistakes := refused_by_the_program(objects):
            wrong[second] = mistakes
    assert not wrong
