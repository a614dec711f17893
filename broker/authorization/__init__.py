"""Who may do what: Kafka's StandardAuthorizer on the ACLs of the metadata log.

`rule` decides, purely; `authorizer` remembers verdicts, knows super users, and tells the audit log.
"""
