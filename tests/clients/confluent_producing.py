"""Sends each line of a file as a record with confluent-kafka, at so many bytes a second; notes the number of each acknowledged line.

Arguments: bootstrap, topic, file, acknowledgements, bytes a second, codec.
"""

import sys
import time

from confluent_kafka import Producer

bootstrap, topic, path, acknowledgements, rate, codec = sys.argv[1:]
producer = Producer({
    "bootstrap.servers": bootstrap,
    "acks": "all",
    "enable.idempotence": True,
    "compression.type": codec,
    "linger.ms": 20,
    "message.timeout.ms": 600_000,
    "queue.buffering.max.kbytes": 65536,
})
refused = 0

with open(path, "rb") as lines, open(acknowledgements, "w") as acknowledged:

    def note(number):
        def delivered(error, _message):
            global refused
            if error is None:
                acknowledged.write(f"{number}\n")
            else:
                refused += 1
                print(f"line {number}: {error}", file=sys.stderr)

        return delivered

    begun, sent = time.monotonic(), 0
    for number, line in enumerate(lines):
        while True:
            try:
                producer.produce(topic, line.rstrip(b"\n"), on_delivery=note(number))
                break
            except BufferError:
                producer.poll(0.1)
        sent += len(line)
        producer.poll(max(0.0, sent / float(rate) - (time.monotonic() - begun)))
    producer.flush()
sys.exit(1 if refused else 0)
