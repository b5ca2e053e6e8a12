"""`python -m plimsoll` is plimsoll."""

import sys

from plimsoll.cli import main

sys.exit(main())
