"""One replica's files, and everything that a disk can do to them. Knows the bytes of a batch's header; knows no broker."""

import glob
import os
import shutil
import struct
from collections import namedtuple

HEADER_BYTES = 61
# Where the fields of a batch's header begin; the first four lie outside of its CRC.
BASE_OFFSET, LENGTH, EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA = 0, 8, 12, 16, 17, 21, 23

Batch = namedtuple("Batch", "path position size base until")


def batches(path):
    """The batches of a segment that is whole."""
    with open(path, "rb") as log:
        data = log.read()
    found, position = [], 0
    while position + HEADER_BYTES <= len(data):
        base, length = struct.unpack_from(">qi", data, position)
        (delta,) = struct.unpack_from(">i", data, position + LAST_DELTA)
        found.append(Batch(path, position, 12 + length, base, base + delta + 1))
        position += 12 + length
    return found


def change(path, position, data):
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def flip(path, position):
    with open(path, "rb") as file:
        file.seek(position)
        (byte,) = file.read(1)
    change(path, position, bytes([byte ^ 0x10]))


class Replica:
    """The directory of one log whose broker is down."""

    def __init__(self, directory):
        self.directory = directory
        self.logs = sorted(glob.glob(f"{directory}/*.log"))
        self.batches = [batch for path in self.logs for batch in batches(path)]

    def at(self, part):
        """The batch behind this part of the log's bytes."""
        left = int(sum(batch.size for batch in self.batches) * part)
        for batch in self.batches:
            if left < batch.size:
                return batch
            left -= batch.size
        return self.batches[-1]

    def cut(self, batch, inside=0):
        """The log ends in front of the batch, or so many bytes behind its beginning."""
        for path in self.logs[self.logs.index(batch.path) + 1 :]:
            self.remove_segment(path)
        os.truncate(batch.path, batch.position + inside)

    def append(self, data):
        with open(self.logs[-1], "ab") as log:
            log.write(data)

    def exchange(self, batch, data):
        """Other bytes, of whatever length, in the place of a batch."""
        with open(batch.path, "rb") as log:
            whole = log.read()
        with open(batch.path, "wb") as log:
            log.write(whole[: batch.position] + data + whole[batch.position + batch.size :])

    def bytes_of(self, batch):
        with open(batch.path, "rb") as log:
            log.seek(batch.position)
            return log.read(batch.size)

    def remove_segment(self, log):
        for path in glob.glob(f"{log.removesuffix('.log')}.*"):
            os.remove(path)

    def side_files(self, suffix):
        """Those of all segments; at least one, or the fault would be none."""
        paths = sorted(glob.glob(f"{self.directory}/*{suffix}"))
        assert paths, f"no {suffix} in {self.directory}"
        return paths


# What can be done to a log. Each answers the offsets of which it leaves nothing that can be read: from, until.


def header_field(field):
    def fault(replica):
        batch = replica.at(0.1)
        # The byte of the field that is not 0 and not the last, so that it is neither the sign nor the neighbour.
        flip(batch.path, batch.position + field)
        return batch.base, batch.until

    return fault


def payload(replica):
    batch = replica.at(0.1)
    flip(batch.path, batch.position + HEADER_BYTES + (batch.size - HEADER_BYTES) // 2)
    return batch.base, batch.until


def length_becomes(value):
    def fault(replica):
        batch = replica.at(0.1)
        change(batch.path, batch.position + LENGTH, struct.pack(">i", value))
        return batch.base, batch.until

    return fault


def hole(replica):
    """A page of zeros, with batches behind it."""
    first = replica.at(0.3)
    position = first.position + first.size // 2
    change(first.path, position, bytes(4096))
    struck = [b for b in replica.batches if b.path == first.path and b.position < position + 4096 and b.position + b.size > position]
    return struck[0].base, struck[-1].until


def end(replica):
    return replica.batches[-1].until


def cut_to_a_tenth(replica):
    batch = replica.at(0.1)
    replica.cut(batch)
    return batch.base, end(replica)


def torn_end(replica):
    batch = replica.batches[-1]
    replica.cut(batch, batch.size // 2)
    return batch.base, batch.until


def end_of_zeros(replica):
    """The size came to the disk, the last pages did not."""
    batch = replica.batches[-2]
    change(batch.path, batch.position + 7, bytes(os.path.getsize(batch.path) - batch.position - 7))
    return batch.base, end(replica)


def end_of_garbage(replica):
    batch = replica.batches[-1]
    change(batch.path, batch.position, os.urandom(batch.size))
    return batch.base, batch.until


def zeros_behind(replica):
    replica.append(bytes(10_000))
    return None


def garbage_behind(replica):
    replica.append(os.urandom(10_000))
    return None


def old_batch_behind(replica):
    """As a file that was used before has it: a batch with a good CRC from another place."""
    replica.append(replica.bytes_of(replica.at(0.2)))
    return None


def batch_twice(replica):
    batch = replica.at(0.1)
    replica.exchange(batch, 2 * replica.bytes_of(batch))
    return None


def batch_of_elsewhere(replica):
    """A misdirected write: a batch with a good CRC where another one was."""
    to = replica.at(0.1)
    source = next(b for b in replica.batches[len(replica.batches) // 2 :] if b.size == to.size)
    change(to.path, to.position, replica.bytes_of(source))
    return to.base, to.until


def offsets_of(replica, log):
    found = [batch for batch in replica.batches if batch.path == log]
    return found[0].base, found[-1].until


def segment_gone(index):
    def fault(replica):
        log = replica.logs[index]
        lost = offsets_of(replica, log)
        replica.remove_segment(log)
        return lost

    return fault


def segment_empty(replica):
    lost = offsets_of(replica, replica.logs[1])
    os.truncate(replica.logs[1], 0)
    return lost


def segment_of_elsewhere(replica):
    lost = offsets_of(replica, replica.logs[1])
    shutil.copyfile(replica.logs[0], replica.logs[1])
    return lost


# What can be done to a file that is made from others, or says something about them.


def side(suffix, how):
    """Something is done to each file of this kind in a log's directory; it costs no record."""

    def fault(replica):
        for path in replica.side_files(suffix):
            how(path)
        return None

    return fault


def gone(path):
    os.remove(path)


def empty(path):
    os.truncate(path, 0)


def zeros(path):
    change(path, 0, bytes(max(os.path.getsize(path), 64)))


def garbage(path):
    change(path, 0, os.urandom(max(os.path.getsize(path), 61)))


def half(path):
    os.truncate(path, os.path.getsize(path) // 2)


def middle(path):
    flip(path, os.path.getsize(path) // 2)


def of_another_segment(path):
    """The first file of its kind in the directory has the contents of the last one."""
    paths = sorted(glob.glob(f"{os.path.dirname(path)}/*.{path.rsplit('.', 1)[1]}"))
    if path == paths[0]:
        shutil.copyfile(paths[-1], path)


def text(name, edit):
    """Lines of a checkpoint, without the guard that ours has: as if somebody else had written it."""

    def how(path):
        with open(path) as file:
            lines = [line.split() for line in file.read().splitlines()]
        entries = edit([line for line in lines[2:] if line[0] != "__highwater_guard"])
        with open(path, "w") as file:
            file.write("\n".join(["0", str(len(entries)), *(" ".join(map(str, entry)) for entry in entries)]) + "\n")

    how.__name__ = name
    return how


def last_column(name, value):
    return text(name, lambda entries: [[*entry[:-1], value(int(entry[-1]))] for entry in entries])


too_high = last_column("too_high", lambda offset: offset + 1_000_000)
too_low = last_column("too_low", lambda offset: offset // 20)
twice = text("twice", lambda entries: entries * 2)
negative = last_column("negative", lambda _: -5)
no_entries = text("no_entries", lambda _: [])


def newer_version(path):
    with open(path, "rb") as file:
        rest = file.read().split(b"\n", 1)[1]
    with open(path, "wb") as file:
        file.write(b"7\n" + rest)


def guard_wrong(path):
    """A digit of an entry is another one, and the guard says so."""
    with open(path) as file:
        lines = file.read().splitlines()
    entry = next(number for number, line in enumerate(lines) if number > 1 and "__highwater_guard" not in line)
    name, partition, offset = lines[entry].split()
    lines[entry] = f"{name} {partition} {(int(offset) + 1) * 3}"
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def other_topic_id(path):
    with open(path) as file:
        lines = file.read().splitlines()
    lines = ["topic_id: AAAAAAAAAAAAAAAAAAAABw" if line.startswith("topic_id") else line for line in lines]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
