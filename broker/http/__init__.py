"""Metrics, health and groups over HTTP, on a listener of their own (`kohort.http.listener`).

It is for operators, and never in the way of clients: nothing of it is loaded before the first connection comes, and
every answer is made in slices between which the loop serves everybody else.
"""
