"""Makes the package `gwfuzz` importable: the tests and the generated programs import it by that name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
