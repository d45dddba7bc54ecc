"""The same requests, byte for byte, to a Kafka and to a broker of ours, and the answers held against each other: lookups by time, the leader's
time, batches that a leader refuses and which of their records it names, fetches whose limits are below the first batch."""

import base64
import time
import zlib

from sides import Highwater, Kafka

SEGMENT_JUMP_MS, DAY_MS = 100_000, 86_400_000
TOPICS = {
    "plain": {},
    "past": {"message.timestamp.before.max.ms": 1_000_000},
    "ahead": {"message.timestamp.after.max.ms": 1_000_000},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "keyed": {"cleanup.policy": "compact"},
    "small": {"max.message.bytes": 500},
    "times": {"segment.ms": 60_000, "index.interval.bytes": 0, "retention.ms": -1},
    "large": {},
    "second": {},
    "empty": {},
}
PRODUCE, FETCH, LIST = 12, 12, 11
AT_LENGTH, AT_EPOCH, AT_MAGIC, AT_ATTRIBUTES, AT_LAST_DELTA, AT_MAX_TIME = 8, 12, 16, 21, 23, 35
HEADER_BYTES = 61
# Bits of the attributes.
LOG_APPEND_TIME, CONTROL, NO_CODEC = 8, 32, 7
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Asking:
    def __init__(self, options, directory):
        self.kafka = Kafka(f"{directory}/kafka-ask", options.port, ())
        self.ours = Highwater(options.highwater, f"{directory}/ours-ask", options.port)
        self.now = int(time.time() * 1000)
        self.faults, self.asked = [], 0

    def both(self, what, **order):
        return [side.hand.order(what, **order) for side in (self.kafka, self.ours)]

    def same(self, what, api, version, body, seen):
        """Both answer the same, in all that `seen` leaves of it; we may give more records than Kafka, and say where the log begins where it does not."""
        self.asked += 1
        answers = self.both("ask", api=api, version=version, body=body)
        kafka, ours = ([{"closed": True}] if "closed" in answer else seen(answer) for answer in answers)
        for one, other in zip(kafka, ours):
            if other.get("records", [])[: len(one.get("records", []))] == one.get("records", []):
                one.pop("records", None), other.pop("records", None)
            if one.get("logStartOffset") == -1:
                other["logStartOffset"] = -1
        if kafka != ours:
            self.faults.append(f"{what}, {api} {version}: Kafka answers {kafka}, and we {ours}")

    def batch(self, records, **how):
        records = [{"key": None, "value": "v", **record} for record in records]
        return self.kafka.order("batch", records=records, **how)["batch"]

    def produce(self, what, topic, *batches, version=PRODUCE):
        data = base64.b64encode(b"".join(base64.b64decode(batch) for batch in batches)).decode()
        part = {"index": 0, "records": data}
        body = {"transactionalId": None, "acks": 1, "timeoutMs": 10_000}
        body["topicData"] = [{"name": topic, "partitionData": [part]}]
        self.same(f"{what} into {topic}", "Produce", version, body, seen_of_produce)

    def list(self, topic, at, version=LIST, seen=None):
        parts = [{"partitionIndex": 0, "currentLeaderEpoch": -1, "timestamp": at}]
        body = {"replicaId": -1, "isolationLevel": 0, "topics": [{"name": topic, "partitions": parts}], "timeoutMs": 10_000}
        for newer, name in ((10, "timeoutMs"), (2, "isolationLevel")):
            if version < newer:
                del body[name]
        if version < 4:
            del parts[0]["currentLeaderEpoch"]
        self.same(f"{topic} at {at}", "ListOffsets", version, body, seen or seen_of_list)

    def fetch(self, what, places, partition_max=1 << 20, max_bytes=1 << 20, version=FETCH):
        topics = []
        for topic, offset in places:
            part = {"partition": 0, "currentLeaderEpoch": -1, "fetchOffset": offset, "logStartOffset": -1}
            part |= {"partitionMaxBytes": partition_max} | ({"lastFetchedEpoch": -1} if version >= 12 else {})
            topics.append({"topic": topic, "partitions": [part]})
        body = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": max_bytes, "isolationLevel": 0, "topics": topics}
        body |= {"sessionId": 0, "sessionEpoch": -1, "forgottenTopicsData": [], "rackId": ""}
        body |= {} if version >= 15 else {"replicaId": -1}
        self.same(f"{what} from {places}, {partition_max} of {max_bytes}", "Fetch", version, body, seen_of_fetch)

    def make(self):
        self.kafka.start()
        self.ours.start()
        for topic, configs in TOPICS.items():
            self.both("topic", topic=topic, configs=configs)

    def times(self):
        """Segments by the times of their records, which go backwards within them and over them."""
        base, steps = self.now - 2 * DAY_MS, (0, 5, 3, 12, 5, 1, 9, 12, 2, 7)
        times = [base + step * SEGMENT_JUMP_MS + number for number, step in enumerate(steps)]
        for number, at in enumerate(times):
            records = [{"timestamp": at + shift} for shift in (0, 40, -30)]
            self.produce("times", "times", self.batch(records, codec=("none", "gzip", "lz4")[number % 3]))
        asked = {at + shift for at in times for shift in (-31, -30, -29, -1, 0, 1, 39, 40, 41)}
        for at in sorted(asked | {0, 1, 2**63 - 1}):
            self.list("times", at)
        for topic in ("times", "empty", "nobody's"):
            for at in (-1, -2, -3, -4, -5, -6, -7, -(2**63), times[3]):
                for version in range(1, LIST + 1):
                    self.list(topic, at, version)
        for offset in range(-1, 33):
            self.fetch("a place", [("times", offset)])

    def refusals(self):
        old, new = {"timestamp": self.now - DAY_MS}, {"timestamp": self.now + DAY_MS}
        fine, none = {"timestamp": self.now}, {"timestamp": -1}
        keyed, odd = {**fine, "key": "k"}, {**old, "key": "k"}
        for number, codec in enumerate(CODECS):

            def put(what, topic, *records, codec=codec, **how):
                self.produce(f"{what} in {codec}", topic, self.batch(records, codec=codec, **how))

            put("one too old", "past", fine, old, fine)
            put("two too old", "past", old, fine, old)
            put("far ahead", "past", new)
            put("some ahead", "ahead", new, fine, new, new)
            put("long ago", "ahead", old)
            put("no time", "past", none, fine)
            put("no times", "plain", none, none)
            put("far ahead of the default", "plain", fine, new)
            put("no key", "keyed", keyed, fine, keyed, fine)
            put("keys", "keyed", keyed, keyed)
            put("the leader's time claimed", "stamped", fine, old, put=[[AT_ATTRIBUTES, f"{number | LOG_APPEND_TIME:04x}"]])
            put("the leader's time claimed", "plain", fine, put=[[AT_ATTRIBUTES, f"{number | LOG_APPEND_TIME:04x}"]])
            put("a wrong greatest time", "plain", fine, put=[[AT_MAX_TIME, f"{self.now + 5:016x}"]])
            put("a wrong greatest time", "past", fine, put=[[AT_MAX_TIME, f"{self.now - DAY_MS:016x}"]])
            put("control", "plain", fine, put=[[AT_ATTRIBUTES, f"{number | CONTROL:04x}"]])
            put("a wrong count", "plain", fine, fine, put=[[AT_LAST_DELTA, "00000000"]])
            put("more than there are", "plain", fine, put=[[AT_LAST_DELTA, "00000001"], [57, "00000002"]])
            put("torn", "plain", fine, torn=True)
            put("too old without a key", "keyed", fine, new, {**new, "key": "k"})
        one, two = self.batch([fine]), self.batch([fine, fine])
        self.produce("two batches", "plain", one, two)
        self.produce("a torn one behind", "plain", one, base64.b64encode(base64.b64decode(two)[:-1]).decode())
        self.produce("nothing", "plain")
        self.produce("no codec", "plain", self.batch([fine], put=[[AT_ATTRIBUTES, f"{NO_CODEC:04x}"]]))
        self.produce("an old format", "plain", self.batch([fine], put=[[AT_MAGIC, "01"]]))
        self.produce("a new format", "plain", self.batch([fine], put=[[AT_MAGIC, "03"]]))
        self.produce("a base offset", "plain", self.batch([fine], put=[[0, "0000000000000005"]]))
        self.produce("a leader epoch", "plain", self.batch([fine], put=[[AT_EPOCH, "00000005"]]))
        self.produce("too short", "plain", self.batch([fine], put=[[AT_LENGTH, "00000008"]]))
        for length in range(425, 435):
            self.produce(f"a value of {length}", "small", self.batch([{**fine, "value": "v" * length}]))
        self.list("plain", -1)
        self.list("plain", -3)
        self.list("past", -3)

    def stamped(self):
        """The leader's time takes the place of the producer's, whatever that was."""
        for codec in ("none", "gzip", "zstd"):
            for at in (0, -1, self.now + 10 * DAY_MS):
                self.produce("time", "stamped", self.batch([{"timestamp": at + shift} for shift in (2, 0, 1)], codec=codec))
                time.sleep(0.01)
        for offset in range(0, 10, 3):
            self.fetch("stamped", [("stamped", offset)])
        for at in (0, self.now, self.now + DAY_MS, -3):
            self.list("stamped", at, seen=seen_of_list_stamped)

    def limits(self):
        """The first batch comes whole whatever the limits are, and what follows it only as far as they go."""
        values = [{"timestamp": self.now, "value": "v" * 3000}]
        for topic in ("large", "second"):
            for count in (1, 2, 1):
                self.produce("large", topic, self.batch(values * count))
        places = [("large", 0), ("second", 0)]
        for version in (4, 11, 12):
            for partition_max in (0, 1, 3_000, 3_100, 10_000, 1 << 20):
                for max_bytes in (0, 1, 3_000, 3_100, 10_000, 1 << 20):
                    self.fetch("limits", places, partition_max, max_bytes, version)
        for first in (("empty", 0), ("large", 4), ("large", 5), ("nobody's", 0)):
            self.fetch("the second is the first with records", [first, ("second", 0)], 1, 1)
        self.fetch("from inside", [("large", 2), ("second", 1)], 1, 1)

    def run(self):
        try:
            self.make()
            for case in (self.times, self.refusals, self.stamped, self.limits):
                case()
        finally:
            self.kafka.end("kill")
            self.ours.end()
        return self.faults, f"{self.asked} requests are answered alike"


def seen_of_produce(told):
    """All but the time of day, and the words of errors, of which Kafka has fewer."""
    part = told["answer"]["responses"][0]["partitionResponses"][0]
    part["logAppendTimeMs"] = part["logAppendTimeMs"] != -1
    part["recordErrors"] = [one["batchIndex"] for one in part.get("recordErrors", [])]
    part.pop("errorMessage", None)
    return [part]


def seen_of_list(told):
    return [told["answer"]["topics"][0]["partitions"][0]]


def seen_of_list_stamped(told):
    """Whether there is a time, which is the time of day."""
    return [{**part, "timestamp": part["timestamp"] >= 0} for part in seen_of_list(told)]


def seen_of_fetch(told):
    """Kafka gives parts of batches, and nothing of a second segment; we give neither less nor halves. The order of topics is open."""
    parts = [{**part, "topic": topic["topic"]} for topic in told["answer"]["responses"] for part in topic["partitions"]]
    for part, records in zip(parts, told["records"]):
        part["records"] = batches_of(base64.b64decode(records))
        part.pop("recordsSizeInBytes", None)
        part["abortedTransactions"] = part.get("abortedTransactions") or []
    return sorted(parts, key=lambda part: part["topic"])


def batches_of(records):
    """Each whole batch: its offset, its length, and what its CRC covers, without the time of day that a leader puts in."""
    batches, at = [], 0
    while at + HEADER_BYTES <= len(records):
        size = AT_EPOCH + int.from_bytes(records[at + AT_LENGTH : at + AT_EPOCH], "big")
        batch, at = records[at : at + size], at + size
        if len(batch) == size:
            stamp = batch[AT_MAX_TIME : AT_MAX_TIME + 8] if batch[AT_ATTRIBUTES + 1] & LOG_APPEND_TIME == 0 else b""
            covered = batch[AT_ATTRIBUTES:AT_MAX_TIME] + stamp + batch[AT_MAX_TIME + 8 :]
            batches.append((int.from_bytes(batch[:AT_LENGTH], "big"), size, zlib.crc32(covered)))
    return batches
