"""Entry point of `python -m agent`, the same as `plimsoll-agent`."""

import sys

from agent.main import main

sys.exit(main())
