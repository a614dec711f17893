"""`python -m kohort._testbed DESCRIPTOR`: the process that brokers of `kohort.testing` run in."""

import sys

from kohort._checkout import open_rooms

if __name__ == "__main__":
    open_rooms()
    from broker.testbed.host import main

    main(int(sys.argv[1]))
