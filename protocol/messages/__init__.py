"""One module per API, named as the API is."""
