from collectors.pcidevice import formats

TEXT = """\
# List of PCI ID's
0e11  Compaq Computer Corporation
\t0001  PCI to EISA Bridge
\tb060  NVMe Controller
144d  Samsung Electronics Co Ltd
\ta80a  NVMe SSD Controller PM9A1/PM9A3/980PRO
\t\t144d a813  General DC NVMe PM9A3
\t\t1028  torn
\tbroken

C 01  Mass storage controller
\t00  SCSI storage controller
\t08  Non-Volatile memory controller
\t\t02  NVM Express
C 03  Display controller
\t\t07  orphan
"""


def test_names_of_the_requested_vendors_are_read() -> None:
    names = formats.parse(TEXT.splitlines(), {"144d"})
    assert names.vendor("0e11") == "Compaq Computer Corporation"
    assert names.vendor("ffff") == "ffff"
    assert names.device("144d", "a80a") == "NVMe SSD Controller PM9A1/PM9A3/980PRO"
    assert names.device("0e11", "0001") == "0001", "devices of a vendor that was not requested"
    assert names.subsystem(("144d", "a80a", "144d", "a813")) == "General DC NVMe PM9A3"
    assert names.subsystem(("144d", "a80a", "1028", "0001")) == "0001"


def test_class_has_the_most_specific_name() -> None:
    names = formats.parse(TEXT.splitlines(), set())
    assert names.pci_class("010802") == "NVM Express"
    assert names.pci_class("010803") == "Non-Volatile memory controller"
    assert names.pci_class("01ff00") == "Mass storage controller"
    assert names.pci_class("ffff00") == "Unknown class (ffff00)"
    assert names.pci_class("0307ff") == "Display controller", (
        "a line outside any subclass is ignored"
    )


def test_other_file_has_no_names() -> None:
    assert formats.parse(["\t\tx  y", "", "#  z", "no gap"], {"x"}) == formats.PciNames()
