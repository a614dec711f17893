"""What may go wrong with a broker under test."""


class BrokerDied(Exception):
    """The broker's process has ended, and nobody had asked it to; the message has its last words."""


class Refused(Exception):
    """The broker cannot do what the test asked for; the message says why, and what is allowed."""
