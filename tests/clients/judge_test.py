"""The judge notices what it is there for. Run before every run: a judge that sees nothing finds nothing wrong."""

import tempfile
import unittest

from judge import Input, Reading


class JudgeTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.mkdtemp()
        self.input = Input("a", f"{directory}/a", f"{directory}/acks")
        self.input.write(iter(["one", "two", "", "four"]), 20)
        with open(self.input.path, "rb") as lines:
            self.lines = lines.read().splitlines()

    def judge(self, records):
        reading = Reading([self.input])
        for partition, offset, value in records:
            reading.line(b"%d %d %s" % (partition, offset, value))
        return reading.finish({"a": range(len(self.lines))})

    def good(self):
        return [(0, offset, line) for offset, line in enumerate(self.lines)]

    def test_what_is_right_is_right(self):
        self.assertGreater(len(self.lines), 2)
        self.assertEqual(self.judge(self.good()), [])

    def assert_one(self, faults, words):
        self.assertEqual(len(faults), 1, faults)
        self.assertIn(words, faults[0])

    def test_a_lost_line(self):
        self.assert_one(self.judge(self.good()[:-1]), "LOST: 1 acknowledged lines of a")

    def test_a_line_that_is_there_twice(self):
        self.assert_one(self.judge([*self.good(), (1, 0, self.lines[0])]), "line 0 of a is there again")

    def test_lines_in_another_order(self):
        first, second, *rest = self.lines
        lines = [second, first, *rest]
        self.assert_one(self.judge([(0, o, line) for o, line in enumerate(lines)]), "comes behind its line 1")

    def test_other_bytes(self):
        records = self.good()
        records[1] = (0, 1, records[1][2] + b"x")
        self.assert_one(self.judge(records), "line 1 of a has other bytes")

    def test_what_nobody_sent(self):
        self.assert_one(self.judge([*self.good(), (0, 100, b"hello")]), "nobody sent")

    def test_offsets_that_go_back(self):
        records = self.good()
        records[-1] = (0, 0, records[-1][2])
        self.assert_one(self.judge(records), "offset 0 comes behind")


if __name__ == "__main__":
    unittest.main()
