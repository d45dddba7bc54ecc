"""The judge notices what it should: each kind of fault is put in, and found."""

import copy
import unittest

import dumped
from model import Model

RECORDS = [
    {"offset": offset, "timestamp": 1000 + offset, "key": f"k{offset}", "value": "v", "headers": [["h", None]]} for offset in range(6)
]
OUTPUT = """Dumping /d/t-0/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 4 lastSequence: 5 producerId: 7 producerEpoch: 0 partitionLeaderEpoch: 3 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1001 size: 90 magic: 2 compresscodec: zstd crc: 99 isvalid: true
| offset: 0 CreateTime: 1000 keySize: 2 valueSize: 1 sequence: 4 headerKeys: [h] key: k0 payload: v
| offset: 1 CreateTime: 1001 keySize: -1 valueSize: -1 sequence: 5 headerKeys: []
Dumping /d/t-0/00000000000000000000.index
offset: 1 position: 0
"""
WRITTEN = [
    {
        "base": 0, "last": 1, "sequence": 4, "producer": 7, "producer_epoch": 0, "epoch": 3, "codec": "zstd", "crc": 99,
        "transactional": False, "control": False,
        "records": [
            {"offset": 0, "timestamp": 1000, "key": "k0", "value": "v", "headers": [["h", "x"]]},
            {"offset": 1, "timestamp": 1001, "key": None, "value": None, "headers": []},
        ],
    }
]  # fmt: skip


class OfModels(unittest.TestCase):
    def setUp(self):
        self.model = Model("t")
        self.model.add(RECORDS)
        self.model.begin_at(1)
        self.model.producers[7] = (0, 5)

    def faults(self, records, start=1, end=6, **how):
        return self.model.faults("somebody", start, end, records, **how)

    def test_what_is_right_is_right(self):
        self.assertEqual(self.faults(RECORDS), [])
        self.assertEqual(self.model.producer_faults("somebody", [{"id": 7, "epoch": 0, "last_sequence": 5}]), [])

    def test_each_fault_is_noticed(self):
        other = copy.deepcopy(RECORDS)
        other[3]["headers"] = []
        for records in (RECORDS[:-1], RECORDS + [{**RECORDS[5], "offset": 6}], RECORDS[:3] + RECORDS[2:], other):
            self.assertTrue(self.faults(records))
        self.assertTrue(self.faults(RECORDS, start=0))
        self.assertTrue(self.faults(RECORDS, end=7))
        for producers in ([], [{"id": 7, "epoch": 1, "last_sequence": 5}], [{"id": 7, "epoch": 0, "last_sequence": 4}]):
            self.assertTrue(self.model.producer_faults("somebody", producers))

    def test_aborted_records_are_for_readers_of_all(self):
        self.model.aborted = {2, 3}
        committed = [record for record in RECORDS if record["offset"] not in (2, 3)]
        self.assertEqual(self.faults(committed, committed=True), [])
        self.assertTrue(self.faults(RECORDS, committed=True))
        self.assertTrue(self.faults(committed))

    def test_a_cut_forgets_what_lay_behind(self):
        self.model.cut(4)
        self.assertEqual(self.faults(RECORDS[:4], end=4), [])
        self.assertTrue(self.faults(RECORDS, end=4))


class OfDumps(unittest.TestCase):
    def test_what_is_right_is_right(self):
        files, strange = dumped.parse(OUTPUT)
        self.assertEqual(strange, [])
        batches = files["/d/t-0/00000000000000000000.log"]
        self.assertEqual(dumped.faults_of_batches("t", batches, WRITTEN), [])
        self.assertEqual(dumped.faults_of_indexes("t", files, {0: batches}), [])

    def test_each_fault_is_noticed(self):
        for old, new in (
            ("isvalid: true", "isvalid: false"), ("crc: 99", "crc: 98"), ("lastOffset: 1", "lastOffset: 2"), ("zstd", "none"),
            ("LeaderEpoch: 3", "LeaderEpoch: 4"), ("key: k0", "key: k1"), ("payload: v", "payload: w"), ("keySize: -1", "keySize: 0"),
            ("[h]", "[]"), ("CreateTime: 1000", "CreateTime: 1"), ("| offset: 1", "| offset: 2"),
        ):  # fmt: skip
            files, strange = dumped.parse(OUTPUT.replace(old, new))
            batches = files["/d/t-0/00000000000000000000.log"]
            self.assertTrue(strange or dumped.faults_of_batches("t", batches, WRITTEN), new)
        files, _ = dumped.parse(OUTPUT.replace("offset: 1 position: 0", "offset: 1 position: 9"))
        self.assertTrue(dumped.faults_of_indexes("t", files, {0: files["/d/t-0/00000000000000000000.log"]}))
        _, strange = dumped.parse(OUTPUT + "Mismatches in :/d/t-0/00000000000000000000.index\n")
        self.assertTrue(strange)

    def test_gaps_are_complaints_and_the_beginning_of_a_segment_is_none(self):
        said = "Non-consecutive offsets in /d/t-0/00000000000000000190.log\n  {}\n"
        self.assertEqual(dumped.complaints(said.format("-1 is followed by 190")), [])
        for pair in ("-1 is followed by 191", "200 is followed by 202"):
            self.assertTrue(dumped.complaints(said.format(pair)))
        self.assertTrue(dumped.complaints("Exception in thread main"))


if __name__ == "__main__":
    unittest.main()
