"""Quotas: how much users, client ids and addresses may ask of the broker, and how long they wait who ask for more.

`entities` says which quota counts, `rates` measures, `meters` has one for each whom a quota holds, `client_quotas`
follows the metadata log, and `limits` is what quotas ask of one connection.
"""
