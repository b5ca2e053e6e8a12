"""Faults written into a simulated node's kernel log."""

import pytest

from plimsoll.kernellog.readers import FileReader
from sandbox.inject import FAULTS, InjectError, inject, kernel_log


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "node-b").mkdir()
    kernel_log(tmp_path, "node-b").touch()
    return tmp_path


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_a_record_of_the_kernel(folder, fault) -> None:
    texts = inject(folder, "node-b", fault) + inject(folder, "node-b", fault)
    batch = FileReader(kernel_log(folder, "node-b")).read(0)
    assert batch.lost == 0
    assert [record.text for record in batch.records] == texts
    assert [record.sequence for record in batch.records] == [*range(1, len(texts) + 1)]
    assert all(record.of_kernel and record.microseconds for record in batch.records)


def test_xid_has_the_code_and_device_that_are_given(folder) -> None:
    (text,) = inject(folder, "node-b", "xid", ["48", "0000:5e:00"])
    assert text.startswith("NVRM: Xid (PCI:0000:5e:00): 48, ")


@pytest.mark.parametrize(
    ("node", "fault", "arguments", "message"),
    [
        ("node-x", "oops", [], "is a sandbox running"),
        ("node-b", "meteor", [], "no fault 'meteor': xid, oops"),
        ("node-b", "xid", ["many"], "xid takes a code"),
    ],
)
def test_mistakes_are_explained(folder, node, fault, arguments, message) -> None:
    with pytest.raises(InjectError, match=message):
        inject(folder, node, fault, arguments)
