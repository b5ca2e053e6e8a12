"""Values of the chart render flags that the programs accept, or the chart refuses them with the same words."""

import contextlib
import re
import shutil

import pytest

from evaluator.main import main
from release import chart as generator
from tests.deploy.chart_values import BUNDLE, COMPONENTS

helm = pytest.importorskip("helm_python", reason="helm-python-sdk has no wheel here")

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")

SWITCHES = [generator._camel(name) for name in COMPONENTS]


OTHERS = {
    "prometheus alone": {
        "sources": {
            "agents": {"enabled": False},
            "prometheus": {"enabled": True, "url": "http://prometheus:9090"},
        }
    },
    "agents and custom metrics": {"sources": {"customMetrics": {"enabled": True}}},
    "certificates of a job": {"certificates": {"mode": "job"}},
    "no agent": {
        "agent": {"enabled": False},
        "sources": {"customMetrics": {"enabled": True}, "agents": {"enabled": False}},
    },
    "one replica": {"evaluator": {"replicas": 1}},
}
"""Other values that change flags."""


def refused_by_the_program(objects, capsys):
    """What `plimsoll-evaluator --check-flags` says about the flags of its Deployment; empty if it accepts them."""
    deployment = objects["Deployment", "plimsoll-evaluator"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    with contextlib.suppress(SystemExit):
        main(["--check-flags", *container.get("args", ())])
    return capsys.readouterr().err


@pytest.mark.parametrize("first", SWITCHES)
def test_components_render_flags_that_the_evaluator_accepts_or_are_refused(render, first, capsys):
    wrong = {}
    for second, more in [*((name, {}) for name in SWITCHES), *OTHERS.items()]:
        on = {first: True} | ({second: True} if second in SWITCHES else {})
        try:
            objects = render(BUNDLE | more | {"components": on})
        except helm.HelmError as error:
            if not re.search(r" needs |set customMetrics\.caBundle", str(error)):
                wrong[second] = str(error)
            continue
        if said := refused_by_the_program(objects, capsys):
            wrong[second] = said
    assert not wrong


def test_components_that_need_another_are_refused_alone(render):
    for name, needed in generator.REQUIRES.items():
        with pytest.raises(helm.HelmError, match=generator._camel(needed)):
            render({"components": {generator._camel(name): True, generator._camel(needed): False}})


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ((), 0),
        (("--opsAuthorize", "--opsTls"), 0),
        (("--opsAuthorize",), 2),
        (("--staleAfter=1s",), 2),
        (("--no-such-flag",), 2),
        (("--port=99999",), 2),
    ],
)
def test_check_flags_starts_nothing(flags, status, capsys):
    if status:
        with pytest.raises(SystemExit) as ended:
            main([*flags, "--check-flags"])
        assert ended.value.code == status
        assert capsys.readouterr().err.startswith("plimsoll-evaluator: ")
        return
    assert main([*flags, "--check-flags"]) == status
