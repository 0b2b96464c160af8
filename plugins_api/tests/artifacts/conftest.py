"""Makes the package `gwsaving` importable: the tests, and the processes that they start, import it by that name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
