"""Files of a data directory as text or JSON, without a broker."""
