"""Finds the manifests under deploy/: beside this package in an installed wheel, at the root in a checkout."""

import json
from collections.abc import Iterator
from pathlib import Path

from plimsoll import strictyaml
from sandbox.client.objects import Object

_HERE = Path(__file__).resolve().parent


def folder() -> Path:
    """Return the deploy/ folder."""
    for root in (_HERE, _HERE.parent):
        if (root / "deploy" / "crd").is_dir():
            return root / "deploy"
    raise FileNotFoundError(f"no deploy/ with the manifests in {_HERE} or {_HERE.parent}")


def load(path: Path) -> Iterator[Object]:
    """Return the objects of a YAML file, or of all YAML files of a folder sorted by name."""
    for file in sorted(path.glob("*.yaml")) if path.is_dir() else (path,):
        yield from (obj for obj in strictyaml.load_all_json(file.read_text()) if obj)


def crds() -> Iterator[Object]:
    """Return the CustomResourceDefinitions that Plimsoll needs."""
    return (obj for obj in load(folder() / "crd") if obj.get("kind") == "CustomResourceDefinition")


def history() -> Object:
    """Return the Secret for the actions of the evaluator."""
    (found,) = load(folder() / "evaluator/history.yaml")
    return found


def problems() -> str:
    """Return the shipped configuration of problems in the kernel's log, as JSON."""
    (config,) = load(folder() / "components/kernel-log/problems.yaml")
    return str(config["data"]["kernel.json"])


def problem_conditions() -> list[str]:
    """Return the condition types of these problems."""
    return [condition["type"] for condition in json.loads(problems())["conditions"]]
