"""The plugin's command line: usage errors, flags that reach kubectl, and imports."""

import os
import pty
import re
import subprocess
import sys

import pytest

from kubectl_plimsoll import completion
from kubectl_plimsoll import main as cli
from kubectl_plimsoll.evaluator import Evaluator, UnreachableError


@pytest.fixture
def kubectl(tmp_path, monkeypatch):
    """A program in kubectl's place, first on PATH; `answers(text)` sets what it does."""
    program = tmp_path / "kubectl"

    def answers(script):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return answers


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            [],
            "no command: commands are status, policies, nodes, explain, history, top, ack, forget, stop, resume",
        ),
        (["forget"], "forget takes node NAME, and no -o"),
        (["forget", "pod/x"], "forget takes node NAME, and no -o"),
        (["forget", "node/"], "forget takes node NAME, and no -o"),
        (["explain", "pod"], "explain takes one of pod, node, policy, gang and a name, not pod"),
        (["explain", "tree", "x"], "explain takes one of pod, node"),
        (["explain", "pod/"], "explain takes one of pod, node"),
        (["ack", "node/x"], "ack takes a node and a problem"),
        (["ack", "pod/x", "KernelDeadlock"], "ack takes a node and a problem"),
        (["ack", "node/x", "Kernel=Deadlock"], "ack takes a node and a problem"),
        (["frobnicate"], "frobnicate: commands are status"),
        (["status", "-o", "xml"], "argument -o/--output: invalid choice"),
    ],
)
def test_mistake_is_one_sentence_with_exit_status_2(capsys, words, says):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_flags_of_kubectl_are_passed_on_and_may_stand_anywhere(kubectl, capsys):
    kubectl('echo "{\\"args\\": \\"$*\\"}"')
    flags = ["explain", "--context=c", "pod", "web", "-n", "shop", "--as", "me", "-o", "json"]
    assert cli.main(flags) == cli.UNKNOWN
    where = "/api/v1/namespaces/plimsoll/services/http:plimsoll-evaluator:ops/proxy/explain"
    assert f"--context=c --as=me get --raw {where}?pod=shop/web" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["node/--all"], ["node", "--", "--all"], ["no/--all"]])
def test_forget_deletes_the_annotation_of_one_node_whatever_its_name(kubectl, capsys, words):
    kubectl('printf "%s|" "$@"')
    assert cli.main(["forget", "--context=c", *words]) == 0
    assert capsys.readouterr().out == "--context=c|annotate|node|--|--all|plimsoll.io/memory-|\n"


@pytest.mark.parametrize(
    ("words", "query"),
    [
        (["pod/web"], "?pod=shop/web"),
        (["po/web"], "?pod=shop/web"),
        (["pod", "other/web"], "?pod=other/web"),
        (["pods/other/web"], "?pod=other/web"),
        (["node/a"], "?node=a"),
        (["no", "a"], "?node=a"),
        (["gang/train"], "?gang=shop/train"),
        (["tas/demo"], "/shop/demo"),
        (["taspolicies", "demo"], "/shop/demo"),
        (["policy/demo"], "/shop/demo"),
    ],
)
def test_objects_are_named_as_kubectl_names_them(kubectl, capsys, words, query):
    kubectl('echo "{\\"args\\": \\"$*\\"}"')
    cli.main(["explain", *words, "-n", "shop", "-o", "json"])
    assert f'explain{query}"' in capsys.readouterr().out


def test_missing_kubectl_is_reported(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["status"]) == cli.UNKNOWN
    assert "kubectl cannot be started" in capsys.readouterr().err


def test_answer_of_another_program_is_reported(kubectl):
    kubectl("echo '<html>'")
    with pytest.raises(UnreachableError, match="is not JSON: is that the evaluator's port"):
        Evaluator().get()


@pytest.mark.parametrize("levels", [60, 900, 200_000])
@pytest.mark.parametrize("output", [[], ["-o", "json"], ["-o", "yaml"]])
def test_deeply_nested_answer_is_an_error(kubectl, tmp_path, capsys, levels, output):
    deep = tmp_path / "deep.json"
    deep.write_text('{"waitingFor": ' + "[" * levels + "]" * levels + "}")
    kubectl(f"cat {deep}")
    assert cli.main(["status", *output]) == cli.UNKNOWN
    written = capsys.readouterr()
    assert written.out == ""
    assert len(written.err.splitlines()) == 1
    assert "is that the evaluator's port?" in written.err


def test_yaml_is_the_whole_answer(kubectl, capsys):
    kubectl("""echo '{"waitingFor": [], "policies": []}'""")
    assert cli.main(["status", "-o", "yaml"]) == 0
    assert capsys.readouterr().out == "waitingFor: []\npolicies: []\n"


@pytest.mark.parametrize("words", [["--contex", "x"], ["nodes", ""], ["explain", "pod", ""]])
def test_completion_never_writes_an_error(kubectl, capfd, words):
    kubectl("echo boom >&2; exit 1")
    assert completion.main(words) == 0
    assert capfd.readouterr() == (":4\n", "")


def test_plugin_imports_neither_numpy_nor_grpc():
    code = (
        "import sys, kubectl_plimsoll.main, kubectl_plimsoll.completion;"
        "print(*{'numpy', 'grpc', 'google', 'yaml', 'msgspec', 'structlog', 'aiohttp'} & {*sys.modules})"
    )
    told = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert told.stdout == "\n"


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_appear_on_a_terminal_only_unless_switched_off(kubectl, env, coloured):
    kubectl("""echo '{"waitingFor": [], "policies": []}'""")
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        command = [sys.executable, "-P", "-m", "kubectl_plimsoll", "status"]
        environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        subprocess.run(command, stdout=theirs, env=environment | env, check=True)
        os.close(theirs)
        assert (b"\x1b[32mready" in terminal.read(1000)) is coloured


@pytest.mark.parametrize("words", [["node/worker-3"], ["no", "worker-3"], ["nodes/worker-3"]])
def test_acknowledgement_is_an_annotation_with_time_and_user(kubectl, capsys, tmp_path, words):
    kubectl(
        f'if [ "$2" = whoami ]; then printf "ada\\nlovelace"; else echo "$*" > {tmp_path}/done; fi'
    )
    assert cli.main(["ack", *words, "KernelDeadlock"]) == 0
    assert "KernelDeadlock of node worker-3 acknowledged" in capsys.readouterr().out
    done = (tmp_path / "done").read_text()
    note = r"annotate node --overwrite worker-3 plimsoll\.io/ack\.KernelDeadlock=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ ada lovelace\n"
    assert re.fullmatch(note, done)
