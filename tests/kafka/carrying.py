"""`highwater import` and `highwater export`, as a person gives them: from a Kafka to a broker of ours, and back to it. Whatever either has written
is whole for `highwater verify`, while it writes and when it has ended, also by a kill."""

import time

from model import Model
from sides import Highwater, Kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = ("orders", "small", "transactions")


class Carrying:
    def __init__(self, options, directory):
        self.kafka = Kafka(f"{directory}/kafka-carry", options.port, ("log.flush.start.offset.checkpoint.interval.ms=500",))
        self.ours = Highwater(options.highwater, f"{directory}/ours-carry", options.port)
        self.models = {name: Model(name) for name in TOPICS}
        self.faults = []
        self.clock = int(time.time() * 1000) - 3_600_000

    def produce(self, hand, name, count, **how):
        model, records = self.models[name], []
        for number in range(count):
            self.clock += 7
            headers = [["h", "x"]] if number % 2 else []
            key, value = f"key {number % 4}", None if number % 5 == 4 else f"{how} {number} ü" * (number % 3)
            records.append({"key": key, "value": value, "timestamp": self.clock, "headers": headers})
        done = hand.order("produce", topic=name, records=records, batch=4, **how)
        model.add(records, done["offsets"])

    def transact(self, hand):
        """Over our broker no transaction can be begun; those that are there are told apart."""
        model = self.models["transactions"]
        for end in ("abort", "commit", "abort"):
            records = []
            for number in range(5):
                self.clock += 7
                records.append({"key": None, "value": f"to be {end}ed {number}", "timestamp": self.clock})
            done = hand.order("transact", topic=model.name, id="t", end=end, records=records, batch=2)
            model.add(records, done["offsets"], markers=1)
            if end == "abort":
                model.aborted |= set(done["offsets"])

    def read(self, hand, who):
        for model in self.models.values():
            found = hand.order("read", topic=model.name)
            self.faults += model.faults(who, found["start"], found["end"], found["records"])
        model = self.models["transactions"]
        found = hand.order("read", topic=model.name, isolation="read_committed")
        self.faults += model.faults(f"{who}, committed", found["start"], found["end"], found["records"], committed=True)

    def write(self, side):
        for codec in CODECS:
            self.produce(side.hand, "orders", 10, codec=codec)
        self.produce(side.hand, "orders", 8, producer="a")
        self.produce(side.hand, "small", 3)
        if side is self.kafka:
            self.transact(side.hand)

    def verify(self, side, who):
        verified = self.ours.tool("verify", side.data, check=False)
        if verified.returncode != 0:
            self.faults.append(f"{who} is not whole: {verified.stdout}{verified.stderr}")

    def carry(self, verb, source, target):
        """The dry run, which changes nothing, and then the thing itself."""
        partitions = [f"{source}/{model.partition}" for model in self.models.values()]
        command = (verb, *partitions, "--into", target, "--replace")
        shown = self.ours.tool(*command).stdout
        for model in self.models.values():
            if f"{model.partition}: offsets {model.start} to {model.end}," not in shown or "nothing was changed" not in shown:
                self.faults.append(f"{verb} shows of {model.name}: {shown}")
        self.ours.tool(*command, "--execute")

    def run(self):
        try:
            self.kafka.start()
            for name in TOPICS:
                self.kafka.order("topic", topic=name)
            self.write(self.kafka)
            self.kafka.order("delete", topic="orders", before=13)
            self.models["orders"].begin_at(13)
            self.verify(self.kafka, "a Kafka at work")
            self.kafka.end("stop")
            self.verify(self.kafka, "a Kafka that was stopped")
            self.ours.start()
            for name in TOPICS:
                self.ours.tool("topics", "create", name, "--bootstrap", self.ours.address, "--partitions", "1")
            self.ours.end()

            for number in range(2):
                self.carry("import", self.kafka.data, self.ours.data)
                self.ours.start()
                self.read(self.ours.hand, f"import {number}, our broker")
                self.write(self.ours)
                self.read(self.ours.hand, f"import {number}, our broker after its own writes")
                self.verify(self.ours, f"import {number}, our broker at work")
                self.ours.end()
                self.verify(self.ours, f"import {number}, our broker that was stopped")
                self.carry("export", self.ours.data, self.kafka.data)
                self.kafka.start()
                self.read(self.kafka.hand, f"export {number}, Kafka")
                self.write(self.kafka)
                self.read(self.kafka.hand, f"export {number}, Kafka after its own writes")
                self.verify(self.kafka, f"export {number}, Kafka at work")
                self.kafka.end("stop" if number else "kill")
                self.verify(self.kafka, f"export {number}, Kafka at its end")
        finally:
            self.ours.end()
            self.kafka.end("kill")
        return self.faults, f"{len(TOPICS)} partitions were imported and exported twice"
