"""`python -m broker` is `kohort`."""

import sys

from broker.cli import main

sys.exit(main())
