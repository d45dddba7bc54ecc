"""Kafka's dump tool, and the classes with which its broker reads small files, over what our engine wrote: closed, killed and cut."""

import os

import dumped
from model import records_of
from sides import Embedder, files_of, read_checkpoint

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {"segment_bytes_max": 3000, "index_interval_bytes": 256}
TIME = 1_790_000_000_000
LOGS = ("plain-0", "cut-0", "raised-0", "numbered-0", "epochs-0")


def write(embedder):
    """Five logs; answers what has to be in each, as batches."""
    written = {log: [] for log in LOGS}

    def append(log, **what):
        parameters = {"codec": "none", "time": TIME + 1000 * len(written[log]), "label": log, **what}
        written[log] += embedder.order("append", log=log, **parameters)["batches"]

    for log in LOGS:
        embedder.order("create", log=log, topic_id="4L6g3nShT-eMCtK--X86sw")
    for number, codec in enumerate(CODECS * 3):
        append("plain-0", codec=codec, batches=2, records=5 + number)
        append("cut-0", codec=codec, batches=2, records=7)
        append("raised-0", codec=codec, batches=2, records=6)
        append("epochs-0", codec=codec, batches=1, records=3)
        if number % 5 == 4:
            embedder.order("epoch", log="epochs-0", epoch=number)
        for id in (7, 8):
            sequence = 8 * number
            append("numbered-0", codec=codec, batches=2, records=4, producer={"id": id, "epoch": 0, "sequence": sequence})
    # Inside of a batch: it goes whole.
    end = embedder.order("cut", log="cut-0", to=100)["end"]
    written["cut-0"] = [batch for batch in written["cut-0"] if batch["last"] < end]
    append("cut-0", batches=3, records=2)
    embedder.order("raise", log="raised-0", to=50)
    embedder.order("config", log="raised-0", config={**SETTINGS, "retention_bytes": 6000})
    embedder.order("retain", log="raised-0", time=TIME)
    start = embedder.order("look", log="raised-0")["start"]
    written["raised-0"] = [batch for batch in written["raised-0"] if batch["last"] >= start]
    return written


def look(kafka, directory, embedder_looks, written, who):
    """Everything that the dump tool and the broker's classes find in a directory."""
    faults, checked = [], 0
    files = [path for log in LOGS for path in files_of(f"{directory}/{log}", ".log", ".index", ".timeindex", ".snapshot")]
    output, errors = kafka.dump(*files)
    shown, strange = dumped.parse(output)
    faults += [f"{who}: the dump tool says: {line}" for line in strange + dumped.complaints(errors)]
    faults += [f"{who}: the dump tool says nothing of {path}" for path in files if path not in shown]
    for log in LOGS:
        of_log = {path: found for path, found in shown.items() if path.startswith(f"{directory}/{log}/")}
        segments = {int(os.path.basename(p)[:20]): found for p, found in of_log.items() if p.endswith(".log")}
        batches = [batch for base in sorted(segments) for batch in segments[base]]
        # What lies below the start of the log may still be in its first segment.
        first = written[log][0]["base"]
        batches = [batch for batch in batches if batch["last"] >= first]
        faults += dumped.faults_of_batches(f"{who}: {log}", batches, written[log])
        faults += dumped.faults_of_indexes(f"{who}: {log}", of_log, segments)
        checked += len(records_of(written[log]))
        for path, entries in of_log.items():
            if not path.endswith(".snapshot"):
                continue
            end = int(os.path.basename(path)[:20])
            known = {}
            for batch in written[log]:
                if batch["last"] < end and batch["producer"] >= 0:
                    last = batch["sequence"] + batch["last"] - batch["base"]
                    known[batch["producer"]] = (batch["producer"], batch["producer_epoch"], last, batch["last"])
            if sorted(entries) != sorted(known.values()):
                faults.append(f"{who}: {path} has {sorted(entries)}, and not {sorted(known.values())}")
    faults += small_files(kafka, directory, embedder_looks, who)
    return faults, checked


def small_files(kafka, directory, looks, who):
    faults = []
    epoch_files = {log: f"{directory}/{log}/leader-epoch-checkpoint" for log in looks}
    checkpoints = [f"{directory}/{name}" for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint")]
    metadata = [f"{directory}/{log}/partition.metadata" for log in looks]
    read = kafka.order("files", epochs=list(epoch_files.values()), offsets=checkpoints, metadata=metadata)
    for log, look in looks.items():
        found = read["epochs"][epoch_files[log]]
        if found != look["epochs"]:
            faults.append(f"{who}: {log}: Kafka reads the epochs {found}, and they are {look['epochs']}")
        if (id := read["ids"][f"{directory}/{log}/partition.metadata"]) != "4L6g3nShT-eMCtK--X86sw":
            faults.append(f"{who}: {log}: Kafka reads the topic id {id}")
    for path in checkpoints:
        found = {name: offset for name, offset in read["offsets"][path].items() if not name.startswith("__highwater_guard")}
        if found != read_checkpoint(path):
            faults.append(f"{who}: {path}: Kafka reads {found}")
    starts = read["offsets"][checkpoints[1]]
    if starts.get("raised-0", 0) != looks["raised-0"]["start"]:
        faults.append(f"{who}: Kafka reads that raised-0 begins at {starts.get('raised-0')}")
    return faults


def run(kafka, embedder_binary, directory):
    """Answers what is wrong, and a line about what was seen."""
    faults, records = [], 0
    for how in ("closed", "killed"):
        data = f"{directory}/dumped-{how}"
        embedder = Embedder(embedder_binary, data, SETTINGS, f"{directory}/embedder.err")
        written = write(embedder)
        looks = {log: embedder.order("look", log=log) for log in LOGS}
        if how == "closed":
            embedder.close()
        else:
            for log in LOGS[:2]:
                embedder.order("sync", log=log)
            embedder.kill()
        found, checked = look(kafka, data, looks, written, f"dump of a {how} directory")
        faults, records = faults + found, records + checked
    return faults, f"the dump tool found {records} records in directories that were closed and killed"
