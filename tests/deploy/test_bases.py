"""Every kustomization builds, no file is unused, and names and images are consistent."""

from pathlib import Path

import pytest
import yaml

from evaluator.main import main
from plimsoll import VERSION

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"

CLUSTER_WIDE = {
    "APIService",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
IMAGES = yaml.safe_load((DEPLOY / "images" / "kustomization.yaml").read_text())["images"]
OURS = {f"{one['newName']}:{one['newTag']}" for one in IMAGES}
NO_MANIFESTS = {"README.md", ".gitignore", "openssl.cnf", "kustomization.yaml", "Kustomization"}
NOT_APPLIED = {"chart", "examples", "scheduler"}
"""Folders with files that are read, rendered by Helm or copied to a control plane node."""
DEMOS = ("gang-demo", "health-metric-demo", "node-actions-demo", "signals-demo")


def test_kustomization_builds(built, folder):
    assert built(folder)


def test_every_file_is_part_of_a_kustomization():
    """A manifest in no kustomization is never applied."""
    named = set()
    for path in [*DEPLOY.rglob("kustomization.yaml"), *DEPLOY.rglob("Kustomization")]:
        body = yaml.safe_load(path.read_text())
        files = [*body.get("resources", []), *body.get("components", [])]
        for generator in [*body.get("configMapGenerator", []), *body.get("secretGenerator", [])]:
            files += [file.partition("=")[2] or file for file in generator["files"]]
        named |= {(path.parent / file).resolve() for file in files}
    files = {
        path
        for path in DEPLOY.rglob("*")
        if path.is_file()
        and path.name not in NO_MANIFESTS
        and NOT_APPLIED.isdisjoint(path.relative_to(DEPLOY).parts)
    }
    assert {str(path.relative_to(DEPLOY)) for path in files - named} == set()


def pods(objects):
    """The pod templates among these objects."""
    return [obj["spec"]["template"]["spec"] for obj in objects if "template" in obj.get("spec", {})]


def test_images_are_pinned_and_ours_are_qualified(built, folder):
    """An unqualified name is pulled from a public registry, where it may be another project's."""
    found = [
        container["image"]
        for pod in pods(built(folder))
        for container in (*pod["containers"], *pod.get("initContainers", []))
    ]
    for image in found:
        assert image.rpartition(":")[2] not in {"", "latest"}, image
        assert image in OURS or "plimsoll" not in image, image


def test_our_images_have_a_registry_and_this_version():
    for one in IMAGES:
        assert "." in one["newName"].split("/")[0], one
        assert one["newTag"] == VERSION


def test_objects_have_a_namespace_and_standard_labels(built, folder):
    for obj in built(folder):
        meta = obj["metadata"]
        name = f"{obj['kind']}/{meta['name']}"
        assert ("namespace" in meta) == (obj["kind"] not in CLUSTER_WIDE), name
        if folder.name not in DEMOS and obj["kind"] != "CustomResourceDefinition":
            assert meta.get("labels", {}).get("app.kubernetes.io/part-of") == "plimsoll", name


def test_objects_are_unique(built):
    keys = [
        (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"])
        for obj in built(".")
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("program", ["agent", "evaluator"])
def test_selectors_match_exactly_their_pods(built, program):
    objects = built("core", "monitoring")
    name = f"plimsoll-{program}"
    labels = [
        obj["spec"]["template"]["metadata"]["labels"]
        for obj in objects
        if obj["metadata"]["name"] == name and "template" in obj.get("spec", {})
    ]
    assert len(labels) == 1
    selectors = [
        (f"{obj['kind']}/{obj['metadata']['name']}", labels_selected(obj["spec"]["selector"]))
        for obj in objects
        if "selector" in obj.get("spec", {}) and obj["metadata"]["name"].startswith(name)
    ]
    assert len(selectors) >= 2
    for whose, selector in selectors:
        assert selector == {"app.kubernetes.io/name": name}, whose
        assert selector.items() <= labels[0].items(), whose


def labels_selected(selector):
    return selector.get("matchLabels", selector)


@pytest.mark.parametrize("demo", DEMOS)
def test_demo_can_be_applied_as_a_folder_too(demo):
    """`kubectl apply -f` reads every .yaml file of a folder as a manifest."""
    kinds = [yaml.safe_load(path.read_text())["kind"] for path in (DEPLOY / demo).glob("*.y*ml")]
    assert kinds
    assert "Kustomization" not in kinds


def test_shipped_policies_are_valid(capsys):
    """By the command that users check theirs with; test_chart.py compares the chart's template with its example."""
    templates = DEPLOY / "chart" / "templates"
    files = [
        str(path)
        for path in DEPLOY.rglob("*.yaml")
        if path.parent != templates and "\nkind: TASPolicy\n" in path.read_text()
    ]
    assert len(files) >= 2
    assert main(["check", *files]) == 0, capsys.readouterr().out
