"""`python -m onestyle` is the command `onestyle`."""

import sys

from onestyle.cli import main

if __name__ == "__main__":
    sys.exit(main())
