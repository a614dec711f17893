"""The only place for asyncio, threads, processes, clocks and randomness."""
