"""Texts about flags for people and shells, and arguments as kingpin reads them."""

import re
import shutil
import subprocess

import pytest

from plimsoll.commandline import Parser


@pytest.fixture
def parser():
    made = Parser("the-agent", about="Serves metrics.", commands=("eval",), reads_files=True)
    made.with_version()
    made.add_argument("--path.rootfs", metavar="DIR", help="the host's root; 100%% of it")
    made.add_argument("--collector.cpu", "-collector.cpu", nargs="?", const="true", help="it's CPU")
    made.add_argument("words", nargs="*")
    return made


@pytest.fixture
def printed(parser, capsys):
    def run(flag):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args([flag])
        assert ended.value.code in (0, None)
        return capsys.readouterr().out

    return run


def test_a_switch_takes_no_value_but_after_the_equals_sign(parser):
    assert parser.parse_args(["--collector.cpu", "word"]).words == ["word"]
    assert parser.parse_args(["-collector.cpu=false"]).__dict__["collector.cpu"] == "false"
    assert parser.parse_args(["--", "--collector.cpu"]).words == ["--collector.cpu"]


def test_a_file_of_arguments_has_one_on_each_line(parser, tmp_path):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("--path.rootfs=/host dir\n")
    outer.write_text(f"# comment\n\n--collector.cpu\n@{inner}\n")
    found = parser.parse_args([f"@{outer}", "a", "--", "@b"])
    assert (found.__dict__["path.rootfs"], found.words) == ("/host dir", ["a", "@b"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "the file of arguments cannot be read: No such file"),
        (b"\xff", "the file of arguments cannot be read: not UTF-8"),
        ("@FILE", "name one another more than 10 deep"),
    ],
)
def test_an_unusable_file_of_arguments_is_named(parser, tmp_path, capsys, content, message):
    file = tmp_path / "arguments"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content:
        file.write_text(content.replace("FILE", str(file)))
    with pytest.raises(SystemExit) as ended:
        parser.parse_args([f"@{file}"])
    assert ended.value.code == 2
    assert f"@{file}: {message}" in capsys.readouterr().err.replace("argument files ", "")


def test_the_manual_page_has_all_flags(printed):
    page = printed("--help-man")
    assert "\\fB\\-\\-path.rootfs\\fR=DIR\nthe host's root; 100% of it" in page
    assert "\\fB\\-\\-[no\\-]collector.cpu\\fR\nit's CPU" in page
    if man := shutil.which("groff"):
        made = subprocess.run(
            [man, "-man", "-Tascii", "-P-cbou", "-ww"],
            input=page,
            capture_output=True,
            text=True,
            check=True,
        )
        assert made.stderr == ""
        assert "--path.rootfs" in made.stdout


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("the-agent e", ["eval"]),
        ("the-agent --path", ["--path.rootfs="]),
        ("the-agent --no-", ["--no-collector.cpu"]),
        ("the-agent eval --col", ["--collector.cpu"]),
        ("the-agent --path.rootfs=/et", ["/etc"]),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_bash_completes_commands_flags_and_files(printed, line, candidates, shell):
    script = printed(f"--completion-script-{shell}")
    if shell == "zsh":  # the same function behind bashcompinit
        assert script.startswith("#compdef the-agent\n")
        script = script.partition("bashcompinit\n")[2]
    ask = (
        f'COMP_LINE="{line}" COMP_POINT={len(line)}; _the_agent; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    made = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
    )
    assert made.stdout.split() == candidates


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_plugin_leaves_the_completion_of_kubectl_alone(capsys, shell):
    with pytest.raises(SystemExit):
        Parser("kubectl plugin", about="A plugin.").parse_args([f"--completion-script-{shell}"])
    script = capsys.readouterr().out
    assert re.search(r"\bkubectl-plugin\b", script)
    assert not re.search(r"\bkubectl\b(?!-)", script.replace("_kubectl_plugin", ""))


def test_fish_gets_each_flag_with_its_help(printed):
    script = printed("--completion-script-fish")
    assert "complete -c the-agent -l path.rootfs -r -d 'the host\\'s root; 100% of it'" in script
    assert "complete -c the-agent -l no-collector.cpu -d 'it\\'s CPU'" in script
    assert "complete -c the-agent -n __fish_use_subcommand -a eval" in script
