"""A seeded mutator of real requests, against the broker in this process and over a socket."""
