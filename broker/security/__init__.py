"""Who a peer is: JAAS lines, SASL mechanisms, the states of an authentication. Values and bytes only, no sockets."""
