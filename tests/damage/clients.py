"""Writes numbered records and reads them back, with confluent-kafka. A topic's record number n has offset n."""

import time

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

# Records of a topic, bytes of each, and records in a batch.
SIZE_OF_TABLE = (20_000, 100, 100)
SIZE_OF_OTHERS = (1_500, 2_000, 10)
PATIENCE_S = 20


def value(topic, number, size_bytes):
    head = f"{topic} {number} "
    return (head * (size_bytes // len(head) + 1))[:size_bytes].encode()


def write(bootstrap, topics, size):
    """Writes to all these topics. Answers what is wrong: everything has to be acknowledged, at its offset."""
    count, size_bytes, batch = size
    producer = Producer({
        "bootstrap.servers": bootstrap,
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 50,
        "batch.num.messages": batch,
        "message.timeout.ms": 120_000,
    })
    faults, acknowledged = [], 0

    def delivered(number):
        def note(error, message):
            nonlocal acknowledged
            if error is None and message.offset() == number:
                acknowledged += 1
            else:
                faults.append(f"{message.topic()} {number}: {error} at {message.offset()}")

        return note

    for topic in topics:
        for number in range(count):
            while True:
                try:
                    producer.produce(topic, value(topic, number, size_bytes), partition=0, on_delivery=delivered(number))
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    producer.flush()
    if acknowledged != count * len(topics):
        faults.append(f"{acknowledged} of {count * len(topics)} records were acknowledged")
    return faults[:5]


class Reader:
    def __init__(self, bootstrap):
        self.consumer = Consumer({
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "reconnect.backoff.max.ms": 500,
            "fetch.error.backoff.ms": 200,
        })

    def close(self):
        self.consumer.close()

    def ranges(self, wanted, size_bytes, patience_s=PATIENCE_S):
        """Reads from each topic these offsets: topic to (from, until). Answers what is wrong. An error on the way is none, if what was
        wanted comes in the end."""
        next_of = {topic: start for topic, (start, until) in wanted.items() if start < until}
        ends = {topic: until for topic, (_, until) in wanted.items()}
        self.consumer.assign([TopicPartition(topic, 0, start) for topic, start in next_of.items()])
        faults, heard, last = [], time.monotonic(), {}
        while next_of and time.monotonic() < heard + patience_s:
            for message in self.consumer.consume(1000, 0.5):
                topic = message.topic()
                if message.error() is not None:
                    last[topic] = message.error()
                elif topic in next_of and message.offset() < ends[topic]:
                    heard = time.monotonic()
                    offset = message.offset()
                    if offset != next_of[topic]:
                        faults.append(f"{topic}: offset {offset} comes behind {next_of[topic] - 1}")
                    if message.value() != value(topic, offset, size_bytes):
                        faults.append(f"{topic}: offset {offset} has other bytes: {message.value()[:60]}")
                    next_of[topic] = offset + 1
                    if offset + 1 >= ends[topic]:
                        del next_of[topic]
                        self.consumer.incremental_unassign([TopicPartition(topic, 0)])
        for topic, offset in next_of.items():
            faults.append(f"{topic}: nothing comes from offset {offset} on; last heard: {last.get(topic)}")
        return faults

    def error_at(self, topic, offset):
        """A Fetch at this offset has to get an error: a record is wrong, and so is silence."""
        outcome = self.outcome_at(topic, offset, 20)
        return [f"{topic}: a Fetch at damaged offset {offset} gets neither records nor an error"] if outcome is None else outcome

    def nothing_at(self, topic, offset):
        """A Fetch at this offset must not be answered with a record."""
        return self.outcome_at(topic, offset, 3) or []

    def outcome_at(self, topic, offset, seconds):
        """`None` for silence, nothing for an error, and what is wrong for a record."""
        self.consumer.assign([TopicPartition(topic, 0, offset)])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            message = self.consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                return [f"{topic}: a Fetch at damaged offset {offset} is answered with offset {message.offset()}"]
            if message.error().code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                return []
        return None
