"""An answer that a test gives to the rules itself, where a connection would give a `Deferred`."""

from typing import Any


class Heard:
    """Keeps the first answer, whatever it is."""

    def __init__(self) -> None:
        self.done = False
        self.response: Any = None

    def complete(self, response: Any) -> None:
        if not self.done:
            self.done = True
            self.response = response
