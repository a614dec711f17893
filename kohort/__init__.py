"""Kohort, a Kafka-protocol broker: the one name that an installation claims.

- `python -m kohort` and the script `kohort` run the program;
- `kohort.spark` reads Kafka's logs in a Spark session of yours;
- `kohort.testing` is a broker for every test of yours.

Everything else is Kohort's own and may change: what is inside stands in `kohort.rooms`
(docs/decisions/one-public-name.md).
"""
