"""`python -m graphwright_plugins.replay FOLDER --backend NAME`."""

import sys

from .run import main

if __name__ == "__main__":
    sys.exit(main())
