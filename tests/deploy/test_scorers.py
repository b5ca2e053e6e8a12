"""The shipped kube-scheduler configurations and the component of scorers name the same scorers."""

from urllib.parse import urlsplit

from evaluator.config import Settings
from evaluator.features.scorers import registry
from evaluator.features.scorers.plugins.reward import REWARD_CONFIG_MAP
from plimsoll import flags
from plimsoll.commandline import Parser
from tests.deploy.test_rbac import REWARDS
from tests.deploy.test_scheduler import CONFIGURATIONS, extenders


def test_component_enables_what_the_configuration_uses(with_components):
    """With the same weights, so that the sum of /explain?pod= is that of kube-scheduler."""
    (deployment,) = [
        obj
        for obj in with_components("evaluator", "scorers")
        if obj["kind"] == "Deployment" and obj["metadata"]["name"] == "plimsoll-evaluator"
    ]
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    told = flags.parse_settings(Settings, Parser("evaluator", about=""), argv=args, env={})
    listed = {urlsplit(one["urlPrefix"]).path: one for one in extenders("scorers.yaml")}
    policies = listed.pop("/scheduler")
    weights = {path.removeprefix("/scorers/"): one["weight"] for path, one in listed.items()}
    assert set(told.enabled_scorers) == set(weights)
    assert told.weights_of_scorers == weights | {"policies": policies["weight"]}
    assert set(weights) <= set(registry.known())


def test_only_filtering_scorers_have_a_filter_verb():
    """A scorer without a predicate has no filter verb."""
    for extender in (one for name in CONFIGURATIONS for one in extenders(name)):
        name = urlsplit(extender["urlPrefix"]).path.removeprefix("/scorers/")
        if name in registry.BUILT_IN and "filterVerb" in extender:
            assert registry.load(Settings(scorers=(name,)))[name].predicates


def test_roles_are_tested_with_the_config_map_of_rewards():
    assert REWARDS["name"] == REWARD_CONFIG_MAP
