"""One module per resource: a handler translates a request to an input, and an outcome to a response."""
