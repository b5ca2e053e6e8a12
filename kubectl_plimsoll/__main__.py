"""Entry point of `python -m kubectl_plimsoll`."""

import sys

from kubectl_plimsoll.main import main

sys.exit(main())
