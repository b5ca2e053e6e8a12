"""Types of arrays: over nodes, samples or times."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]
