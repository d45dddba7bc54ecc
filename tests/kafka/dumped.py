"""Reads what Kafka's dump tool prints. Knows nothing of what should be in it."""

import re

BATCH = re.compile(
    r"baseOffset: (?P<base>-?\d+) lastOffset: (?P<last>-?\d+) count: (?P<count>\d+) baseSequence: (?P<sequence>-?\d+) "
    r"lastSequence: -?\d+ producerId: (?P<producer>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<epoch>-?\d+) isTransactional: (?P<transactional>\w+) isControl: (?P<control>\w+) "
    r"deleteHorizonMs: (?P<horizon>\S+) position: (?P<position>\d+) (?:CreateTime|LogAppendTime): (?P<time>-?\d+) size: (?P<size>\d+) "
    r"magic: 2 compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: (?P<valid>\w+)$"
)
RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) (?:CreateTime|LogAppendTime): (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+) "
    r"valueSize: (?P<value_size>-?\d+) sequence: -?\d+ headerKeys: \[(?P<headers>.*?)\]"
    r"(?: endTxnMarker: (?P<marker>\w+) coordinatorEpoch: -?\d+)?(?: key: (?P<key>.*?))?(?: payload: (?P<value>.*))?$"
)
ENTRIES = {
    ".index": re.compile(r"offset: (\d+) position: (\d+)$"),
    ".timeindex": re.compile(r"timestamp: (-?\d+) offset: (\d+)$"),
    ".snapshot": re.compile(
        r"producerId: (\d+) producerEpoch: (-?\d+) coordinatorEpoch: -?\d+ currentTxnFirstOffset: \S+ lastTimestamp: -?\d+ "
        r"firstSequence: -?\d+ lastSequence: (-?\d+) lastOffset: (-?\d+) offsetDelta: -?\d+ timestamp: -?\d+$"
    ),
    ".txnindex": re.compile(r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)$"),
}
NOTHING = re.compile(r"(Log starting offset: \d+|.* is empty\.|Starting offset: \d+)?$")


def numbers(match):
    found = {}
    for name, text in match.groupdict().items():
        found[name] = text == "true" if text in ("true", "false") else int(text) if re.fullmatch(r"-?\d+", text) else text
    return found


def parse(output):
    """By file: its batches with records, or its entries; and every line that says anything else, which is a complaint."""
    files, complaints, current, path = {}, [], None, ""
    for line in output.split("\n"):
        if line.startswith("Dumping "):
            path = line.removeprefix("Dumping ")
            current = files.setdefault(path, [])
            continue
        suffix = "." + path.rsplit(".", 1)[-1]
        if suffix == ".log":
            if batch := BATCH.match(line):
                current.append({**numbers(batch), "records": []})
                continue
            if (record := RECORD.match(line)) and current:
                fields = record.groupdict()
                sizes = {name: int(fields[name]) for name in ("offset", "timestamp", "key_size", "value_size")}
                headers = fields["headers"].split(",") if fields["headers"] else []
                texts = {name: fields[name] for name in ("key", "value", "marker")}
                current[-1]["records"].append({**sizes, **texts, "headers": headers})
                continue
        elif suffix in ENTRIES and (entry := ENTRIES[suffix].match(line)):
            current.append(tuple(int(group) for group in entry.groups()))
            continue
        if not NOTHING.match(line):
            complaints.append(f"{path}: {line}")
    return files, complaints


def complaints(errors):
    """What the tool says beside its output, without what it says of any segment that does not begin at 0, Kafka's own too."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    kept, number = [], 0
    while number < len(lines):
        of, pairs = lines[number], []
        number += 1
        while number < len(lines) and " is followed by " in lines[number]:
            pairs.append(lines[number])
            number += 1
        base = re.search(r"/(\d{20})\.log$", of)
        if base:
            pairs = [pair for pair in pairs if pair != f"-1 is followed by {int(base[1])}"]
        if pairs or not of.startswith("Non-consecutive offsets in"):
            kept += [of, *pairs]
    return kept


def size(text):
    return -1 if text is None else len(text.encode())


def faults_of_batches(who, dumped, written):
    """How the batches of a log as the dump tool shows them differ from those that were written."""
    if len(dumped) != len(written):
        return [f"{who}: {len(dumped)} batches, and {len(written)} were written"]
    faults = []
    for there, ours in zip(dumped, written):
        for name in ("base", "last", "sequence", "producer", "producer_epoch", "epoch", "codec", "crc", "transactional", "control"):
            if there[name] != ours[name]:
                faults.append(f"{who}: the batch at {ours['base']} has {name} {there[name]}, not {ours[name]}")
        if not there["valid"]:
            faults.append(f"{who}: the batch at {ours['base']} is not valid")
        if len(there["records"]) != len(ours["records"]):
            faults.append(f"{who}: the batch at {ours['base']} has {len(there['records'])} records")
        for found, record in zip(there["records"], ours["records"]):
            expected = {
                "offset": record["offset"],
                "timestamp": record["timestamp"],
                "key_size": size(record["key"]),
                "value_size": size(record["value"]),
                "key": record["key"],
                "value": record["value"],
                "headers": [name for name, _ in record["headers"]],
            }
            differ = [
                name
                for name in expected
                # The tool does not show an empty text.
                if found[name] != expected[name] and not (expected[name] == "" and not found[name])
            ]
            if differ:
                faults.append(f"{who}: the record at {record['offset']} has {differ}: {found} and not {expected}")
    return faults


def faults_of_indexes(who, files, batches):
    """Entries of indexes that lead to no batch."""
    faults = []
    for path, entries in files.items():
        base = int(path.rsplit("/", 1)[-1].split(".")[0])
        if path.endswith(".index"):
            # An index that ends has one entry of nothing where it is empty: the tool shows the beginning.
            places = {batch["last"]: batch["position"] for batch in batches[base]}
            faults += [
                f"{who}: {path} leads from {offset} to {position}"
                for offset, position in entries
                if places.get(offset) != position and (offset, position) != (base, 0)
            ]
        if path.endswith(".timeindex"):
            lasts = {batch["last"] for batch in batches[base]}
            faults += [
                f"{who}: {path} leads from {time} to {offset}"
                for time, offset in entries
                if offset not in lasts and (time, offset) != (0, base)
            ]
    return faults
