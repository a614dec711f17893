"""What a program of an environment of its own must not inherit from the tests'."""

from __future__ import annotations

import os


def clean_environment() -> dict[str, str]:
    """This process's variables, but for those that would put the checkout, or its virtual environment, in front."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
