"""`python -m evaluator` is plimsoll-evaluator."""

import sys

from evaluator.main import main

sys.exit(main())
