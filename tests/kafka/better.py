"""Where Kafka 4.3.1 does what nobody should copy. Each case says what Kafka does, sees that it does, and sees that we do not."""

import os
import shutil
import struct
import time

from model import Model, records_of
from sides import Embedder, Highwater, Kafka, Refused, carry_out, files_of, put_in_place, read_checkpoint, write_checkpoint

SEGMENTS = {"segment.ms": 60_000, "index.interval.bytes": 0, "retention.ms": -1}
TOPICS = {"aborted": SEGMENTS, "torn": {}, "timeless": SEGMENTS, "deleted": SEGMENTS, "dated": {}, "zeros": {}, "leapt": SEGMENTS, "lowered": SEGMENTS}
JUMP_MS, DAY_MS = 100_000, 86_400_000
OURS = {"segment_bytes_max": 1 << 20, "index_interval_bytes": 0}
LENGTH_OVERHEAD = 12
NOT_LEADER_OR_FOLLOWER = 6


def spoil(path, right, wrong):
    """Changes one line of a small file."""
    with open(path) as file:
        text = file.read()
    if right not in text:
        raise SystemExit(f"{path} has no {right!r}: {text}")
    with open(path, "w") as file:
        file.write(text.replace(right, wrong))


class Better:
    def __init__(self, options, directory):
        self.binary, self.directory = options.embedder, directory
        self.kafka = Kafka(f"{directory}/kafka-better", options.port, ())
        self.highwater = Highwater(options.highwater, f"{directory}/ours-better", options.port)
        self.models = {name: Model(name) for name in TOPICS}
        self.begun = int(time.time() * 1000) - 3 * DAY_MS
        self.faults, self.kept = [], f"{directory}/kafka-better-kept"

    def expect(self, holds, what):
        if not holds:
            self.faults.append(what)

    def time(self, offset):
        """Ten records each begin a segment."""
        return self.begun + offset + offset // 10 * JUMP_MS

    def send(self, name, count, **how):
        model = self.models[name]
        times = [self.time(model.end + number) for number in range(count)]
        records = [{"key": f"k {number}", "value": f"{name} {at}", "timestamp": at} for number, at in enumerate(times)]
        model.add(records, self.kafka.order("produce", topic=name, records=records, batch=5, **how)["offsets"])

    def transact(self, name):
        """Transactions over several segments each, dated ahead, because markers have the time of their day."""
        model, time_ms = self.models[name], int(time.time() * 1000)
        for number in range(9):
            end, records = ("abort", "commit", "abort")[number % 3], []
            for _ in range(6):
                time_ms += JUMP_MS // 4
                records.append({"key": None, "value": f"{end} {time_ms}", "timestamp": time_ms})
            done = self.kafka.order("transact", topic=name, id="t", end=end, records=records, batch=2)
            model.add(records, done["offsets"], markers=1)
            if end == "abort":
                model.aborted |= set(done["offsets"])

    def make(self):
        """What all cases begin with, stopped cleanly."""
        self.kafka.start()
        for name, configs in TOPICS.items():
            self.kafka.order("topic", topic=name, configs=configs)
            if name == "aborted":
                self.transact(name)
                continue
            for _ in range(3):
                self.send(name, 10, **({"producer": "p"} if name == "dated" else {}))
        self.kafka.end("stop")
        shutil.copytree(self.kafka.data, self.kept)

    def anew(self):
        shutil.rmtree(self.kafka.data)
        shutil.copytree(self.kept, self.kafka.data)

    def last_log(self, name):
        return files_of(f"{self.kafka.data}/{name}-0", ".log")[-1]

    def ours(self, case, names, settings=OURS):
        """Our engine over what is there now."""
        data = f"{self.directory}/better-{case}"
        carry_out(self.kafka.data, data, [f"{name}-0" for name in names])
        embedder = Embedder(self.binary, data, settings, f"{self.directory}/embedder.err")
        self.expect(not embedder.opened["refused"], f"{case}: ours is not opened: {embedder.opened['refused']}")
        return embedder

    def is_whole(self, embedder, name):
        found = embedder.order("look", log=f"{name}-0")
        self.faults += self.models[name].faults("ours", found["start"], found["end"], records_of(found["batches"]))

    # A clean start of Kafka trusts what it finds, so that these can be seen in one.

    def trusting(self):
        self.anew()
        with open(self.last_log("torn"), "r+b") as log:
            beginning = log.read(40)
            log.seek(0, os.SEEK_END)
            log.write(beginning)
        os.remove(files_of(f"{self.kafka.data}/timeless-0", ".timeindex")[0])
        embedder = self.ours("trusting", ("torn", "timeless", "deleted", "dated"))
        self.kafka.start()

        # Kafka leaves the beginning of a batch where a crash has left it, and what it acknowledges behind that can never be read.
        self.kafka.order("produce", topic="torn", records=[{"key": None, "value": "lost", "timestamp": self.begun}])
        try:
            self.kafka.order("read", topic="torn")
            self.faults.append("torn: Kafka reads what it has acknowledged behind a torn batch")
        except Refused:
            pass
        done = embedder.order("append", log="torn-0", codec="none", batches=1, records=3, time=self.begun, label="kept")
        self.models["torn"].add_batches(done["batches"])
        self.is_whole(embedder, "torn")

        # Kafka takes the file's age for the greatest time of a segment without a time index, looks into no other, and finds nothing.
        wanted = self.time(15)
        found = self.kafka.order("find", topic="timeless", time=wanted)["offset"]
        self.expect(found == -1, f"timeless: Kafka finds {found}")
        found = embedder.order("find", log="timeless-0", time=wanted)["offset"]
        self.expect(found == 15, f"timeless: we find {found}, not 15")

        # Kafka looks only into the first segment that has something so young, also where all of that is deleted.
        self.kafka.order("delete", topic="deleted", before=10)
        embedder.order("raise", log="deleted-0", to=10)
        wanted = self.time(5)
        found = self.kafka.order("find", topic="deleted", time=wanted)["offset"]
        self.expect(found == -1, f"deleted: Kafka finds {found}")
        found = embedder.order("find", log="deleted-0", time=wanted)["offset"]
        self.expect(found == 10, f"deleted: we find {found}, not 10")

        # Kafka forgets a producer by the time of its records, not by when it was last there: what it sends again is then there twice.
        known = self.kafka.order("producers", topic="dated")["producers"]
        self.expect(known == [], f"dated: Kafka knows {known}")
        known = embedder.order("look", log="dated-0")["producers"]
        self.expect([one["last_sequence"] for one in known] == [29], f"dated: we know {known}")
        embedder.close()
        self.kafka.end("stop")

    def does_not_start(self, case):
        try:
            self.kafka.start()
            self.faults.append(f"{case}: Kafka starts")
        except Refused:
            pass
        self.kafka.end("kill")

    def zeros(self):
        """Zeros behind the log, as a file system leaves them after a power loss: Kafka does not start, and with it no other partition."""
        self.anew()
        with open(self.last_log("zeros"), "ab") as log:
            log.write(bytes(100))
        embedder = self.ours("zeros", ("zeros", "dated"))
        self.is_whole(embedder, "zeros")
        self.is_whole(embedder, "dated")
        embedder.close()
        self.does_not_start("zeros")

    def leapt(self):
        """A base offset, which no checksum covers, that lies below its segment, after an unclean stop: Kafka does not start."""
        self.anew()
        os.remove(f"{self.kafka.data}/.kafka_cleanshutdown")
        points = f"{self.kafka.data}/recovery-point-offset-checkpoint"
        write_checkpoint(points, {**read_checkpoint(points), "leapt-0": 0})
        path = files_of(f"{self.kafka.data}/leapt-0", ".log")[1]
        with open(path, "r+b") as log:
            _, length = struct.unpack(">qi", log.read(LENGTH_OVERHEAD))
            log.seek(LENGTH_OVERHEAD + length)
            log.write(struct.pack(">q", 2))
        embedder = self.ours("leapt", ("leapt", "dated"))
        self.is_whole(embedder, "dated")
        # What lies before it is there, and nothing is given out for what it is not.
        end = embedder.opened["logs"][1]["end"]
        model = self.models["leapt"]
        try:
            found = embedder.order("look", log="leapt-0")
            model.cut(found["end"])
            self.faults += model.faults("ours", found["start"], found["end"], records_of(found["batches"]))
        except Refused as refusal:
            self.expect("damaged" in str(refusal), f"leapt: {refusal}")
        self.expect(end >= 15, f"leapt: ours ends at {end}")
        embedder.close()
        self.does_not_start("leapt")

    def lowered(self):
        """An index that is to be smaller than what is in it, and a kill: Kafka does not start, until somebody finds out why."""
        self.anew()
        self.kafka.start()
        self.kafka.order("set", topic="lowered", configs={"segment.index.bytes": 8})
        self.kafka.end("kill")
        embedder = self.ours("lowered", ("lowered",), {**OURS, "index_bytes_max": 8})
        self.is_whole(embedder, "lowered")
        embedder.close()
        self.does_not_start("lowered")

    def committed(self):
        """Segments that have lost their index of aborted transactions, or have an old one: Kafka gives out what was aborted, as long as it is
        there. When we have had the directory its index is right."""
        self.anew()
        partition = f"{self.kafka.data}/aborted-0"
        lost, kept = files_of(partition, ".txnindex"), len(files_of(partition, ".log"))
        self.expect(len(lost) > 3 and kept > 6, f"aborted: {len(lost)} of {kept} segments have an index")
        for path in lost[:-2]:
            os.remove(path)
        with open(lost[-2], "r+b") as index:
            index.truncate(0)
        self.ours("committed", ("aborted",)).close()
        model = self.models["aborted"]
        self.kafka.start()
        found = self.kafka.order("read", topic="aborted", isolation="read_committed")["records"]
        given = [record["offset"] for record in found if record["offset"] in model.aborted]
        self.expect(given != [], "aborted: Kafka keeps aborted records back without its index")
        self.kafka.end("stop")
        put_in_place(f"{self.directory}/better-committed", self.kafka.data, ["aborted-0"])
        self.kafka.start()
        found = self.kafka.order("read", topic="aborted", isolation="read_committed")
        self.faults += model.faults("Kafka behind us", found["start"], found["end"], found["records"], committed=True)
        self.kafka.end("stop")

    def unreadable(self):
        """A log file that cannot be read, after an unclean stop: Kafka gives up the directory, and with its only one itself."""
        self.anew()
        os.remove(f"{self.kafka.data}/.kafka_cleanshutdown")
        path = self.last_log("torn")
        os.remove(path)
        os.mkdir(path)
        data = f"{self.directory}/better-unreadable"
        carry_out(self.kafka.data, data, ["torn-0", "dated-0"])
        embedder = Embedder(self.binary, data, OURS, f"{self.directory}/embedder.err")
        refused = embedder.opened["refused"]
        self.expect(len(refused) == 1 and "torn-0" in refused[0], f"unreadable: ours does not open {refused}")
        self.is_whole(embedder, "dated")
        embedder.close()
        self.does_not_start("unreadable")

    def numbered(self):
        """A number that is none in the checkpoint of high watermarks: of no partition in the directory Kafka becomes leader, also of none whose
        line is right. We take none of that file's words, and the log's."""
        self.anew()
        path = f"{self.kafka.data}/replication-offset-checkpoint"
        spoil(path, "dated 0 30", "dated 0 3x0")
        self.kafka.start()
        for name in ("dated", "torn"):
            code = self.latest(self.kafka, name)[0]
            self.expect(code == NOT_LEADER_OR_FOLLOWER, f"{name}: Kafka answers {code}")
        self.kafka.end("kill")
        ours, names = self.highwater, ("dated", "torn")
        ours.start()
        for name in names:
            ours.hand.order("topic", topic=name, configs={})
            ours.hand.order("produce", topic=name, records=[{"key": None, "value": "v", "timestamp": self.begun}])
        ours.end()
        spoil(f"{ours.data}/replication-offset-checkpoint", "dated 0 1", "dated 0 x1")
        ours.start()
        for name in names:
            ours.hand.order("produce", topic=name, records=[{"key": None, "value": "v", "timestamp": self.begun}])
            told = self.latest(ours, name)
            self.expect(told == (0, 2), f"{name}: we answer {told}")
        ours.end()

    def latest(self, side, name):
        """The error and the offset that a client is told when it asks for the end."""
        parts = [{"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": -1}]
        body = {"replicaId": -1, "isolationLevel": 0, "topics": [{"name": name, "partitions": parts}], "timeoutMs": 1_000}
        answer = side.hand.order("ask", api="ListOffsets", version=11, body=body)["answer"]
        part = answer["topics"][0]["partitions"][0]
        return part["errorCode"], part["offset"]

    def run(self):
        cases = (self.trusting, self.committed, self.zeros, self.leapt, self.lowered, self.unreadable, self.numbered)
        try:
            self.make()
            for case in cases:
                case()
        finally:
            self.kafka.end("kill")
            self.highwater.end()
        return self.faults, "ten weaknesses of Kafka's are its own"
