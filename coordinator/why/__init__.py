"""Why a group rebalanced, in words and in findings: pure functions over the ledger's records and a group's live state.

The command line, HTTP and the pipeline share them.
"""
