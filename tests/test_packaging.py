"""The content of the wheel, that its top-level packages are unique, and that what they import is declared."""

import ast
import itertools
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "agent",
    "collectors",
    "evaluator",
    "kubectl_plimsoll",
    "lab",
    "plimsoll",
    "sandbox",
    "wire",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(folder),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_wheel_contains_the_packages_and_their_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == PACKAGES
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert "wire/telemetry.proto" in names
    assert "plimsoll/html/files/style.css" in names
    assert "collectors/registry/index.json" in names
    assert "agent/scrape/templates/landing.html" in names
    assert "sandbox/deploy/crd/taspolicy.yaml" in names
    assert "sandbox/deploy/health-metric-demo/10-policy.yaml" in names
    assert "sandbox/deploy/gang-demo/10-train.yaml" in names


def test_no_dependency_has_a_package_of_the_same_name() -> None:
    """Two distributions with one top-level name install over each other silently."""
    owners = metadata.packages_distributions()
    found = {package: {*owners.get(package, [])} - {"kube-plimsoll"} for package in PACKAGES}
    assert found == {package: set() for package in PACKAGES}


def test_every_imported_distribution_is_declared() -> None:
    """One that only another distribution requires may leave with an update of that one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = itertools.chain.from_iterable(project["optional-dependencies"].values())
    declared = {canonicalize_name(Requirement(text).name) for text in wanted}
    owners = metadata.packages_distributions()
    undeclared = {
        f"{file.relative_to(ROOT)}: {name}"
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for name in imported(file) - PACKAGES - sys.stdlib_module_names
        if declared.isdisjoint(map(canonicalize_name, owners.get(name, [])))
    }
    assert undeclared == set()


def imported(file: Path) -> set[str]:
    """Return the top-level packages that a module imports anywhere."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module))
    return {name.partition(".")[0] for name in names}
