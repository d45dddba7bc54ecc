"""A member of a group with confluent-kafka. Arguments: bootstrap, topic, group, file.

Writes to the file what it was given ("read P O VALUE") before it commits, and what it then committed ("committed P O"). Ends on SIGTERM.
"""

import signal
import sys

from confluent_kafka import Consumer, KafkaException

bootstrap, topic, group, path = sys.argv[1:]
running = True


def stop(*_):
    global running
    running = False


signal.signal(signal.SIGTERM, stop)
consumer = Consumer({
    "bootstrap.servers": bootstrap,
    "group.id": group,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 1000,
    "check.crcs": True,
})
consumer.subscribe([topic])
with open(path, "w", buffering=1) as noted:
    while running:
        messages = consumer.consume(500, 0.3)
        failed = [message.error() for message in messages if message.error() is not None]
        if failed:
            print(failed[0], file=sys.stderr)
        messages = [message for message in messages if message.error() is None]
        if not messages:
            continue
        noted.writelines(f"read {m.partition()} {m.offset()} {m.value().decode()}\n" for m in messages)
        try:
            for done in consumer.commit(asynchronous=False):
                if done.error is None and done.offset >= 0:
                    noted.write(f"committed {done.partition} {done.offset}\n")
        except KafkaException as error:
            # The group rebalances, or its coordinator is on its way to another broker: whoever has the partition next reads again.
            print(error, file=sys.stderr)
consumer.close()
