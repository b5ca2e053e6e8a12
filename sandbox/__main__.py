"""`python -m sandbox` is `plimsoll-sandbox`."""

import sys

from sandbox.main import main

sys.exit(main())
