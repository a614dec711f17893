"""Consumer groups of KIP-848: members heartbeat, the coordinator computes who reads what.

One module per input, as in `coordinator.classic`. All that matters of such a group is in records: a rule changes a
group only through the records that it writes, so that what is in memory is always what the log says.
"""
