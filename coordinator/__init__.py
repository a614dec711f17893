"""Groups and offsets as pure functions from values to values."""
