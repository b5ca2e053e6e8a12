"""Lines as Linux and its drivers write them, one per problem that node-problem-detector's configurations know.

Written from the formats in the kernel's sources: mm/oom_kill.c, kernel/hung_task.c, net/core/dev.c, arch/x86/mm/fault.c,
arch/x86/kernel/traps.c, fs/ext4/super.c, fs/buffer.c, fs/xfs/xfs_fsops.c, drivers/edac, drivers/firmware/efi/cper.c.
"""

KERNEL = {
    "OOMKilling": "Out of memory: Killed process 4711 (stress) total-vm:1052672kB, anon-rss:1049600kB, file-rss:128kB, shmem-rss:0kB",
    "TaskHung": "INFO: task jbd2/sda1-8:412 blocked for more than 120 seconds.",
    "UnregisterNetDevice": "unregister_netdevice: waiting for eth0 to become free. Usage count = 1",
    "KernelOops": "BUG: unable to handle kernel NULL pointer dereference at 0000000000000010",
    "Ext4Error": "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
    "Ext4Warning": "EXT4-fs warning (device sda1): ext4_end_bio:332: I/O error 10 writing to inode 12",
    "IOError": "Buffer I/O error on dev sdb, logical block 0, async page read",
    "XfsHasShutdown": "XFS (sdb1): Log I/O Error Detected. Shutting down filesystem.",
    "MemoryReadError": "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0",
    "CperHardwareErrorCorrected": "{1}[Hardware Error]: event severity: corrected",
    "CperHardwareErrorRecoverable": "{1}[Hardware Error]: event severity: recoverable",
    "CperHardwareErrorFatal": "{2}[Hardware Error]: event severity: fatal",
    "DockerHung": "INFO: task docker:2341 blocked for more than 120 seconds.",
    "FilesystemIsReadOnly": "EXT4-fs (sda1): Remounting filesystem read-only",
}
OTHERS = {
    "CorruptDockerImage": "Error trying v2 registry: failed to register layer: rename /var/lib/docker/image/aufs/layerdb/tmp/layer-1 /var/lib/docker/image/aufs/layerdb/sha256/2: directory not empty",
    "CorruptDockerOverlay2": "Handler for POST /containers/create returned error: readlink /var/lib/docker/overlay2/1a/diff: invalid argument",
    "DockerContainerStartupFailure": "OCI runtime start failed: container process is already dead: unknown",
    "KubeletStart": "Started Kubernetes kubelet.",
    "DockerStart": "Starting Docker Application Container Engine...",
    "ContainerdStart": "Starting containerd container runtime...",
}
HARMLESS = (
    "eth0: link becomes ready",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode",
    "XFS (sdb1): Mounting V5 Filesystem",
    "Killed process",
    "task docker:2341 blocked",
    "user text: Remounting filesystem read-only, said a program",
)
