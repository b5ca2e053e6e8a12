"""What the Headlamp plugin is tested against is what a sandbox answers today. npm is not needed."""

import json
import re
from pathlib import Path

import pytest
import yaml

from headlamp import record
from plimsoll import VERSION

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "headlamp"


async def test_recorded_answers_have_the_shape_of_a_sandboxs(tmp_path):
    recorded = json.loads((record.RECORDED / "answers.json").read_text())
    async with record.world(tmp_path) as cluster:
        found = await record.answers(cluster)
    assert list(recorded) == sorted(found)
    for path, answer in found.items():
        assert record.shape(answer) == record.shape(recorded[path]), f"{path}: make headlamp-record"
        assert answer["status"] == recorded[path]["status"], path


def test_a_field_more_or_less_or_of_another_type_is_another_shape():
    shape = record.shape({"a": 1, "b": [{"c": "x"}, {"d": None}]})
    assert shape == record.shape({"b": [{"d": None}, {"c": ""}, {"c": "y"}], "a": 2.5})
    for other in (
        {"a": 1, "b": [{"c": "x"}]},
        {"a": "1", "b": [{"c": "x"}, {"d": None}]},
        {"a": 1, "b": [{"c": "x"}, {"d": 0}]},
        {"a": 1, "b": [{"c": "x", "e": []}, {"d": None}]},
    ):
        assert shape != record.shape(other)


def test_recorded_texts_are_those_of_the_pages():
    assert json.loads((record.RECORDED / "readable.json").read_text()) == record.texts()


def test_plugin_asks_the_service_that_is_shipped(built_core):
    """`SHIPPED` in the plugin's settings names the Service and port of deploy/."""
    source = (PLUGIN / "src" / "evaluator.ts").read_text()
    shipped = dict(re.findall(r"^  (\w+): '([\w-]+)',$", source.partition("SHIPPED")[2].partition("};")[0], re.MULTILINE))  # fmt: skip
    services = [obj for obj in built_core if obj["kind"] == "Service"]
    assert any(
        (one["metadata"]["namespace"], one["metadata"]["name"])
        == (shipped["namespace"], shipped["service"])
        and shipped["port"] in {port["name"] for port in one["spec"]["ports"]}
        for one in services
    )


def test_lock_file_names_no_registry_and_hashes_every_package():
    packages = json.loads((PLUGIN / "package-lock.json").read_text())["packages"]
    of_registry = {path: one for path, one in packages.items() if path and not one.get("link")}
    assert [path for path, one in of_registry.items() if "integrity" not in one and not one.get("inBundle")] == []  # fmt: skip
    hosts = {
        one["resolved"].split("/")[2] for one in packages.values() if one.get("resolved")
    }
    assert hosts <= {"registry.npmjs.org"}


def test_artifact_hub_gets_the_annotations_that_headlamps_catalogue_reads():
    package = yaml.safe_load((PLUGIN / "artifacthub-pkg.yml").read_text())
    manifest = json.loads((PLUGIN / "package.json").read_text())
    assert package["version"] == manifest["version"] == VERSION
    archive = package["annotations"]["headlamp/plugin/archive-url"]
    assert archive.endswith(f"/v{VERSION}/{manifest['name']}-{VERSION}.tar.gz")
    assert set(package["annotations"]) == {
        "headlamp/plugin/archive-url",
        "headlamp/plugin/archive-checksum",
        "headlamp/plugin/version-compat",
        "headlamp/plugin/distro-compat",
    }
