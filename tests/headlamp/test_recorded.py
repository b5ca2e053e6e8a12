"""What the Headlamp plugin is tested against is what a sandbox answers today. npm is not needed."""

import hashlib
import json
import re
from http import HTTPStatus
from pathlib import Path

import pytest
import yaml

from headlamp import record
from plimsoll import VERSION
from release import headlamp
from tests.schema import check

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


@pytest.mark.parametrize("kind", ["NodePage", "PolicyPage", "PodPage"])
def test_recorded_pages_have_the_documented_fields(kind):
    pages = f"/{kind.removesuffix('Page').lower().replace('policy', 'policie')}s/"
    answers = json.loads((record.RECORDED / "answers.json").read_text())
    found = [
        answer["body"]
        for path, answer in answers.items()
        if f"/proxy{pages}" in path and answer["status"] == HTTPStatus.OK
    ]
    assert found
    for page in found:
        check(page, kind)


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


def test_images_are_shown_and_small():
    images = sorted((PLUGIN / "images").iterdir())
    shown = re.findall(r"!\[[^]]+\]\(images/(\w+\.png)\)", (PLUGIN / "README.md").read_text())
    assert [image.name for image in images] == sorted(shown)
    assert max(image.stat().st_size for image in images) < 150_000


def test_recorded_texts_are_those_of_the_pages():
    assert json.loads((record.RECORDED / "readable.json").read_text()) == record.texts()


def test_plugin_asks_the_service_that_is_shipped():
    """`SHIPPED` in the plugin's settings names the Service and port of deploy/."""
    source = (PLUGIN / "src" / "evaluator.ts").read_text()
    fields = source.partition("export const SHIPPED")[2].partition("};")[0]
    shipped = dict(re.findall(r"^  (\w+): '([\w-]+)',$", fields, re.MULTILINE))
    namespace = yaml.safe_load((ROOT / "deploy" / "evaluator" / "kustomization.yaml").read_text())[
        "namespace"
    ]
    services = [
        obj
        for path in (ROOT / "deploy" / "evaluator").glob("*.yaml")
        for obj in yaml.safe_load_all(path.read_text())
        if obj and obj["kind"] == "Service"
    ]
    assert shipped["namespace"] == namespace
    assert (shipped["service"], shipped["port"]) in {
        (one["metadata"]["name"], port["name"]) for one in services for port in one["spec"]["ports"]
    }


def test_lock_file_names_no_registry_and_hashes_every_package():
    packages = json.loads((PLUGIN / "package-lock.json").read_text())["packages"]
    of_registry = {path: one for path, one in packages.items() if path and not one.get("link")}
    assert [path for path, one in of_registry.items() if "integrity" not in one and not one.get("inBundle")] == []  # fmt: skip
    hosts = {one["resolved"].split("/")[2] for one in packages.values() if one.get("resolved")}
    assert hosts <= {"registry.npmjs.org"}


def test_artifact_hub_gets_what_headlamps_catalogue_reads(tmp_path):
    manifest = json.loads((PLUGIN / "package.json").read_text())
    archive = tmp_path / f"{manifest['name']}-{VERSION}.tar.gz"
    archive.write_bytes(b"packed")
    url = "https://github.com/someone/some-fork/releases/download/v1"
    assert headlamp.main([url, str(archive), str(tmp_path / "hub")]) == 0
    package = yaml.safe_load((tmp_path / "hub" / "artifacthub-pkg.yml").read_text())
    assert {"version", "name", "displayName", "createdAt", "description"} <= set(package)
    assert package["version"] == manifest["version"] == VERSION
    assert re.fullmatch(r"[a-z_]+", package["name"])
    assert package["homeURL"] == "https://github.com/someone/some-fork"
    assert package["annotations"] == {
        "headlamp/plugin/archive-url": f"{url}/{archive.name}",
        "headlamp/plugin/archive-checksum": f"SHA256:{hashlib.sha256(b'packed').hexdigest()}",
        "headlamp/plugin/version-compat": headlamp.OLDEST,
        "headlamp/plugin/distro-compat": headlamp.FLAVOURS,
    }
