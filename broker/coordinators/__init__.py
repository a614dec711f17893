"""What runs the rules of a coordinator: outcomes become records, replies, timers and events, whatever the shard holds.

`Effects` acts on outcomes, `Leader` says when there is a shard, `Leaders` which partition serves which key. What is
particular to groups or to transactions is their `Tenant`.

Source: Kafka's CoordinatorRuntime.
"""
