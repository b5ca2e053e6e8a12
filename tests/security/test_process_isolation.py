"""What a process with the host's /proc can read of other containers' processes, by user: real processes and kernel."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
NONROOT = 65532
"""The uid and gid of `nonroot` images, which many containers of a node share."""
MARKER = "CONTAINER_SECRET"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can start other users' processes"
)


def identity(manifest):
    """(uid, gid) of the pods of a workload."""
    context = yaml.safe_load((DEPLOY / manifest).read_text())["spec"]["template"]["spec"]
    context = context["securityContext"]
    return context["runAsUser"], context["runAsGroup"]


AGENT = identity("daemonset/daemonset.yaml")
EVALUATOR = identity("evaluator/deployment.yaml")
NOBODY_ELSE = (NONROOT, NONROOT)


@pytest.fixture
def container():
    """Start a process as (uid, gid) with a secret in its environment; return its pid."""
    started = []

    def start(user):
        # It has executed the program, so its environment is set, when it prints its line.
        process = subprocess.Popen(
            ["/bin/sh", "-c", "echo ready; exec sleep 60"],
            env={MARKER: "token"},
            stdout=subprocess.PIPE,
            **credentials(user),
        )
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process.pid

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def credentials(user):
    uid, gid = user
    return {"user": uid, "group": gid, "extra_groups": []}


def read_as(user, command):
    return subprocess.run(
        ["/bin/sh", "-c", command], capture_output=True, text=True, cwd="/", **credentials(user)
    )


PRIVATE = {
    "environ": "cat /proc/{pid}/environ",
    "root": "ls /proc/{pid}/root/",
    "memory": "head -c 1 /proc/{pid}/maps",
}


@pytest.mark.parametrize("command", PRIVATE.values(), ids=PRIVATE.keys())
@pytest.mark.parametrize("ours", [AGENT, EVALUATOR], ids=["agent", "evaluator"])
def test_another_nonroot_container_is_not_readable_as_our_user(container, ours, command):
    pid = container(NOBODY_ELSE)
    read = read_as(ours, command.format(pid=pid))
    assert read.returncode != 0
    assert read.stdout == ""
    assert "Permission denied" in read.stderr


@pytest.mark.parametrize("command", PRIVATE.values(), ids=PRIVATE.keys())
@pytest.mark.parametrize(
    "reader", [NOBODY_ELSE, AGENT], ids=["another nonroot container", "the agent"]
)
def test_evaluator_is_not_readable_as_another_user(container, reader, command):
    read = read_as(reader, command.format(pid=container(EVALUATOR)))
    assert read.returncode != 0
    assert "Permission denied" in read.stderr


@pytest.mark.parametrize("command", PRIVATE.values(), ids=PRIVATE.keys())
def test_processes_of_one_user_read_each_other(container, command):
    """Why the users are uncommon: without this the tests above would prove nothing."""
    read = read_as(NOBODY_ELSE, command.format(pid=container(NOBODY_ELSE)))
    assert read.returncode == 0, read.stderr
    assert read.stdout


def test_environment_of_a_process_of_the_same_user_shows_its_secret(container):
    read = read_as(NOBODY_ELSE, PRIVATE["environ"].format(pid=container(NOBODY_ELSE)))
    assert MARKER in read.stdout
