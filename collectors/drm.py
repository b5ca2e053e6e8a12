"""AMD GPUs: load and memory, from <sysfs>/class/drm/card*/device, by the driver amdgpu."""

import re
from collections.abc import Iterator

from collectors.interface import host
from collectors.interface.entry import Entry
from collectors.interface.metric import Metric, Table
from collectors.interface.sample import Family
from collectors.shared import sysfs

_CARD = "<sysfs>/class/drm/card*/device"
# File, the metric's name after node_drm_, its HELP.
_NUMBERS = (
    ("gpu_busy_percent", "gpu_busy_percent", "How busy the GPU is as a percentage."),
    ("mem_info_gtt_total", "memory_gtt_size_bytes", "The size of the graphics translation table (GTT) block in bytes."),
    ("mem_info_gtt_used", "memory_gtt_used_bytes", "The used amount of the graphics translation table (GTT) block in bytes."),
    ("mem_info_vis_vram_total", "memory_vis_vram_size_bytes", "The size of visible VRAM in bytes."),
    ("mem_info_vis_vram_used", "memory_vis_vram_used_bytes", "The used amount of visible VRAM in bytes."),
    ("mem_info_vram_total", "memory_vram_size_bytes", "The size of VRAM in bytes."),
    ("mem_info_vram_used", "memory_vram_used_bytes", "The used amount of VRAM in bytes."),
)  # fmt: skip
_INFO = ("mem_info_vram_vendor", "power_dpm_force_performance_level", "unique_id")
METRICS = Table(
    Metric(
        "node_drm_card_info",
        "gauge",
        "Card information",
        f"{_CARD}/*",
        ("card", "memory_vendor", "power_performance_level", "unique_id", "vendor"),
    ),
    *(
        Metric(
            f"node_drm_{name}",
            "gauge",
            about,
            f"{_CARD}/{file}",
            ("card",),
            "bytes" if name.endswith("bytes") else "",
        )
        for file, name, about in _NUMBERS
    ),
)
_NAME = re.compile(r"card\d+", re.ASCII)


class Drm:
    """The `drm` collector."""

    def __init__(self, machine: host.Host) -> None:
        self._directory = machine.sysfs / "class/drm"

    def collect(self) -> Iterator[Family]:
        """Read the source now. Attributes that a card does not have are absent."""
        cards = [
            name
            for name in sysfs.listing(self._directory)
            if _NAME.fullmatch(name)
            and "DRIVER=amdgpu" in (sysfs.content(self._path(name, "uevent")) or "").split()
        ]
        info = (
            ((card, *(sysfs.attribute(self._path(card, file)) or "" for file in _INFO), "amd"), 1.0)
            for card in cards
        )
        yield METRICS.family("node_drm_card_info", info)
        for file, name, _ in _NUMBERS:
            numbers = ((card, sysfs.number(self._path(card, file))) for card in cards)
            rows = (((card,), float(number)) for card, number in numbers if number is not None)
            yield METRICS.family(f"node_drm_{name}", rows)

    def _path(self, card: str, file: str) -> str:
        return f"{self._directory}/{card}/device/{file}"


ENTRY = Entry(build=lambda host, _: Drm(host), metrics=METRICS, about="AMD GPUs", on=False)
