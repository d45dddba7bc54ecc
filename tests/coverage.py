#!/usr/bin/env python3
"""Checks tests/COVERAGE.md: every row of every section is there, and every test that it names has run.

    python3 tests/coverage.py OUTPUT      OUTPUT: what `cargo test --workspace` printed, both streams in one file

A row's last cell names its proof:
    engine: path::of::a_test        a test as `cargo test` prints it, of that crate or integration test; it must have run, and be ok
    ci: some command                a step of .ci/run, which fails if the command does
    none                            nothing to test; the cell before says why
    open: what is missing           not proved; the page says how many of these there may be
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Every section with the numbers of its rows.
SECTIONS = {
    "Segments": ("K", "1-37"),
    "Indexes": ("K", "38-64"),
    "Logs": ("K", "65-103"),
    "Recovery": ("K", "104-127 127a 127b 127c 127d 128-134"),
    "Retention": ("K", "135-148"),
    "Compaction": ("K", "149-168"),
    "State of producers": ("K", "169-182"),
    "History of epochs": ("K", "183-191"),
    "Leaders and the ISR": ("K", "192-215"),
    "Followers": ("K", "216-235"),
    "Checkpoints": ("K", "236-246"),
    "Faults that others had: crashes": (
        "F",
        "1 3-11 13 14 16-18 20 22 23 25-32 34-42 44-47 49-53",
    ),
    "Faults that others had: indexes": ("F", "54 55 57-62 64 65 67"),
    "Faults that others had: epochs and cuts": ("F", "68 69 71-73 75-78 80 81 83 84 87 89-93"),
    "Faults that others had: high watermarks and the ISR": ("F", "94 96 98 99 101-105 107 108 110-112"),
    "Faults that others had: retention": ("F", "113 115-116 118-121 123 125-127 129"),
    "Damage: records": ("D-", "01-18"),
    "Damage: indexes": ("X-", "01-10"),
    "Damage: small files": ("C-", "01-16"),
    "Damage: names and files": ("N-", "01-13"),
    "Failing calls": ("E-", "01-14"),
    "Failing network": ("P-", "01-15"),
    "Crash points": ("O-", "01-12"),
}

TEST = re.compile(r"\btest (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)")
RUNNING = re.compile(r"Running (?:unittests )?\S+ \(\S*/deps/(\S+)-[0-9a-f]{16}\)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
DOC_TESTS = re.compile(r"Doc-tests (\S+)")
NAME = re.compile(r"^[a-z_0-9]+: [\w:]+$")
OPEN_MAX = re.compile(r"^Open rows, at most: (\d+)$", re.MULTILINE)


def numbers(prefix, ranges):
    """The ids of a section's rows, in order."""
    ids = []
    for part in ranges.split():
        first, dash, last = part.partition("-")
        if dash:
            width = len(first) if first.startswith("0") else 0
            ids += [f"{prefix}{number:0{width}}" for number in range(int(first), int(last) + 1)]
        else:
            ids.append(prefix + part)
    return ids


def outcomes(output):
    """What became of each test that ran, by `crate: path`."""
    found, crate = {}, None
    for line in COLOUR.sub("", output).splitlines():
        if running := RUNNING.search(line):
            crate = running[1].removeprefix("highwater_")
        elif doc := DOC_TESTS.search(line):
            crate = "doc " + doc[1]
        elif test := TEST.search(line):
            found[f"{crate}: {test[1]}"] = test[2]
    return found


def rows(page):
    """Each row as (section, cells), and what is wrong with the page's form."""
    section, found, wrong = None, [], []
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("## "):
            section = line[3:].strip()
        elif line.startswith("|") and section in SECTIONS:
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            if cells[0].lower() == "row" or set(cells[0]) <= {"-", "|", " "}:
                continue
            if len(cells) != 4:
                wrong.append(f"line {number}: {len(cells)} cells, not 4")
                continue
            found.append((section, cells))
    return found, wrong


def check(page, output, steps):
    """What is wrong, and how many rows are open."""
    found, wrong = rows(page)
    ran = outcomes(output)
    if not ran:
        wrong.append("no test has run")
    for section, (prefix, ranges) in SECTIONS.items():
        wanted = numbers(prefix, ranges)
        have = [cells[0] for name, cells in found if name == section]
        wrong += [f"{section}: row {row} is missing" for row in wanted if row not in have]
        wrong += [f"{section}: row {row} is not one of its rows" for row in have if row not in wanted]
        wrong += [f"{section}: row {row} is there twice" for row in sorted(set(have)) if have.count(row) > 1]
    still_open = []
    for _, (row, what, here, proof) in found:
        if not what or not here or not proof:
            wrong.append(f"{row}: an empty cell")
        if proof.startswith("open:"):
            still_open.append(row)
            continue
        if proof == "none":
            continue
        for name in (part.strip().strip("`") for part in proof.split("<br>")):
            if name.startswith("ci: "):
                if name[4:] not in steps:
                    wrong.append(f"{row}: .ci/run has no step {name[4:]!r}")
            elif not NAME.match(name):
                wrong.append(f"{row}: {name!r} is no test's name")
            elif name not in ran:
                wrong.append(f"{row}: {name} has not run")
            elif ran[name] != "ok":
                wrong.append(f"{row}: {name} is {ran[name]}")
    allowed = OPEN_MAX.search(page)
    if allowed is None:
        wrong.append("the page does not say how many rows may be open")
    elif len(still_open) > int(allowed[1]):
        wrong.append(f"{len(still_open)} rows are open, {allowed[1]} may be: {' '.join(still_open)}")
    return wrong, still_open


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    page = (ROOT / "tests/COVERAGE.md").read_text()
    output = Path(arguments[0]).read_text(errors="replace")
    steps = (ROOT / ".ci/run").read_text()
    wrong, still_open = check(page, output, steps)
    for line in wrong:
        print(f"tests/COVERAGE.md: {line}", file=sys.stderr)
    total = len(rows(page)[0])
    print(f"{total} rows, {len(still_open)} open: {' '.join(still_open) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
