"""Writes an invoice for each order: both in one transaction, so that no order is billed twice."""

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


class Billing:
    """One till. `work` handles what has come."""

    def __init__(self, bootstrap_servers: str, till: str) -> None:
        common = {"bootstrap.servers": bootstrap_servers, "client.id": till, "reconnect.backoff.max.ms": 200}
        self.consumer = Consumer(
            {**common, "group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self.producer = Producer({**common, "transactional.id": till})
        self.producer.init_transactions()
        self.consumer.subscribe(["orders"])

    def work(self, timeout_s: float = 0.1) -> bool:
        """Bill the next order, if there is one; whether it was billed."""
        order = self.consumer.poll(timeout_s)
        if order is None or order.error():
            return False
        self.producer.begin_transaction()
        try:
            self.producer.produce("invoices", b"for " + (order.value() or b""), key=order.key())
            positions = self.consumer.position(self.consumer.assignment())
            self.producer.send_offsets_to_transaction(positions, self.consumer.consumer_group_metadata())
            self.producer.commit_transaction()
        except KafkaException:
            self.producer.abort_transaction()
            self.consumer.seek(TopicPartition(order.topic(), order.partition(), order.offset()))
            return False
        return True

    def close(self) -> None:
        self.consumer.close()
