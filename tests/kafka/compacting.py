"""Kafka's cleaner and ours over the same log: what each leaves of it, batch by batch and record by record, in two rounds.

    Kafka writes -> stopped -> copied -> Kafka's cleaner  \\
                                     \\-> our compaction   -> both dumped by Kafka's tool and compared
    then Kafka writes on behind what its own cleaner has left, and everything once more, behind the delete horizons

In the end Kafka serves what we have left: it reads the same as of its own, knows the same producers, and its cleaner finds nothing to object to.
"""

import os
import shutil
import time

import dumped
from exchange import CODECS, until
from sides import Embedder, carry_out, files_of, read_checkpoint

TOPIC = "cleaned"
PARTITION = "cleaned-0"
# Longer than the time between two rounds is none: the horizons of the first are over in the second.
DELETE_RETENTION_MS = 1000
BROKER = (
    "log.cleaner.backoff.ms=200",
    "log.initial.task.delay.ms=500",
    "transaction.max.timeout.ms=900000",
)
# Nothing is more than all of it: Kafka's cleaner waits.
NOT_YET = {
    "cleanup.policy": "compact",
    "segment.ms": 60_000,
    "min.cleanable.dirty.ratio": 1.0,
    "delete.retention.ms": DELETE_RETENTION_MS,
}
NOW = {"min.cleanable.dirty.ratio": 0.0}
OURS = {
    "cleanup": "compact",
    "dirty_ppm_min": 0,
    "delete_retention": {"secs": DELETE_RETENTION_MS // 1000, "nanos": 0},
}
JUMP_MS = 100_000
SAME = ("base", "last", "count", "sequence", "producer", "producer_epoch", "epoch", "transactional", "control", "time", "codec", "horizon")


class Compacting:
    def __init__(self, kafka, binary, directory):
        self.kafka, self.binary, self.directory = kafka, binary, directory
        self.clock = int(time.time() * 1000)
        self.faults, self.compared, self.gone, self.number = [], 0, 0, 0

    def records(self, count, keys, tombstones):
        records = []
        for _ in range(count):
            self.number += 1
            self.clock += 10
            value = None if self.number % tombstones == 0 else f"value {self.number} ü"
            headers = [["h", "one"], ["null", None]] if self.number % 3 == 0 else []
            key = f"key {self.number * 7 % keys}"
            records.append({"key": key, "value": value, "timestamp": self.clock, "headers": headers})
        return records

    def write(self, round):
        """Segments of every codec, of numbered producers, and of transactions that end either way; the last of them grows."""
        order = self.kafka.order
        for part in range(6):
            self.clock += JUMP_MS
            for codec in CODECS:
                order("produce", topic=TOPIC, records=self.records(9, 23, 8), batch=4, codec=codec)
            for name in ("a", f"only in round {round}"):
                order("produce", topic=TOPIC, records=self.records(6, 23, 9), batch=3, producer=name, codec=CODECS[part % 5])
            for end in ("commit", "abort"):
                order("transact", topic=TOPIC, id=f"t {end}", end=end, records=self.records(5, 31, 6), batch=2)
            if part == 2:
                # Only ever in this segment: its keys are all hidden by later ones, and nothing but its last batch is left.
                order("produce", topic=TOPIC, records=self.records(4, 3, 99), batch=2, producer=f"soon hidden {round}")
                order("transact", topic=TOPIC, id=f"once {round}", end="abort", records=self.records(3, 3, 99), batch=3)
        self.clock += JUMP_MS
        order("produce", topic=TOPIC, records=self.records(3, 23, 99), batch=3)

    def clean_by_kafka(self):
        kafka = self.kafka
        kafka.start()
        kafka.order("set", topic=TOPIC, configs=NOW)
        checkpoint = f"{kafka.data}/cleaner-offset-checkpoint"
        last = int(os.path.basename(files_of(f"{kafka.data}/{PARTITION}", ".log")[-1])[:20])
        until("Kafka cleans", lambda: read_checkpoint(checkpoint).get(PARTITION, 0) >= last)
        kafka.order("set", topic=TOPIC, configs={"min.cleanable.dirty.ratio": 1.0})
        return last

    def clean_by_us(self, data, last, who):
        embedder = Embedder(self.binary, data, {}, f"{self.directory}/embedder.err")
        try:
            if embedder.opened["refused"]:
                self.faults.append(f"{who}: not opened: {embedder.opened['refused']}")
            embedder.order("config", log=PARTITION, config=OURS)
            embedder.order("sync", log=PARTITION)
            done = embedder.order("compact", log=PARTITION, time=int(time.time() * 1000), piece=20_000)
            if done["cleaned_to"] != last or done["bytes_after"] >= done["bytes_before"]:
                self.faults.append(f"{who}: {done}, and Kafka cleans to {last}")
            embedder.close()
        finally:
            embedder.kill()

    def dump(self, directory, who):
        files = files_of(f"{directory}/{PARTITION}", ".log", ".index", ".timeindex")
        output, errors = self.kafka.dump(*files)
        shown, strange = dumped.parse(output)
        gaps = "is followed by", "Non-consecutive offsets in"
        complaints = [line for line in dumped.complaints(errors) if not any(gap in line for gap in gaps)]
        # Where nothing of a segment is left but an empty batch, which has no time: of Kafka's own files it says the same.
        emptied = {number for number, line in enumerate(complaints) if line.endswith("log timestamp: -1")}
        emptied |= {number - 1 for number in emptied}
        strange += [line for number, line in enumerate(complaints) if number not in emptied]
        self.faults += [f"{who}: the dump tool says: {line}" for line in strange]
        segments = {int(os.path.basename(p)[:20]): found for p, found in shown.items() if p.endswith(".log")}
        self.faults += dumped.faults_of_indexes(who, shown, segments)
        batches = [batch for base in sorted(segments) for batch in segments[base]]
        self.faults += [f"{who}: the batch at {batch['base']} is not valid" for batch in batches if not batch["valid"]]
        for batch in batches:
            # Both have been at it at about the same time, and not at the same.
            batch["horizon"] = "empty" not in batch["horizon"]
        return batches

    def compare(self, who, theirs, ours, last):
        # We keep the last batch of each segment, where Kafka keeps that of the last: without records it says nothing but where it was.
        known = {batch["base"] for batch in theirs}
        ours = [batch for batch in ours if batch["count"] or batch["base"] in known]
        self.compared += sum(len(batch["records"]) for batch in theirs)
        if [batch["base"] for batch in theirs] != [batch["base"] for batch in ours]:
            missing = sorted(known - {batch["base"] for batch in ours})
            more = sorted({batch["base"] for batch in ours} - known)
            self.faults.append(f"{who}: of Kafka's batches {missing} are not there, and {more} are")
            return
        for mine, other in zip(ours, theirs):
            differ = {name: (other[name], mine[name]) for name in SAME if other[name] != mine[name]}
            if differ or mine["records"] != other["records"]:
                self.faults.append(f"{who}: the batch at {other['base']} differs: {differ}, {other['records']} and {mine['records']}")

    def round(self, round):
        kafka, who = self.kafka, f"round {round}"
        kafka.start()
        if round == 0:
            kafka.order("topic", topic=TOPIC, configs=NOT_YET)
        self.write(round)
        kafka.end("stop")
        data = f"{self.directory}/ours-{round}"
        carry_out(kafka.data, data, [PARTITION])
        before = len(self.dump(kafka.data, f"{who}, before"))
        # What was given a horizon in the round before is behind it.
        time.sleep(2 * DELETE_RETENTION_MS / 1000)
        last = self.clean_by_kafka()
        self.clean_by_us(data, last, who)
        kafka.end("stop")
        theirs, ours = self.dump(kafka.data, f"{who}, Kafka"), self.dump(data, f"{who}, ours")
        self.gone += before - len(theirs)
        self.compare(who, theirs, ours, last)
        return data

    def look(self):
        kafka = self.kafka
        kafka.start()
        seen = [kafka.order("read", topic=TOPIC, isolation=level)["records"] for level in ("read_uncommitted", "read_committed")]
        known = kafka.order("producers", topic=TOPIC)["producers"]
        kafka.end("stop")
        return seen, known

    def run(self):
        for round in range(3):
            data = self.round(round)
        theirs = self.look()
        shutil.rmtree(f"{self.kafka.data}/{PARTITION}")
        shutil.copytree(f"{data}/{PARTITION}", f"{self.kafka.data}/{PARTITION}")
        # Nobody but us has closed it: all of it is looked at.
        os.remove(f"{self.kafka.data}/.kafka_cleanshutdown")
        ours = self.look()
        for what, other, mine in zip(("reads", "producers"), theirs, ours):
            if other != mine:
                self.faults.append(f"Kafka finds other {what} in what we have left")
        return self.faults, f"3 rounds: {self.compared} records are left by both, {self.gone} batches by neither"
