"""One version in all files; the bill of materials lists all locked packages; the workflow uses what exists."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from plimsoll import VERSION
from release import published, sbom, version

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"


def test_all_files_have_the_version_of_the_package():
    assert version.found(*version.SOURCE) == {VERSION}
    assert version.main([]) == 0


def test_a_file_with_another_version_is_named(tmp_path, monkeypatch, capsys):
    for name, _ in (version.SOURCE, *version.PLACES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    monkeypatch.setattr(version, "ROOT", tmp_path)
    assert version.main(["9.8.7"]) == 0
    assert version.main([]) == 0
    (tmp_path / "Dockerfile").write_text("ARG VERSION=9.8.6\n")
    assert version.main([]) == 1
    assert "Dockerfile does not have version 9.8.7" in capsys.readouterr().err


def test_bill_of_materials_lists_every_locked_package_with_its_hashes():
    text = (ROOT / "requirements.txt").read_text()
    found = {one["name"]: one for one in sbom.document()["components"]}
    assert found.keys() == set(re.findall(r"^([a-z0-9._-]+)==", text, re.MULTILINE))
    assert all(one["hashes"] for one in found.values())
    assert found["grpcio"]["purl"] == f"pkg:pypi/grpcio@{found['grpcio']['version']}"


def test_runtime_packages_have_the_versions_of_the_tested_ones():
    tested, runtime = (
        set(re.findall(r"^([a-z0-9._-]+==\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("constraints.txt", "requirements.txt")
    )
    assert runtime < tested


def test_workflows_run_targets_and_files_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    for path in WORKFLOWS.glob("*.yaml"):
        steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]  # fmt: skip
        text = "\n".join(step.get("run", "") for step in steps)
        for target in re.findall(r"make ([\w-]+)", text):
            assert f"\n{target}:" in makefile
        for name in re.findall(r"(?:release/|\./)[\w./-]+", text):
            assert (ROOT / name).exists(), name


def test_a_release_signs_images_and_chart_and_pins_no_registry_of_its_own():
    jobs = yaml.safe_load((WORKFLOWS / "release.yaml").read_text())["jobs"]
    text = {name: "\n".join(str(step) for step in job["steps"]) for name, job in jobs.items()}
    assert jobs["images"]["needs"] == jobs["package"]["needs"] == "test"
    for name in ("images", "chart"):
        assert "cosign sign" in text[name]
    assert "linux/amd64,linux/arm64" in text["images"]
    assert "'sbom': True" in text["images"]
    assert "SOURCE_DATE_EPOCH=$(git log" in text["images"]
    assert "type=registry,rewrite-timestamp=true" in text["images"]
    assert "release/chart.py --registry" in text["chart"]


@pytest.fixture
def checkout(tmp_path):
    """A copy of what git knows, as a fresh clone."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True).stdout  # fmt: skip
    for name in filter(None, names.split("\0")):
        if not name.startswith("tests/") and (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


OURS = re.compile(r"registry\.example/kube-plimsoll")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")
def test_the_registry_is_set_in_a_fresh_checkout_without_leftovers(checkout):
    """Also where the package is not installed: only its dependencies are."""
    site = [path for path in sys.path if path.endswith("site-packages")]
    program = f"import sys, runpy; sys.path[:0] = {site!r}; sys.argv[1:] = ['--registry', 'registry.internal/nodes']; runpy.run_path('release/chart.py', run_name='__main__')"  # fmt: skip
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], cwd=checkout, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    texts = {path: path.read_text() for path in checkout.rglob("*") if path.suffix in {".md", ".yaml", ".json", ".tpl"}}  # fmt: skip
    left = [
        path for path, text in texts.items() if OURS.search(text) and path.name != "CHANGELOG.md"
    ]
    assert left == []
    values = yaml.safe_load((checkout / "deploy/chart/values.yaml").read_text())
    image = values["agent"]["image"]
    assert (image["registry"], image["repository"]) == ("registry.internal", "nodes/agent")


def test_nothing_promises_a_release_before_it_exists_and_one_command_does_after(checkout):
    promise = re.compile(r"pip install '?kube-plimsoll|ghcr\.io/(?!OWNER)")
    pages = [*checkout.glob("docs/*.md"), *checkout.glob("examples/*/*.md"), checkout / "README.md", checkout / "plimsoll/programs.py"]  # fmt: skip
    assert [path for path in pages if promise.search(path.read_text())] == []
    published.publish(checkout)
    published.publish(checkout)  # a second run changes nothing
    published.name_images("ghcr.io/owner", checkout)
    for name, (before, after) in published.PLACES.items():
        text = (checkout / name).read_text()
        assert before not in text
        assert after in text
    assert "ghcr.io/owner/evaluator:" in (checkout / "docs/quickstart-kind.md").read_text()


def test_no_file_names_owners_that_do_not_exist_and_one_command_enters_them(checkout):
    """Without a line, GitHub requests no reviews; without an ID, Artifact Hub verifies no publisher."""
    owners, repository = checkout / published.CODE_OWNERS, checkout / published.ARTIFACT_HUB
    assert all(line.startswith("#") for line in owners.read_text().splitlines())
    assert yaml.safe_load(repository.read_text()) is None
    for wrong in ("", "maintainers", "@one @two/three/four"):
        with pytest.raises(ValueError, match="is no @USER"):
            published.own(wrong, checkout)
    with pytest.raises(ValueError, match="badly formed"):
        published.claim("mine", checkout)
    for given in ("@one", "@two @three/four"):  # also a second time
        published.own(given, checkout)
        assert owners.read_text().splitlines()[1:] == [f"* {given}"]
        published.claim("0c5e050e-dfed-471b-9b50-731ab044d424", checkout)
        assert yaml.safe_load(repository.read_text()) == {"repositoryID": "0c5e050e-dfed-471b-9b50-731ab044d424"}  # fmt: skip


def test_actions_are_pinned_by_commit():
    for path in WORKFLOWS.glob("*.yaml"):
        text = path.read_text()
        found = re.findall(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", text, re.MULTILINE)
        assert len(found) == text.count("uses:") > 0, path


def test_no_job_with_a_right_to_write_runs_npm_packages():
    """A package runs as the job: it may read the token of any step, and change what later steps run."""
    for path in WORKFLOWS.glob("*.yaml"):
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] in ({}, {"contents": "read"}), path
        for name, job in workflow["jobs"].items():
            runs = "\n".join(step.get("run", "") for step in job["steps"])
            if "make headlamp" in runs or "npm" in runs:
                assert job.get("permissions", {}).keys() <= {"contents"}, (path, name)
                assert job.get("permissions", {}).get("contents") != "write", (path, name)
                assert "secrets." not in str(job), (path, name)


def test_headlamp_plugin_is_handed_over_to_the_job_that_uploads_it():
    jobs = yaml.safe_load((WORKFLOWS / "release.yaml").read_text())["jobs"]
    (upload,) = [name for name, job in jobs.items() if "gh release upload" in str(job)]
    assert {*jobs[upload]["needs"]} == {"headlamp", "package"}
    handed = [step["with"]["name"] for job in ("headlamp", upload) for step in jobs[job]["steps"] if "artifact@" in step.get("uses", "")]  # fmt: skip
    assert handed == ["headlamp", "headlamp"]
    assert not any("checkout" in step.get("uses", "") for step in jobs[upload]["steps"])


def test_the_folder_for_pypi_has_only_distributions():
    """The action uploads everything in it, and rejects what is no distribution."""
    jobs = yaml.safe_load((WORKFLOWS / "release.yaml").read_text())["jobs"]
    runs = "\n".join(step.get("run", "") for step in jobs["package"]["steps"])
    assert re.findall(r"\S*\bdist\b\S*", runs) == ["dist", "dist/*.whl", "dist/*.tar.gz"]


def test_ci_tests_every_python_that_the_package_claims():
    claimed = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())  # fmt: skip
    (job,) = yaml.safe_load((WORKFLOWS / "test.yaml").read_text())["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == claimed
    assert all(version in (ROOT / "README.md").read_text() for version in claimed)
