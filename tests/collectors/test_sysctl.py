import pytest

from agent import config
from collectors.interface.sample import CollectorError
from collectors.sysctl import Options as SysctlOptions
from collectors.sysctl import Sysctl

FILES = {
    "proc/sys/fs/file-nr": "1024\t0\t1631329\n",
    "proc/sys/vm/swappiness": "60\n",
    "proc/sys/kernel/pid_max_of": "-1\n",
    "proc/sys/kernel/seccomp/actions_avail": "kill_process allow\n",
    "proc/sys/kernel/core_pattern": "core\n",
}


def test_numbers_are_exported_alone_by_index_or_by_name(plant) -> None:
    include = ("vm.swappiness", "fs.file-nr", "fs.file-nr:total,current,max", "kernel.pid_max_of")
    found = list(Sysctl(plant(FILES), SysctlOptions(include)).collect())
    assert [(f.name, f.type, f.help, [(s.labels, s.value) for s in f.samples]) for f in found] == [
        ("node_sysctl_vm_swappiness", "untyped", "sysctl vm.swappiness", [((), 60)]),
        (
            "node_sysctl_fs_file_nr",
            "untyped",
            "sysctl fs.file-nr",
            [((("index", "0"),), 1024), ((("index", "1"),), 0), ((("index", "2"),), 1631329)],
        ),
        ("node_sysctl_fs_file_nr_total", "untyped", "sysctl fs.file-nr, field 0", [((), 1024)]),
        ("node_sysctl_fs_file_nr_current", "untyped", "sysctl fs.file-nr, field 1", [((), 0)]),
        ("node_sysctl_fs_file_nr_max", "untyped", "sysctl fs.file-nr, field 2", [((), 1631329)]),
        ("node_sysctl_kernel_pid_max_of", "untyped", "sysctl kernel.pid_max_of", [((), -1)]),
    ]


def test_text_is_exported_as_labels(plant, values) -> None:
    options = SysctlOptions((), ("kernel.core_pattern", "kernel.seccomp.actions_avail"))
    assert values(Sysctl(plant(FILES), options).collect()) == {
        'node_sysctl_info{name="kernel.core_pattern",value="core",index="0"}': 1,
        'node_sysctl_info{name="kernel.seccomp.actions_avail",value="kill_process",index="0"}': 1,
        'node_sysctl_info{name="kernel.seccomp.actions_avail",value="allow",index="1"}': 1,
    }


@pytest.mark.parametrize(
    ("include", "sentence"),
    [
        ("kernel.core_pattern", "include-info exports text"),
        ("kernel.absent", "no such parameter"),
        ("fs.file-nr:a,b", "3 numbers for 2 names"),
    ],
)
def test_parameter_that_cannot_be_exported_is_an_error(plant, include, sentence) -> None:
    with pytest.raises(CollectorError, match=sentence):
        list(Sysctl(plant(FILES), SysctlOptions((include,))).collect())


def test_a_form_of_node_exporter_is_accepted(plant):
    for include in ("vm/swappiness", "/vm/swappiness", "vm..swappiness"):
        (family,) = Sysctl(plant(FILES), SysctlOptions((include,))).collect()
        assert family.name.removeprefix("node_sysctl_").lstrip("_") == "vm_swappiness"
    for include in ("vm.swappiness:x", "vm.swappiness:"):  # it has one number
        with pytest.raises(CollectorError, match="1 numbers for 1 names"):
            list(Sysctl(plant(FILES), SysctlOptions((include,))).collect())


@pytest.mark.parametrize("name", ["../../etc/passwd", "/../../../etc/passwd", "//etc/passwd"])
def test_nothing_beside_kernel_parameters_is_read(plant, name):
    with pytest.raises(CollectorError, match="no such parameter"):
        list(Sysctl(plant(FILES), SysctlOptions((), (name,))).collect())


@pytest.mark.parametrize("name", ["", "vm.a b", "vm.a:b:c", ":a"])
def test_other_texts_are_rejected_on_the_command_line(name: str, capsys) -> None:
    with pytest.raises(SystemExit):
        config.parse([f"--collector.sysctl.include={name}"], {}, hostname="h")
    assert "--collector.sysctl.include: not a kernel parameter" in capsys.readouterr().err
