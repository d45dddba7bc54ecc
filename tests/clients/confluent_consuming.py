"""Writes each record of a topic to standard output with confluent-kafka, as "partition offset value". Arguments: bootstrap, topic."""

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

bootstrap, topic = sys.argv[1:]
consumer = Consumer({
    "bootstrap.servers": bootstrap,
    "group.id": "unused",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "check.crcs": True,
})
partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
left = set(partitions)
out = sys.stdout.buffer
while left:
    message = consumer.poll(60)
    if message is None:
        sys.exit("nothing came for 60 s")
    if message.error() is None:
        out.write(b"%d %d %s\n" % (message.partition(), message.offset(), message.value()))
    elif message.error().code() == KafkaError._PARTITION_EOF:
        left.discard(message.partition())
    else:
        sys.exit(str(message.error()))
out.flush()
consumer.close()
