"""What was sent, what was acknowledged, what is there: compares. Knows no cluster and no client."""

import glob
import hashlib
import os
from array import array
from dataclasses import dataclass, field

SHOWN = 10


def real_text():
    """Lines of real text that every machine has on which Rust programs are built: the sources of crates and of Rust itself."""
    cargo = os.environ.get("CARGO_HOME", os.path.expanduser("~/.cargo"))
    files = sorted(
        path
        for pattern in ("*.rs", "*.md", "*.toml")
        for path in glob.glob(f"{cargo}/registry/src/*/*/**/{pattern}", recursive=True)
    )
    if not files:
        raise SystemExit(f"there are no sources under {cargo}/registry/src; build the workspace first")
    while True:
        for path in files:
            with open(path, errors="replace") as text:
                # What some client would take for the end of a line must not be within one.
                yield from (" ".join(line.split("\n")[0].replace("\r", " ").replace("\0", " ").splitlines()) for line in text)


@dataclass
class Input:
    """The lines of one producer: each begins with the producer's name and its number."""

    name: str
    path: str
    acknowledged_path: str
    hashes: array = field(default_factory=lambda: array("q"))

    def write(self, text, size_bytes):
        """Fills the file from the text."""
        written = 0
        with open(self.path, "wb") as out:
            while written < size_bytes:
                line = f"{self.name} {len(self.hashes)} {next(text)}".encode()
                out.write(line + b"\n")
                self.hashes.append(hash(line))
                written += len(line) + 1
        return written

    def acknowledged(self):
        """The numbers of the acknowledged lines."""
        with open(self.acknowledged_path) as numbers:
            return [int(line) for line in numbers]


class Reading:
    """Everything that one reader found, line by line."""

    def __init__(self, inputs):
        self.inputs = {i.name: i for i in inputs}
        self.seen = {i.name: bytearray(len(i.hashes)) for i in inputs}
        self.last = {}
        self.offsets = {}
        self.faults = []
        self.records = 0

    def fault(self, text):
        if len(self.faults) < 1000:
            self.faults.append(text)

    def line(self, line):
        """Takes one line `partition offset producer number text`."""
        partition, offset, value = line.split(b" ", 2)
        partition, offset = int(partition), int(offset)
        self.records += 1
        expected = self.offsets.get(partition, -1)
        if offset <= expected:
            self.fault(f"partition {partition}: offset {offset} comes behind {expected}")
        self.offsets[partition] = offset
        try:
            name, number, _ = value.split(b" ", 2)
            name, number = name.decode(), int(number)
            known = self.inputs[name]
            right = known.hashes[number] == hash(value)
        except (ValueError, KeyError, IndexError, UnicodeDecodeError):
            self.fault(f"partition {partition} offset {offset}: nobody sent {value[:80]!r}")
            return
        if not right:
            self.fault(f"partition {partition} offset {offset}: line {number} of {name} has other bytes")
        if self.seen[name][number]:
            self.fault(f"line {number} of {name} is there again, at partition {partition} offset {offset}")
        self.seen[name][number] = 1
        last = self.last.get((name, partition), -1)
        if number < last:
            self.fault(f"partition {partition} offset {offset}: line {number} of {name} comes behind its line {last}")
        self.last[name, partition] = max(last, number)

    def finish(self, acknowledged):
        """Looks for acknowledged lines that are not there. Answers all faults."""
        for name, numbers in acknowledged.items():
            missing = [n for n in numbers if not self.seen[name][n]]
            if missing:
                first = ", ".join(map(str, missing[:SHOWN]))
                self.faults.append(f"LOST: {len(missing)} acknowledged lines of {name}, the first: {first}")
        return self.faults


def logs_digest(directory):
    """The SHA-256 and the size of a partition's `.log` files, one behind the other."""
    digest, size = hashlib.sha256(), 0
    for path in sorted(glob.glob(f"{directory}/*.log")):
        with open(path, "rb") as log:
            while piece := log.read(1 << 20):
                digest.update(piece)
                size += len(piece)
    return digest.hexdigest(), size
