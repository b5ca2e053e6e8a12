"""`check-problems --log` judges lines as the agent does: by pluginConfig and skipList."""

import json
from pathlib import Path

import pytest

from agent import check_problems
from tests.collectors.problems.configurations import document

FILE_LOG = {
    "plugin": "filelog",
    "logPath": "/var/log/kern.log",
    "pluginConfig": {
        "timestamp": "^.{15}",
        "message": "kernel: \\[.*\\] (.*)",
        "timestampFormat": "Jan _2 15:04:05",
    },
}
OLD = "Nov 20 18:33:51 node-7 kernel: [ 8123.4] "
NEW = "2026-11-20T18:33:45.123456+00:00 node-7 kernel: [ 8123.4] "
HUNG = "task kubelet:4242 blocked for more than 120 seconds."


@pytest.fixture
def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The exit status, and what is printed to both streams."""

    def check(log: str, **changes: object) -> tuple[int, str, str]:
        (tmp_path / "monitor.json").write_text(document(**changes))
        (tmp_path / "log").write_text(log)
        status = check_problems.main([f"--log={tmp_path}/log", f"{tmp_path}/monitor.json"])
        return status, *capsys.readouterr()

    return check


def test_lines_that_do_not_fit_match_no_rule(checked) -> None:
    status, out, err = checked(f"{NEW}{HUNG}\n", **FILE_LOG)
    assert status == 1, "the agent would find nothing in such a log"
    assert "Hung" not in out
    assert "1 line of" in err
    assert NEW in err
    status, out, err = checked(f"{OLD}{HUNG}\nno time\n", **FILE_LOG)
    assert (status, "Hung (temporary, monitor.json)" in out) == (0, True)
    assert "the first is 2: pluginConfig" in err


def test_rules_match_the_message_only(checked) -> None:
    rules = [{"type": "temporary", "reason": "AtBegin", "pattern": "^task .*"}]
    assert "AtBegin" in checked(f"{OLD}{HUNG}\n", rules=rules, bufferSize=1, **FILE_LOG)[1]


def test_skipped_lines_match_no_rule(checked) -> None:
    assert "Hung" in checked(f"{HUNG}\n")[1]
    assert "Hung" not in checked(f"{HUNG}\n", skipList=["kubelet"])[1]


def test_records_of_the_kernel_are_read_without_their_numbers(checked) -> None:
    rules = [{"type": "temporary", "reason": "AtBegin", "pattern": "^task .*"}]
    log = f"3,1,2,-;{HUNG}\n SUBSYSTEM=task x\n"
    assert checked(log, rules=rules, bufferSize=1)[1].count("AtBegin") == 1
    assert json.loads(document())["plugin"] == "kmsg"
