import pytest

from collectors.resctrl.formats.podnames import container_id, pod_uid

UID = "b933ae96-6ca5-4382-bdae-c3edad27d2a4"
CONTAINER = "efccca1f375f17aa0863195e8b5c9e3c6b85070c298e6323bf0e5c4f8a61c30e"
STATIC = "0c7eea57e8e4ac2ed1b5b1cdd2ba5d2a"


@pytest.mark.parametrize(
    ("name", "uid", "container"),
    [
        (CONTAINER, "", CONTAINER),
        (UID, UID, ""),
        (f"pod-{UID}", UID, ""),
        (f"koordlet-{UID}", UID, ""),
        (f"cadvisor-kubepods-burstable-pod{UID}-{CONTAINER}", UID, CONTAINER),
        (
            f"cadvisor-kubepods.slice-kubepods-pod{UID.replace('-', '_')}.slice-cri-containerd-{CONTAINER}.scope",
            UID,
            CONTAINER,
        ),
        (f"kubepods-pod{STATIC}-{CONTAINER}", STATIC, CONTAINER),
        ("/", "", ""),
        ("guaranteed", "", ""),
        (STATIC, "", ""),
        (f"{CONTAINER}00", "", ""),
        (f"{UID}0", "", ""),
        (f"0{UID}", "", ""),
        (UID.upper(), "", ""),
    ],
)
def test_pod_and_container_ids_are_found_in_names(name: str, uid: str, container: str) -> None:
    assert (pod_uid(name), container_id(name)) == (uid, container)
