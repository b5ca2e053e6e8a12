"""Each policy of docs/cookbook.md works in the sandbox as pasted; durations are shortened, or the test would take minutes."""

import asyncio
import json
import re
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from evaluator.tools.check import main
from sandbox.client.client import ensure
from sandbox.client.objects import POLICIES
from sandbox.cluster import ClusterSpec
from sandbox.programs import agent_command
from tests.eventually import eventually
from tests.preloaded import Cluster

PAGE = (Path(__file__).parents[2] / "docs/cookbook.md").read_text()
RECIPES = re.findall(
    r"<!-- tested: (\w+) (\S+) (\S+) (\w+) -->\n```yaml\n(.*?)```", PAGE, re.DOTALL
)
GOOD, BAD = "node-a", "node-b"


def without_shipped_rules(launch):
    """Text files write what the rules would record: a series of both would be the rule's."""
    return agent_command(replace(launch, rules=()))


def explained(cluster, name):
    """Return the page of a policy; None before the evaluator knows it."""
    try:
        with urllib.request.urlopen(f"{cluster.endpoints.ops}/explain/default/{name}") as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def test_each_recipe_is_a_policy_without_mistakes(tmp_path):
    assert len(RECIPES) == PAGE.count("```yaml") == 10
    for number, (metric, _, _, _, text) in enumerate(RECIPES):
        assert metric.removeprefix("node_") in text
        for found in main.check_text(f"{number}.yaml", text):
            assert found.findings.errors == []


@pytest.mark.e2e
async def test_each_recipe_acts_on_the_node_with_the_bad_reading(tmp_path):
    spec = ClusterSpec(dir=tmp_path, nodes=(GOOD, BAD), sync_period=1, agent=without_shipped_rules, evaluator_flags=("--staleAfter=5m",), node_actions=True)  # fmt: skip
    async with Cluster(spec) as cluster:
        for node, column in ((GOOD, 1), (BAD, 2)):
            lines = (f"{recipe[0]} {recipe[column]}\n" for recipe in RECIPES)
            (cluster.node_metrics(node) / "readings.prom").write_text("".join(lines))
        wanted = {}
        for _, _, _, strategy, text in RECIPES:
            policy = yaml.safe_load(re.sub(r"(for|clearAfter): \w+", r"\1: 1s", text))
            policy["metadata"]["namespace"] = "default"
            wanted[policy["metadata"]["name"]] = strategy
            await ensure(cluster.client, POLICIES, policy)

        async def all_act():
            pages = {name: await asyncio.to_thread(explained, cluster, name) for name in wanted}
            return all(pages.values()) and all(
                acts(pages[name], strategy) for name, strategy in wanted.items()
            )

        await eventually(all_act)


def acts(page, strategy):
    if strategy == "scheduleonmetric":
        scores = page["scheduleonmetric"]["scores"]
        return scores.keys() == {GOOD, BAD} and scores[GOOD] > scores[BAD]
    return [rule["broken"] for rule in page["strategies"][strategy]["rules"]] == [[BAD]]
