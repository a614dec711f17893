"""The compiled tree: the rooms again under `build/compiled`, those on the path of a request as native code."""
