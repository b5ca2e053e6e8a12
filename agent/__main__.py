"""`python -m agent` is `plimsoll-agent`."""

import sys

from agent.main import main

sys.exit(main())
