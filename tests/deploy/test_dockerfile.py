"""The Dockerfile copies what exists and suffices, and installs pinned packages; no container engine is needed."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from plimsoll import cli
from release import slim

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAMS = {"agent": "plimsoll-agent", "evaluator": "plimsoll-evaluator", "tools": "plimsoll"}
"""The entry point of each image."""
TARGETS = tuple(PROGRAMS)


def stages():
    """Stage -> its base and its instructions, each (keyword, arguments)."""
    text = (ROOT / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    found = {}
    head, *rest = joined.splitlines()
    name, _, value = head.removeprefix("ARG ").partition("=")
    for line in "\n".join(rest).replace(f"${{{name}}}", value).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            steps = found[name] = (base, [])
        else:
            steps[1].append((word, rest.strip()))
    return found


STAGES = stages()


def steps(stage, word):
    return [rest for found, rest in STAGES[stage][1] if found == word]


def copied():
    """Files copied from the checkout, as (source, destination)."""
    for stage in STAGES:
        for rest in steps(stage, "COPY"):
            if not rest.startswith("--from="):
                *sources, target = shlex.split(rest)
                yield from ((source, target) for source in sources)


def test_stages_build_on_an_image_by_digest_or_on_another_stage():
    names = list(STAGES)
    for name, (base, _) in STAGES.items():
        if base == "scratch":
            continue
        if base in STAGES:
            assert names.index(base) < names.index(name)
        else:
            assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", base)
    others = re.findall(r"--from=(\S+)", (ROOT / "Dockerfile").read_text())
    assert set(others) <= set(names)


def ignored(path):
    """As in .dockerignore: all excluded except lines with !, minus later exclusions."""
    verdict = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if line.startswith("#") or not line:
            continue
        if pattern == "*" or path == pattern or path.startswith(f"{pattern}/"):
            verdict = not line.startswith("!")
    return verdict


def test_copied_files_exist_and_reach_the_builder():
    for source, _ in copied():
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


def test_only_copied_files_reach_the_builder():
    sources = {source for source, _ in copied()}
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert allowed == sources
    assert ignored(".git")
    assert ignored(".venv")


def test_wheel_can_be_built_from_copied_files_and_has_the_programs(tmp_path):
    source = tmp_path / "src"
    for name, target in copied():
        place = source / target / ("" if (ROOT / name).is_dir() else name)
        if (ROOT / name).is_dir():
            skip = shutil.ignore_patterns("__pycache__", "*.key", "*.crt")
            shutil.copytree(ROOT / name, place, ignore=skip)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONSAFEPATH": "1"}
    subprocess.run([*command, tmp_path], cwd=source, env=environment, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("kube_plimsoll-")


CONSTRAINTS = (ROOT / "requirements.txt").read_text()


def pinned():
    """Distribution -> its requirement and hashes for pip."""
    found = {}
    for line in re.sub(r"\\\n", " ", CONSTRAINTS).splitlines():
        if line and not line.startswith("#"):
            text, *hashes = re.split(r"\s+(?=--hash=)", line.strip())
            requirement = Requirement(text)
            found[canonicalize_name(requirement.name)] = (requirement, hashes)
    return found


PINNED = pinned()


def extras(stage):
    """The extras with which a stage installs the wheel."""
    (run,) = steps(stage, "RUN")
    assert "--no-index --find-links /wheels" in run, "only what was checked against its hash"
    assert "compileall" in run
    return set(re.search(r"\.whl\)\[([a-z,]+)\]", run)[1].split(","))


@pytest.mark.parametrize("target", TARGETS)
def test_each_image_has_its_program_and_dependencies(target):
    assert {"tools": "sandbox"}.get(target, target) in extras(f"{target}-installed")
    assert extras(f"{target}-installed") <= PROJECT["optional-dependencies"].keys()
    (entrypoint,) = steps(target, "ENTRYPOINT")
    assert entrypoint == f'["{PROGRAMS[target]}"]'
    assert PROGRAMS[target] in PROJECT["scripts"]


def closure(requirements):
    """All distributions that these require on Linux."""
    found, todo = set(), list(requirements)
    while todo:
        wanted = Requirement(todo.pop()) if isinstance(todo[-1], str) else todo.pop()
        name = canonicalize_name(wanted.name)
        new = {(name, extra) for extra in {"", *wanted.extras}} - found
        found |= new
        for _, extra in new:
            for text in metadata.requires(name) or ():
                one = Requirement(text)
                if one.marker is None or one.marker.evaluate({"extra": extra}):
                    todo.append(one)
    return {name for name, _ in found}


@pytest.mark.parametrize("target", TARGETS)
def test_every_distribution_in_an_image_is_pinned(target):
    wanted = list(PROJECT["dependencies"])
    for extra in extras(f"{target}-installed"):
        wanted += PROJECT["optional-dependencies"][extra]
    assert closure(wanted) - {PROJECT["name"]} - PINNED.keys() == set()


def test_build_requirements_of_the_wheel_are_pinned():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert closure(build["requires"]) - PINNED.keys() == set()
    assert "editables" in PINNED, "hatchling needs it for an editable install"


def test_every_pinned_distribution_has_hashes_and_no_registry_is_named():
    assert all(hashes for _, hashes in PINNED.values()), "pip requires hashes for all or none"
    for name, (requirement, hashes) in PINNED.items():
        assert re.fullmatch(r"==[\w.+]+", str(requirement.specifier)), name
        assert requirement.url is None
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", word) for word in hashes), name
    assert "://" not in CONSTRAINTS
    assert not re.search(r"^\s*--(?!hash=)", CONSTRAINTS, re.MULTILINE), "options, such as an index"


def test_images_download_nothing_without_checking_its_hash():
    """pip uses a registry in one place, with --require-hashes; every install runs without an index."""
    commands = [
        command
        for stage in STAGES
        for rest in steps(stage, "RUN")
        for command in re.split(r"\s&&\s", rest)
        if re.search(r"\bpip\b.* (install|download)\b", command)
    ]
    (download,) = [command for command in commands if " download " in command]
    assert {"--require-hashes", "--no-deps", "requirements.txt"} <= set(download.split())
    others = [command for command in commands if command != download]
    assert len(others) == 1 + len(TARGETS)
    assert all("--no-index" in command.split() for command in others)


@pytest.mark.parametrize("target", TARGETS)
def test_images_run_unprivileged_with_compiled_code_and_fixed_path(target):
    (user,) = steps(target, "USER")
    uid, gid = map(int, user.split(":"))  # numeric, or a kubelet cannot verify that it is not root
    assert uid > 0
    assert gid > 0
    (environment,) = steps(target, "ENV")
    assert "PYTHONSAFEPATH=1" in environment.split()


def test_evaluator_image_has_the_command_of_tas():
    """TAS's Deployment starts /extender: its users change only the image."""
    (run, _) = steps("evaluator-root", "RUN")
    assert run == "ln -s /opt/plimsoll/bin/plimsoll-evaluator /extender"


def test_exposed_ports_are_those_of_the_programs():
    from evaluator.config import Settings

    settings = Settings()
    ports = {settings.port, settings.agent_port, settings.ops_port}
    (exposed,) = steps("evaluator", "EXPOSE")
    assert {int(port) for port in exposed.split()} == ports


LEFT_OUT = {
    "agent": {"evaluator", "lab", "sandbox"},
    "evaluator": {"agent", "lab", "sandbox"},
    "tools": set(),
}
"""The packages that each image does not have."""


@pytest.mark.parametrize("target", TARGETS)
def test_images_have_oci_labels_and_leave_out_other_programs(target):
    (labels,) = steps(target, "LABEL")
    named = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", labels))
    assert named >= {"title", "description", "licenses", "version", "revision"}
    (run,) = steps(f"{target}-installed", "RUN")
    removed = run.partition("rm -r")[2]
    assert set(re.findall(r"site-packages/(\w+)", removed)) == LEFT_OUT[target]
    programs = {f"plimsoll-{name}" for name in LEFT_OUT[target] - {"lab"}}
    assert set(re.findall(r"bin/(plimsoll[\w-]*)", removed)) == programs


def test_images_with_a_package_have_the_extras_of_its_subcommands():
    for target, left_out in LEFT_OUT.items():
        for found in cli.SUBCOMMANDS.values():
            if found.module.partition(".")[0] not in left_out:
                wanted = PROJECT["optional-dependencies"][found.extra]
                installed = [
                    text
                    for extra in extras(f"{target}-installed")
                    for text in PROJECT["optional-dependencies"][extra]
                ]
                assert closure(wanted) <= closure(installed)


def test_an_image_keeps_no_shell_package_manager_and_setuid_file(tmp_path):
    """release/slim.py on a tree as the base image has it; tests/deploy/test_images.py looks into built images."""
    kept = ("usr/bin/python3.11", "usr/local/bin/python", "opt/plimsoll/bin/plimsoll-agent", "var/lib/dpkg/status", "usr/share/doc/libc6/copyright", "usr/lib/x86_64-linux-gnu/libc.so.6")  # fmt: skip
    gone = ("usr/bin/dash", "usr/bin/sh", "usr/bin/bash", "usr/bin/apt-get", "usr/bin/dpkg", "usr/bin/perl5.36.0", "usr/sbin/adduser", "usr/lib/apt/methods/http", "usr/share/man/man1/ls.1", "usr/local/bin/pip3.11", "usr/local/lib/python3.11/site-packages/pip/__init__.py", "opt/slim.py")  # fmt: skip
    for name in (*kept, *gone, "usr/bin/mount", "usr/bin/wall"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "usr/bin/mount").chmod(0o4755)
    (tmp_path / "usr/bin/wall").chmod(0o2755)
    (tmp_path / "bin").symlink_to("usr/bin")
    assert slim.main(tmp_path) == 0
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == set(kept)
    for target in TARGETS:
        assert STAGES[target][0] == "scratch"
        assert steps(f"{target}-root", "RUN")[-1] == '["python", "/opt/slim.py"]'
