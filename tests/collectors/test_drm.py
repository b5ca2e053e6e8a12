import pytest

from collectors.drm import Drm
from collectors.interface.sample import SourceAbsentError

CARD = "sys/class/drm/card0/device"
FILES = {
    f"{CARD}/uevent": "DRIVER=amdgpu\nPCI_CLASS=30000\n",
    f"{CARD}/gpu_busy_percent": "4\n",
    f"{CARD}/mem_info_vram_total": "8573157376\n",
    f"{CARD}/mem_info_vram_used": "1490378752\n",
    f"{CARD}/mem_info_vram_vendor": "samsung\n",
    f"{CARD}/power_dpm_force_performance_level": "manual\n",
    f"{CARD}/unique_id": "0123456789abcdef\n",
    "sys/class/drm/card0-DP-1/status": "connected\n",
    "sys/class/drm/card1/device/uevent": "DRIVER=i915\n",
}


def test_card_of_amdgpu_is_exported(plant, values) -> None:
    assert values(Drm(plant(FILES)).collect()) == {
        'node_drm_card_info{card="card0",memory_vendor="samsung",power_performance_level="manual",'
        'unique_id="0123456789abcdef",vendor="amd"}': 1,
        'node_drm_gpu_busy_percent{card="card0"}': 4,
        'node_drm_memory_vram_size_bytes{card="card0"}': 8573157376,
        'node_drm_memory_vram_used_bytes{card="card0"}': 1490378752,
    }


def test_machine_without_graphics_has_no_source(plant) -> None:
    with pytest.raises(SourceAbsentError):
        list(Drm(plant({})).collect())
