"""Who watches the wire: auditors of what a broker says, in the simulation and beside a broker under test."""
