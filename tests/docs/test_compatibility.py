"""docs/compatibility.md is made of recorded runs."""

from docs import compatibility


def test_recorded_runs_become_a_page_with_the_newest_version_first(tmp_path):
    need = "Skipped: the API server has no mutatingadmissionpolicies of admissionregistration.k8s.io/v1"
    old = [("passed", "a", ""), ("skipped", "b", need), ("skipped", "c", need), ("error", "d", "")]
    compatibility.record("v1.9.14", old, tmp_path)
    compatibility.record("v1.36.1", [("failed", "a", "")], tmp_path)
    compatibility.record("v1.36.3", [("passed", "a", ""), ("passed", "b", "")], tmp_path)
    lines = [*compatibility.page(tmp_path)]
    assert [line for line in lines if line.startswith("| v")] == [
        "| v1.36.3 | 2 | 0 | 0 |",
        "| v1.9.14 | 1 | 1 | 2 |",
    ]
    assert lines[-4:] == ["## v1.9.14", "", "- failed: `d`", f"- skipped 2: {need[9:]}"]
