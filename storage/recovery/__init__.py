"""Opening a log: what is in the folder, what of it can be believed."""
