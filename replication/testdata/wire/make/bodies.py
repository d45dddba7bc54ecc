"""Makes bodies of Kafka's messages at random, after the specifications in the jar of kafka-clients: one exchange a line, as JSON.

    python3 bodies.py kafka-clients-4.3.1.jar > bodies.jsonl

With the jar of kafka-group-coordinator: keys and values of the records in __consumer_offsets.
"""

import base64
import json
import random
import sys
import zipfile

APIS = {
    "Produce": (0, 3, 13), "Fetch": (1, 4, 18), "ListOffsets": (2, 1, 11), "Metadata": (3, 0, 13),
    "FindCoordinator": (10, 0, 6), "ApiVersions": (18, 0, 4), "CreateTopics": (19, 2, 7), "DeleteTopics": (20, 1, 6),
    "InitProducerId": (22, 0, 5), "OffsetForLeaderEpoch": (23, 2, 4), "DescribeConfigs": (32, 1, 4),
    "ElectLeaders": (43, 0, 2), "DescribeCluster": (60, 0, 2), "OffsetCommit": (8, 2, 10), "OffsetFetch": (9, 1, 10),
    "JoinGroup": (11, 0, 9), "Heartbeat": (12, 0, 4), "LeaveGroup": (13, 0, 5), "SyncGroup": (14, 0, 5),
    "DescribeGroups": (15, 0, 6), "ListGroups": (16, 0, 5), "DeleteGroups": (42, 0, 2), "OffsetDelete": (47, 0, 0),
    "AlterPartitionReassignments": (45, 0, 1), "ListPartitionReassignments": (46, 0, 0),
}
# Where the version that stands before a key says what it is about, it is that number.
RECORDS = {
    "OffsetCommitKey": (1, 0, 0), "LegacyOffsetCommitKey": (0, 0, 0), "GroupMetadataKey": (2, 0, 0),
    "OffsetCommitValue": (None, 0, 4), "GroupMetadataValue": (None, 0, 4),
}
EXCHANGES_PER_VERSION = 4
ERROR_CODES = range(-1, 134)
NO_ID = "A" * 22

chance = random.Random(4301)


def within(versions, version):
    if versions is None or versions == "none":
        return False
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    first, _, last = versions.partition("-")
    return int(first) <= version <= int(last or first)


def json_name(name):
    return name[0].lower() + name[1:]


def integer(bits):
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
    return chance.choice([0, 1, -1, high - 1, low, chance.randrange(low, high), chance.randrange(100)])


def scalar(kind, name):
    if name.lower().endswith("errorcode"):
        return chance.choice(ERROR_CODES)
    if kind == "bool":
        return chance.random() < 0.5
    if kind.startswith("int"):
        return integer(int(kind[3:]))
    if kind == "string":
        return chance.choice(["", "a", "topic-1", "naïve-ü-日本", "x" * 130, "value with spaces"])
    if kind == "uuid":
        value = bytes(16) if chance.random() < 0.2 else chance.randbytes(16)
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if kind in ("bytes", "records"):
        value = chance.randbytes(1) * chance.choice([0, 1, 61, 127, 128, 1023, 1024, 1500])
        return base64.b64encode(value).decode()
    raise ValueError(kind)


def default(field):
    kind, written = field["type"], field.get("default")
    if kind.startswith("int"):
        return int(str(written or 0), 0)
    if written == "null":
        return None
    return {"bool": written == "true", "uuid": NO_ID}.get(kind, written or "")


def is_default(field, value):
    """Whether Kafka leaves a tagged field of this value out."""
    if isinstance(value, dict):
        return all(is_default(inner, value[json_name(inner["name"])]) for inner in field["fields"])
    return value == [] if isinstance(value, list) else value == default(field)


def value_of(field, version):
    kind = field["type"]
    if within(field.get("nullableVersions"), version) and chance.random() < 0.25:
        return None
    if kind.startswith("[]"):
        element = {**field, "type": kind[2:]}
        element.pop("nullableVersions", None)
        return [value_of(element, version) for _ in range(chance.choice([0, 1, 1, 2, 3]))]
    if kind[0].isupper():
        return structure(field["fields"], version)
    return scalar(kind, field["name"])


def structure(fields, version):
    made = {}
    for field in fields:
        if not within(field["versions"], version):
            continue
        value = value_of(field, version)
        if within(field.get("taggedVersions"), version) and is_default(field, value):
            continue
        made[json_name(field["name"])] = value
    return made


def specification(jar, name):
    lines = jar.read(f"common/message/{name}.json").decode().split("\n")
    return json.loads("\n".join(line for line in lines if not line.strip().startswith("//")))


def records(jar):
    for name, (prefix, first, last) in RECORDS.items():
        whole = specification(jar, name)
        common = {struct["name"]: struct["fields"] for struct in whole.get("commonStructs", [])}
        fields = [{**field, "fields": common.get(field["type"].removeprefix("[]"))} for field in whole["fields"]]
        for version in [v for v in range(first, last + 1) for _ in range(EXCHANGES_PER_VERSION)]:
            before = version if prefix is None else prefix
            record = {"record": name, "prefix": before, "version": version, "body": structure(fields, version)}
            print(json.dumps(record, ensure_ascii=False))


def main():
    jar = zipfile.ZipFile(sys.argv[1])
    if "group-coordinator" in sys.argv[1]:
        return records(jar)
    for api, (key, first, last) in APIS.items():
        request = specification(jar, api + "Request")["fields"]
        response = specification(jar, api + "Response")["fields"]
        for version in [v for v in range(first, last + 1) for _ in range(EXCHANGES_PER_VERSION)]:
            correlation = {"correlationId": integer(32)}
            client = {"clientId": chance.choice([None, "", "client-7"])}
            header = {"requestApiKey": key, "requestApiVersion": version, **correlation, **client}
            exchange = {
                "client": "kafka-clients", "api": api, "api_key": key, "api_version": version,
                "request": {"header": header, "body": structure(request, version)},
                "response": {"header": correlation, "body": structure(response, version)},
            }
            print(json.dumps(exchange, ensure_ascii=False))


main()
