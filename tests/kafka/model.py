"""What a partition has to hold, whoever wrote it. Knows no Kafka and no engine."""

from dataclasses import dataclass, field

SHOWN = 3
FIELDS = ("timestamp", "key", "value", "headers")


@dataclass
class Model:
    """One partition: its records by offset, its bounds, its producers."""

    name: str
    start: int = 0
    end: int = 0
    records: dict = field(default_factory=dict)
    # By id: the epoch, and the sequence of the last record.
    producers: dict = field(default_factory=dict)
    # Offsets that readers of committed records are not given.
    aborted: set = field(default_factory=set)

    @property
    def partition(self):
        return f"{self.name}-0"

    def add(self, records, offsets=None, markers=0):
        """Records that were appended, in order; so many markers behind them."""
        for number, record in enumerate(records):
            offset = record["offset"] if offsets is None else offsets[number]
            if offset < self.end:
                raise SystemExit(f"{self.name}: offset {offset} was given out, and the log ended at {self.end}")
            self.records[offset] = {name: record.get(name, []) for name in FIELDS}
            self.end = offset + 1
        self.end += markers

    def add_batches(self, batches):
        """Batches as our side shows them."""
        for batch in batches:
            self.add(batch["records"])
            self.end = batch["last"] + 1
            if batch["producer"] >= 0:
                last = batch["sequence"] + batch["last"] - batch["base"]
                self.producers[batch["producer"]] = (batch["producer_epoch"], last)

    def cut(self, end):
        self.records = {offset: record for offset, record in self.records.items() if offset < end}
        self.aborted = {offset for offset in self.aborted if offset < end}
        self.end = end

    def begin_at(self, start):
        self.start = max(self.start, start)

    def readable(self):
        return {offset: record for offset, record in self.records.items() if offset >= self.start}

    def faults(self, who, start, end, records, committed=False):
        """What is wrong with what somebody has read."""
        expected = self.readable()
        if committed:
            expected = {offset: record for offset, record in expected.items() if offset not in self.aborted}
        faults = []
        if start != self.start:
            faults.append(f"{who}: {self.name} begins at {start}, not at {self.start}")
        if end != self.end:
            faults.append(f"{who}: {self.name} ends at {end}, not at {self.end}")
        seen, before = {}, -1
        for record in records:
            if record["offset"] <= before:
                faults.append(f"{who}: {self.name}: offset {record['offset']} comes behind {before}")
            before = record["offset"]
            # A reader is given the whole batch that the start lies in, and leaves out what is before it.
            if before >= self.start:
                seen[before] = {name: record[name] for name in FIELDS}
        missing = [offset for offset in expected if offset not in seen]
        extra = [offset for offset in seen if offset not in expected]
        other = [offset for offset in expected if offset in seen and seen[offset] != expected[offset]]
        for what, offsets in (("are missing", missing), ("are too many", extra), ("are others", other)):
            if offsets:
                faults.append(f"{who}: {self.name}: {len(offsets)} records {what}, the first at {offsets[:SHOWN]}")
        if other:
            faults.append(f"{who}: {self.name}: {seen[other[0]]} and not {expected[other[0]]}")
        return faults

    def producer_faults(self, who, producers):
        """Producers that somebody should know, and does not or knows otherwise."""
        known = {one["id"]: (one["epoch"], one["last_sequence"]) for one in producers}
        return [
            f"{who}: {self.name}: producer {id} is at {known.get(id)}, not at {last}"
            for id, last in self.producers.items()
            if known.get(id) != last
        ]


def records_of(batches):
    """The records of batches as our side shows them."""
    return [record for batch in batches for record in batch["records"]]
