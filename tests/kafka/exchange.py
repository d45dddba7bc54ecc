"""Partitions go back and forth between Kafka and our engine: each side reads everything the other left, writes on, and ends.

    Kafka -> stopped, killed -> our engine -> closed, killed -> Kafka -> ...

What moves is the partition's directory, with what the small files of its data directory say of it.
"""

import os
import time

from model import Model, records_of
from sides import Embedder, Refused, carry_out, put_in_place, read_checkpoint

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# How Kafka ends, and how we do: both ways of each with both of the other's.
ROUNDS = (("stop", "close"), ("kill", "kill"), ("stop", "kill"), ("kill", "close"))
TOPICS = ("codecs", "numbered", "rolled", "raised", "cut", "compacted", "transactions", "poured")
CONFIGS = {
    # Each batch is dated so far behind the one before that it begins a segment.
    "rolled": {"segment.ms": 60_000, "retention.ms": -1},
    "compacted": {"cleanup.policy": "compact", "segment.ms": 60_000, "min.cleanable.dirty.ratio": 0.01, "delete.retention.ms": 0},
}
BROKER = (
    "log.retention.check.interval.ms=500",
    "log.initial.task.delay.ms=500",
    "log.cleaner.backoff.ms=200",
    "log.segment.delete.delay.ms=500",
    "log.flush.start.offset.checkpoint.interval.ms=1000",
    "log.flush.offset.checkpoint.interval.ms=1000",
    "transaction.max.timeout.ms=900000",
)
OURS = {"segment_bytes_max": 4000, "index_interval_bytes": 300}
JUMP_MS = 100_000
UNTIL_SECONDS = 60


def until(what, holds):
    """Waits for something that Kafka does in the background; answers what `holds` then says."""
    end = time.monotonic() + UNTIL_SECONDS
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.1)
    raise SystemExit(f"{what}: not within {UNTIL_SECONDS} s")


class Exchange:
    def __init__(self, kafka, binary, directory):
        self.kafka, self.binary, self.directory = kafka, binary, directory
        self.models = {name: Model(name) for name in TOPICS}
        self.faults = []
        # Recent enough that nobody forgets producers, and old enough that nothing lies in the future.
        self.clock = int(time.time() * 1000) - 3 * 3_600_000
        self.read = 0
        self.numbers = 0

    def tick(self, ms=10):
        self.clock += ms
        return self.clock

    def texts(self, count, label, keys=None):
        """Records as Kafka's client is to send them."""
        records = []
        for number in range(count):
            self.numbers += 1
            key = f"key {self.numbers % keys}" if keys else (f"key {number}" if number % 3 != 2 else None)
            value = None if number % 7 == 6 else f"{label} {self.numbers} ü ".strip() * (number % 4)
            headers = [["h", "one"], ["h", "two"], ["empty", ""], ["null", None]] if number % 2 == 0 else []
            records.append({"key": key, "value": value, "timestamp": self.tick(), "headers": headers})
        return records

    def produce(self, name, count, batch=3, keys=None, **how):
        records = self.texts(count, f"Kafka's {name}", keys)
        done = self.kafka.order("produce", topic=name, records=records, batch=batch, **how)
        self.models[name].add(records, done["offsets"])

    # Kafka's turn.

    def kafka_reads(self, who):
        for model in self.models.values():
            found = self.kafka.order("read", topic=model.name)
            self.read += len(found["records"])
            self.faults += model.faults(who, found["start"], found["end"], found["records"])
            known = self.kafka.order("producers", topic=model.name)["producers"]
            self.faults += model.producer_faults(who, known)
        self.kafka_reads_committed(who)

    def kafka_reads_committed(self, who):
        model = self.models["transactions"]
        found = self.kafka.order("read", topic=model.name, isolation="read_committed")
        self.faults += model.faults(f"{who}, committed", found["start"], found["end"], found["records"], committed=True)

    def kafka_writes(self, number):
        for codec in CODECS:
            self.produce("codecs", 6, codec=codec)
        for producer in ("a", "b"):
            self.produce("numbered", 8, batch=4, producer=producer)
            self.learn_producers("numbered")
        for _ in range(4):
            self.tick(JUMP_MS)
            self.produce("rolled", 5, batch=5)
        self.produce("raised", 20, batch=10)
        self.produce("cut", 30, batch=5, codec="lz4")
        if number % 2 == 1:
            self.kafka_retains()
            before = self.models["raised"].end - 5
            self.kafka.order("delete", topic="raised", before=before)
            self.models["raised"].begin_at(before)
        self.kafka_transacts()
        self.kafka_reads_committed(f"round {number}, Kafka after its own writes")
        self.kafka_compacts()
        self.learn_epochs()

    def kafka_transacts(self):
        model = self.models["transactions"]
        for end in ("commit", "abort", "commit"):
            records = self.texts(5, f"to be {end}ed")
            done = self.kafka.order("transact", topic=model.name, id="t", end=end, records=records, batch=2)
            model.add(records, done["offsets"], markers=1)
            if end == "abort":
                model.aborted |= set(done["offsets"])

    def kafka_retains(self):
        """Old segments go; a few stay."""
        before = self.models["rolled"].start
        self.kafka.order("set", topic="rolled", configs={"retention.bytes": 1500})
        until("Kafka deletes segments", lambda: self.kafka.order("offsets", topic="rolled")["start"] > before)
        self.kafka.order("set", topic="rolled", configs={"retention.bytes": -1})
        self.models["rolled"].begin_at(self.kafka.order("offsets", topic="rolled")["start"])

    def kafka_compacts(self):
        model = self.models["compacted"]
        for _ in range(4):
            self.tick(JUMP_MS)
            self.produce("compacted", 12, batch=6, keys=5)
        checkpoint = f"{self.kafka.data}/cleaner-offset-checkpoint"
        # What lies in front of the last segment is clean.
        until("Kafka compacts", lambda: read_checkpoint(checkpoint).get("compacted-0", 0) >= model.end - 12)
        found = self.kafka.order("read", topic="compacted")
        kept = {record["offset"] for record in found["records"]}
        last = {record["key"]: offset for offset, record in model.records.items() if record["value"] is not None}
        lost = [key for key, offset in last.items() if offset not in kept and not any(
            later > offset and model.records[later]["key"] == key for later in model.records)]
        if lost or len(kept) >= len(model.records):
            self.faults.append(f"Kafka has compacted {len(model.records)} records to {len(kept)}, without {lost}")
        model.records = {offset: record for offset, record in model.records.items() if offset in kept}

    def learn_producers(self, name):
        """Kafka gives its client ids; what it knows of them is compared from then on."""
        for one in self.kafka.order("producers", topic=name)["producers"]:
            self.models[name].producers[one["id"]] = (one["epoch"], one["last_sequence"])

    def learn_epochs(self):
        """What Kafka says of leader epochs has to be what we find."""
        files = {name: f"{self.kafka.data}/{name}-0/leader-epoch-checkpoint" for name in TOPICS}
        read = self.kafka.order("files", epochs=list(files.values()))
        self.epochs = {name: read["epochs"][path] for name, path in files.items()}

    def kafka_ends(self, how):
        poured = self.models["poured"]
        if how == "kill":
            # It is killed while it takes records; what it has acknowledged must be there.
            self.kafka.order("pour", topic="poured")
            until("records are poured", lambda: self.kafka.order("poured")["acknowledged"] > poured.end + 200)
            self.kafka.tool("kill", self.kafka.directory)
            self.acknowledged = self.kafka.order("poured")["acknowledged"]
        else:
            self.produce("poured", 5)
            self.acknowledged = poured.end - 1
        self.kafka.end(how)

    # Our turn.

    def ours_reads(self, embedder, who):
        looks = {}
        for model in self.models.values():
            found = looks[model.name] = embedder.order("look", log=model.partition)
            records = records_of(found["batches"])
            self.read += len(records)
            if model.name == "poured":
                self.take_poured(found, records)
            self.faults += model.faults(who, found["start"], found["end"], records)
            self.faults += model.producer_faults(who, found["producers"])
            if found["damaged"]:
                self.faults.append(f"{who}: {model.name} has {found['damaged']} damaged ranges")
            # An epoch in which nothing was written is not kept.
            expected = [entry for entry in self.epochs[model.name] if entry[1] < found["end"]]
            if found["epochs"] != expected:
                self.faults.append(f"{who}: {model.name} has the epochs {found['epochs']}, and not {expected}")
        return looks

    def take_poured(self, found, records):
        """How far Kafka came before it was killed is seen here first."""
        model = self.models["poured"]
        if found["end"] <= self.acknowledged:
            self.faults.append(f"poured ends at {found['end']}, and {self.acknowledged} was acknowledged")
        model.add([record for record in records if record["offset"] >= model.end])

    def ours_writes(self, embedder, number, looks):
        def append(name, batches, records, **what):
            model = self.models[name]
            parameters = {"codec": "none", "time": self.tick(batches * records), "label": f"our {name}", **what}
            done = embedder.order("append", log=model.partition, batches=batches, records=records, **parameters)
            model.add_batches(done["batches"])

        for codec in CODECS:
            append("codecs", 2, 3, codec=codec)
        self.ours_number(embedder, looks["numbered"], append)
        append("rolled", 40, 4)
        embedder.order("config", log="rolled-0", config={**OURS, "retention_bytes": 9000})
        start = embedder.order("retain", log="rolled-0", time=self.clock)["start"]
        if start <= self.models["rolled"].start:
            self.faults.append(f"round {number}: nothing was deleted of rolled")
        self.models["rolled"].begin_at(start)
        append("raised", 3, 10)
        raised = self.models["raised"].end - 14
        self.models["raised"].begin_at(embedder.order("raise", log="raised-0", to=raised)["start"])
        # As in Kafka, it is certain with the next checkpoint.
        embedder.order("sync", log="raised-0")
        # Into a batch of Kafka's, and once more into one of ours.
        for back in (7, 2):
            self.cut(embedder, "cut", self.models["cut"].end - back)
            append("cut", 3, 4, codec="zstd")
        append("compacted", 3, 6, keys=5)
        transactions = self.models["transactions"]
        if number % 2 == 0:
            self.cut(embedder, "transactions", min(o for o in transactions.aborted if o >= self.of_this_round))
        append("transactions", 2, 3)
        self.of_this_round = transactions.end
        append("poured", 2, 5)

    def ours_number(self, embedder, look, append):
        """A producer of Kafka's goes on here: its next batch is taken, the same again is known, any other is refused."""
        model = self.models["numbered"]
        last = max(look["producers"], key=lambda one: one["last_offset"])
        following = {"id": last["id"], "epoch": last["epoch"], "sequence": last["last_sequence"] + 1}
        again = {"log": "numbered-0", "codec": "gzip", "batches": 1, "records": 3, "time": self.clock, "label": "again"}
        append("numbered", 1, 3, producer=following, codec="gzip")
        done = embedder.order("append", **again, producer=following)
        if done["did"] != "duplicate" or done["last"] != model.end - 1:
            self.faults.append(f"a batch that is there already was not known: {done}")
        try:
            embedder.order("append", **again, producer={**following, "sequence": following["sequence"] + 100})
            self.faults.append("a batch with a gap in its sequence was taken")
        except Refused:
            pass
        append("numbered", 2, 4, producer={"id": 900_000 + self.numbers, "epoch": 0, "sequence": 0}, codec="snappy")

    def cut(self, embedder, name, to):
        end = embedder.order("cut", log=f"{name}-0", to=to)["end"]
        if not to - 6 < end <= to:
            self.faults.append(f"{name} was cut at {to} and ends at {end}")
        self.models[name].cut(end)

    def ours(self, number, how):
        data = f"{self.directory}/ours-{number}"
        partitions = [model.partition for model in self.models.values()]
        carry_out(self.kafka.data, data, partitions)
        embedder = Embedder(self.binary, data, OURS, f"{self.directory}/embedder.err")
        try:
            if embedder.opened["refused"]:
                self.faults.append(f"round {number}: not opened: {embedder.opened['refused']}")
            embedder.order("config", log="compacted-0", config={**OURS, "cleanup": "compact"})
            who = f"round {number}, our engine"
            looks = self.ours_reads(embedder, who)
            self.ours_writes(embedder, number, looks)
            self.epochs = {name: embedder.order("look", log=f"{name}-0")["epochs"] for name in TOPICS}
            self.ours_reads(embedder, f"{who} after its own writes")
            if how == "close":
                embedder.close()
        finally:
            embedder.kill()
        if how == "kill":
            # A kill in the middle of a write leaves the beginning of a batch.
            tear(f"{data}/codecs-0")
            # Nobody has closed these logs: Kafka is not to take them for clean.
            mark = f"{self.kafka.data}/.kafka_cleanshutdown"
            if os.path.exists(mark):
                os.remove(mark)
        put_in_place(data, self.kafka.data, partitions)

    def run(self):
        self.of_this_round = 0
        for number, (kafkas_end, our_end) in enumerate(ROUNDS):
            self.kafka.start()
            if number == 0:
                for name in TOPICS:
                    self.kafka.order("topic", topic=name, configs=CONFIGS.get(name, {}))
            else:
                self.kafka_reads(f"round {number}, Kafka")
            self.kafka_writes(number)
            self.kafka_ends(kafkas_end)
            self.ours(number, our_end)
        self.kafka.start()
        self.kafka_reads("at the end, Kafka")
        self.kafka.end("stop")
        rounds = ", ".join(f"{theirs}/{ours}" for theirs, ours in ROUNDS)
        return self.faults, f"{len(ROUNDS)} times there and back ({rounds}): {self.read} records were read"


def tear(partition):
    last = max(name for name in os.listdir(partition) if name.endswith(".log"))
    with open(f"{partition}/{last}", "rb") as log:
        beginning = log.read(40)
    with open(f"{partition}/{last}", "ab") as log:
        log.write(beginning)
