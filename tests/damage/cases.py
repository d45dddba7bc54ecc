"""What is done to one replica's files, and what has to come of it.

With a second replica the outcome is always the same: every acknowledged record is readable, and the bytes of both logs are equal again.
Where the damaged replica is the only one, the outcome stands beside the fault."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Callable

import files
from files import side


class Alone(Enum):
    """The outcome where no other replica is."""

    # Every record is readable.
    ALL = auto()
    # A Fetch inside of the damaged offsets gets an error, every record before and behind them is readable, and `status` shows it.
    GAP = auto()
    # The end is gone: every record in front of it is readable, and `status` shows the loss.
    SHORT = auto()
    # The files are another topic's, as they say themselves: nothing of them is served.
    ASIDE = auto()


@dataclass(frozen=True)
class Case:
    name: str
    fault: Callable
    alone: Alone = Alone.ALL


# Part of a log, in the order of the fault model (D-01 to D-16).
RECORDS = [
    Case("payload", files.payload, Alone.GAP),
    Case("base-offset", files.header_field(files.BASE_OFFSET + 6), Alone.GAP),
    Case("base-offset-sign", files.header_field(files.BASE_OFFSET), Alone.GAP),
    Case("length", files.header_field(files.LENGTH + 2), Alone.GAP),
    Case("length-zero", files.length_becomes(0), Alone.GAP),
    Case("length-negative", files.length_becomes(-5), Alone.GAP),
    Case("length-huge", files.length_becomes(2**31 - 1), Alone.GAP),
    Case("length-tiny", files.length_becomes(30), Alone.GAP),
    Case("leader-epoch", files.header_field(files.EPOCH + 3), Alone.GAP),
    Case("magic", files.header_field(files.MAGIC), Alone.GAP),
    Case("crc", files.header_field(files.CRC), Alone.GAP),
    Case("attributes", files.header_field(files.ATTRIBUTES + 1), Alone.GAP),
    Case("last-delta", files.header_field(files.LAST_DELTA + 3), Alone.GAP),
    Case("hole", files.hole, Alone.GAP),
    Case("torn-end", files.torn_end, Alone.SHORT),
    Case("end-of-zeros", files.end_of_zeros, Alone.SHORT),
    Case("end-of-garbage", files.end_of_garbage, Alone.SHORT),
    Case("cut-to-a-tenth", files.cut_to_a_tenth, Alone.SHORT),
    Case("zeros-behind", files.zeros_behind),
    Case("garbage-behind", files.garbage_behind),
    Case("old-batch-behind", files.old_batch_behind),
    Case("batch-twice", files.batch_twice),
    Case("batch-of-elsewhere", files.batch_of_elsewhere, Alone.GAP),
    Case("first-segment-gone", files.segment_gone(0), Alone.GAP),
    Case("middle-segment-gone", files.segment_gone(1), Alone.GAP),
    Case("last-segment-gone", files.segment_gone(-1), Alone.SHORT),
    Case("segment-empty", files.segment_empty, Alone.GAP),
    Case("segment-of-elsewhere", files.segment_of_elsewhere, Alone.GAP),
]

# The files beside a log (X-01 to X-10, C-13, C-16).
INDEX_DAMAGE = [files.gone, files.empty, files.zeros, files.garbage, files.half, files.middle, files.of_another_segment]
TEXT_DAMAGE = [files.gone, files.empty, files.zeros, files.garbage, files.half, files.newer_version]
BESIDE = [
    *(
        Case(f"{kind}-{how.__name__}".replace("_", "-"), side(f".{kind}", how))
        for kind in ("index", "timeindex", "snapshot")
        for how in INDEX_DAMAGE
    ),
    *(
        Case(f"epochs-{how.__name__}".replace("_", "-"), side("leader-epoch-checkpoint", how))
        for how in [*TEXT_DAMAGE, files.no_entries, files.too_high, files.too_low, files.twice, files.negative]
    ),
    Case("identity-gone", side("partition.metadata", files.gone)),
    Case("identity-empty", side("partition.metadata", files.empty)),
    Case("identity-garbage", side("partition.metadata", files.garbage)),
    Case("identity-of-another", side("partition.metadata", files.other_topic_id), Alone.ASIDE),
]

# The files of a data directory: each case has a cluster of its own, because all logs are struck (C-01 to C-12, C-15).
CHECKPOINT_DAMAGE = [
    *TEXT_DAMAGE,
    files.no_entries,
    files.too_high,
    files.too_low,
    files.twice,
    files.negative,
    files.guard_wrong,
]
CHECKPOINTS = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"]

# One of each kind, for a run of a minute.
CHOSEN = {
    "base-offset",
    "length-zero",
    "leader-epoch",
    "hole",
    "torn-end",
    "old-batch-behind",
    "batch-twice",
    "middle-segment-gone",
    "segment-of-elsewhere",
    "index-garbage",
    "snapshot-zeros",
    "epochs-newer-version",
    "identity-of-another",
}
