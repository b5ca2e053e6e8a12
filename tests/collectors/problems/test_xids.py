"""XID errors in the kernel's log."""

import re
from pathlib import Path

import pytest

from collectors.problems import xids
from collectors.problems.xids import ACTIONS, XidAction

DOCS = Path(__file__).parents[3] / "docs/gpu.md"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", ("00000000:3B:00.0", 79)),
        ("NVRM: Xid (PCI:0000:07:00.0): 31, pid=1234, Ch 00000010, intr 00000000.", ("00000000:07:00.0", 31)),
        ("NVRM: Xid (PCI:00000001:07:00): 48, DBE", ("00000001:07:00.0", 48)),
        ("NVRM: Xid (0000:07:00): 48, an old driver", None),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7194, name=train, Contained", ("00000000:3B:00.0", 94)),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:00): 43, pid=882, name=python3, Ch 00000002", ("00000000:3B:00.0", 43)),
        ("nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", ("00000000:C4:00.0", 20034)),
        ("user: NVRM: Xid (PCI:0000:3b:00): 79, pid=1", None),
        ("NVRM: Xid (PCI:0000:3b:00): 123456789, pid=1", None),
    ],
)  # fmt: skip
def test_device_and_code_are_read(text: str, found: tuple[str, int] | None) -> None:
    assert xids.parse(text) == found


def test_unknown_code_is_unknown_and_not_fatal() -> None:
    assert xids.action(999) is XidAction.UNKNOWN
    assert xids.action(79) is XidAction.REBOOT
    assert xids.action(20034) is XidAction.INVESTIGATE


def test_table_of_the_docs_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \| `(\w+)` \|", DOCS.read_text(), re.MULTILINE)
    assert {int(code): (XidAction(action), text) for code, text, action in rows} == dict(ACTIONS)
