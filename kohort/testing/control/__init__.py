"""`kohort testbed`: what `kohort.testing` can do, over HTTP and JSON, for tests in any language.

POST /brokers is `Broker(...).open()`, POST /brokers/1/produce is `broker.produce(...)`, and so on: a body has the
arguments by their names. docs/testing-http.md tells all of it.
"""

from kohort.testing.control.server import serve

__all__ = ["serve"]
