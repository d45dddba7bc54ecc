"""The check of tests/COVERAGE.md notices what it should: python3 -m unittest coverage_test, in tests/."""

import unittest

import coverage

OUTPUT = """
     Running unittests src/lib.rs (target/debug/deps/highwater_engine-0123456789abcdef)
running 3 tests
test log::cut ... ok
test log::left_out ... ignored
test log::broken ... FAILED
     Running tests/allocations.rs (target/debug/deps/allocations-0123456789abcdef)
test none ... ok
   Doc-tests highwater_engine
test engine/src/lib.rs - log (line 3) ... ok
"""


class Check(unittest.TestCase):
    def setUp(self):
        self.sections, coverage.SECTIONS = coverage.SECTIONS, {"Logs": ("K", "1-2 2a")}

    def tearDown(self):
        coverage.SECTIONS = self.sections

    def wrong(self, *proofs, open_max=0, numbers=("K1", "K2", "K2a")):
        table = "".join(f"| {row} | what | here | {proof} |\n" for row, proof in zip(numbers, proofs))
        page = f"Open rows, at most: {open_max}\n## Logs\n| row | what | here | tests |\n|---|---|---|---|\n{table}"
        return coverage.check(page, OUTPUT, "cargo run -- recover\n")[0]

    def test_a_page_that_is_right(self):
        proofs = "engine: log::cut<br>allocations: none", "none", "ci: cargo run -- recover"
        self.assertEqual(self.wrong(*proofs), [])

    def test_what_is_not_there_or_did_not_run(self):
        for proof in [
            "engine: log::absent",
            "engine: log::left_out",
            "engine: log::broken",
            "replication: log::cut",
            "ci: cargo run -- cluster",
            "log::cut",
            "engine: log::cut, engine: log::cut",
        ]:
            self.assertEqual(len(self.wrong(proof, "none", "none")), 1, proof)

    def test_rows_that_are_missing_strange_or_there_twice(self):
        self.assertEqual(self.wrong("none", "none"), ["Logs: row K2a is missing"])
        strange = self.wrong("none", "none", "none", numbers=("K1", "K2", "K3"))
        self.assertEqual(strange, ["Logs: row K2a is missing", "Logs: row K3 is not one of its rows"])
        twice = self.wrong("none", "none", "none", numbers=("K1", "K1", "K2"))
        self.assertEqual(twice, ["Logs: row K2a is missing", "Logs: row K1 is there twice"])

    def test_open_rows_are_counted(self):
        self.assertEqual(len(self.wrong("open: all", "none", "none")), 1)
        self.assertEqual(self.wrong("open: all", "none", "none", open_max=1), [])

    def test_an_output_without_tests(self):
        self.assertIn("no test has run", coverage.check("", "", "")[0])

    def test_an_output_in_colours(self):
        lines = OUTPUT.replace("Running", "\x1b[1mRunning\x1b[0m").replace("... ok", "... \x1b[32mok\x1b[0m")
        self.assertEqual(coverage.outcomes(lines), coverage.outcomes(OUTPUT))

    def test_numbers(self):
        self.assertEqual(coverage.numbers("D-", "01-03 7"), ["D-01", "D-02", "D-03", "D-7"])


if __name__ == "__main__":
    unittest.main()
