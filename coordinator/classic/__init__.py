"""Classic consumer groups: one module per input."""
