"""A real broker for every test, in milliseconds: docs/testing.md has examples of all of it.

    from kohort.testing import Broker

    with Broker() as broker:
        broker.create_topic("orders", partitions=3)
        run_my_service(broker.bootstrap_servers)
        broker.assert_produced("shipments", b"42")

With pytest the fixture `kohort` is a fresh broker for each test. The broker runs in a process of its own, which brokers
share one after the other; nothing of it is imported here.
"""

from kohort.testing.broker import Broker, Record, Request
from kohort.testing.chaos import Chaos, chaos
from kohort.testing.errors import BrokerDied, Refused
from kohort.testing.snapshots import Snapshot

__all__ = ["Broker", "BrokerDied", "Chaos", "Record", "Refused", "Request", "Snapshot", "chaos"]
