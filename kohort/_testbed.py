"""`python -m kohort._testbed DESCRIPTOR`: the process that brokers of `kohort.testing` run in."""

import gc
import sys

from kohort._checkout import open_rooms

if __name__ == "__main__":
    open_rooms()
    gc.disable()  # nothing that is imported becomes garbage: a tenth of its time
    from broker.testbed.host import main

    gc.enable()
    main(int(sys.argv[1]))
