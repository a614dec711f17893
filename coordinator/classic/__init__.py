"""Classic consumer groups: who is in, which generation, and what each input changes.

A group is a value. Each rule takes a `View`, one input and the time, and returns an `Outcome`; nothing is awaited,
written or logged here. `inputs` lists what can happen, one module per input says what follows, `rules.RULES` maps the
one to the other. `checks` are the questions that several inputs ask.

Source: KIP-62, KIP-134, KIP-345, KIP-394, KIP-814; Kafka's ClassicGroup and GroupMetadataManager.
"""
