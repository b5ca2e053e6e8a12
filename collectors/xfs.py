"""Operations of each XFS file system, from <sysfs>/fs/xfs/<device>/stats/stats."""

from collections.abc import Iterator

from collectors.interface import guard, host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs
from collectors.shared.formats.numerals import parse_uint

_FILE = "<sysfs>/fs/xfs/<device>/stats/stats"
# Key of the line; for each number in it, the metric's name after node_xfs_ and its HELP.
# fmt: off
_LINES = {
    "extent_alloc": (
        ("extent_allocation_extents_allocated_total", "Number of extents allocated for a filesystem."),
        ("extent_allocation_blocks_allocated_total", "Number of blocks allocated for a filesystem."),
        ("extent_allocation_extents_freed_total", "Number of extents freed for a filesystem."),
        ("extent_allocation_blocks_freed_total", "Number of blocks freed for a filesystem."),
    ),
    "abt": (
        ("allocation_btree_lookups_total", "Number of allocation B-tree lookups for a filesystem."),
        ("allocation_btree_compares_total", "Number of allocation B-tree compares for a filesystem."),
        ("allocation_btree_records_inserted_total", "Number of allocation B-tree records inserted for a filesystem."),
        ("allocation_btree_records_deleted_total", "Number of allocation B-tree records deleted for a filesystem."),
    ),
    "blk_map": (
        ("block_mapping_reads_total", "Number of block map for read operations for a filesystem."),
        ("block_mapping_writes_total", "Number of block map for write operations for a filesystem."),
        ("block_mapping_unmaps_total", "Number of block unmaps (deletes) for a filesystem."),
        ("block_mapping_extent_list_insertions_total", "Number of extent list insertions for a filesystem."),
        ("block_mapping_extent_list_deletions_total", "Number of extent list deletions for a filesystem."),
        ("block_mapping_extent_list_lookups_total", "Number of extent list lookups for a filesystem."),
        ("block_mapping_extent_list_compares_total", "Number of extent list compares for a filesystem."),
    ),
    "bmbt": (
        ("block_map_btree_lookups_total", "Number of block map B-tree lookups for a filesystem."),
        ("block_map_btree_compares_total", "Number of block map B-tree compares for a filesystem."),
        ("block_map_btree_records_inserted_total", "Number of block map B-tree records inserted for a filesystem."),
        ("block_map_btree_records_deleted_total", "Number of block map B-tree records deleted for a filesystem."),
    ),
    "dir": (
        ("directory_operation_lookup_total", "Number of file name directory lookups which miss the operating systems directory name lookup cache."),
        ("directory_operation_create_total", "Number of times a new directory entry was created for a filesystem."),
        ("directory_operation_remove_total", "Number of times an existing directory entry was created for a filesystem."),
        ("directory_operation_getdents_total", "Number of times the directory getdents operation was performed for a filesystem."),
    ),
    "ig": (
        ("inode_operation_attempts_total", "Number of times the OS looked for an XFS inode in the inode cache."),
        ("inode_operation_found_total", "Number of times the OS looked for and found an XFS inode in the inode cache."),
        ("inode_operation_recycled_total", "Number of times the OS found an XFS inode in the cache, but could not use it as it was being recycled."),
        ("inode_operation_missed_total", "Number of times the OS looked for an XFS inode in the cache, but did not find it."),
        ("inode_operation_duplicates_total", "Number of times the OS tried to add a missing XFS inode to the inode cache, but found it had already been added by another process."),
        ("inode_operation_reclaims_total", "Number of times the OS reclaimed an XFS inode from the inode cache to free memory for another purpose."),
        ("inode_operation_attribute_changes_total", "Number of times the OS explicitly changed the attributes of an XFS inode."),
    ),
    "rw": (
        ("write_calls_total", "Number of write(2) system calls made to files in a filesystem."),
        ("read_calls_total", "Number of read(2) system calls made to files in a filesystem."),
    ),
    "vnodes": (
        ("vnode_active_total", "Number of vnodes not on free lists for a filesystem."),
        ("vnode_allocate_total", "Number of times vn_alloc called for a filesystem."),
        ("vnode_get_total", "Number of times vn_get called for a filesystem."),
        ("vnode_hold_total", "Number of times vn_hold called for a filesystem."),
        ("vnode_release_total", "Number of times vn_rele called for a filesystem."),
        ("vnode_reclaim_total", "Number of times vn_reclaim called for a filesystem."),
        ("vnode_remove_total", "Number of times vn_remove called for a filesystem."),
    ),
}
# fmt: on
METRICS = Table(
    *(
        Metric(f"node_xfs_{name}", "counter", about, _FILE, ("device",))
        for numbers in _LINES.values()
        for name, about in numbers
    )
)


@guard.some
def parse(text: str) -> Iterator[tuple[str, float]]:
    """Yield metrics and values. Lines that the kernel does not write are absent."""
    for line in text.splitlines():
        key, *words = line.split() or [""]
        # vnodes has an eighth number in newer kernels
        for (name, _), word in zip(_LINES.get(key, ()), words, strict=False):
            try:
                yield f"node_xfs_{name}", float(parse_uint(word))
            except ValueError as error:
                guard.skip(f"xfs: {key} {error}", f"node_xfs_{name}")


class Xfs:
    """The `xfs` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.sysfs / "fs/xfs"

    def collect(self) -> Iterator[Family]:
        """Read the source now."""
        rows: dict[str, list[tuple[tuple[str], float]]] = {}
        for device in sysfs.listing(self._directory):
            # `stats` is the sum over all file systems
            text = (
                None
                if device == "stats"
                else sysfs.content(f"{self._directory}/{device}/stats/stats")
            )
            for name, value in dict(guard.attempt(parse(text or ""))).items():
                rows.setdefault(name, []).append(((device,), value))
        for name, samples in rows.items():
            yield METRICS.family(name, samples)


ENTRY = Entry(
    build=lambda host, _: Xfs(host),
    metrics=METRICS,
    about="operations of XFS file systems",
    source="<sysfs>/fs/xfs",
)
