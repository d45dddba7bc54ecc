"""Kafka as the judge of what we write to disk, and we as the judge of what it writes."""

import argparse
import os
import shutil
import sys
import tempfile
import time

import dumping
from asking import Asking
from better import Better
from carrying import Carrying
from compacting import BROKER as CLEANER, Compacting
from exchange import BROKER, Exchange
from sides import Kafka, stop_on_signals


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def dump(options, directory):
    kafka = Kafka(f"{directory}/kafka-dump", options.port, ())
    try:
        kafka.start()
        return dumping.run(kafka, options.embedder, directory)
    finally:
        kafka.end("kill")


def exchange(options, directory):
    kafka = Kafka(f"{directory}/kafka", options.port, BROKER)
    try:
        return Exchange(kafka, options.embedder, directory).run()
    finally:
        kafka.end("kill")


def compact(options, directory):
    kafka = Kafka(f"{directory}/kafka-compact", options.port, CLEANER)
    try:
        return Compacting(kafka, options.embedder, directory).run()
    finally:
        kafka.end("kill")


def carry(options, directory):
    return Carrying(options, directory).run()


def ask(options, directory):
    return Asking(options, directory).run()


def better(options, directory):
    return Better(options, directory).run()


PARTS = {"dump": dump, "exchange": exchange, "compact": compact, "carry": carry, "ask": ask, "better": better}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embedder", required=True, help="the program over our engine")
    parser.add_argument("--highwater", required=True, help="our broker and its tools")
    parser.add_argument("--port", type=int, default=9592, help="our broker's; Kafka listens on 10,000 more, and on the next")
    parser.add_argument("--part", choices=PARTS, action="append", help="this part alone")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    stop_on_signals()
    directory = tempfile.mkdtemp(prefix="highwater-kafka-")
    say(f"everything is in {directory}")
    faults = []
    for part in options.part or PARTS:
        os.makedirs(f"{directory}/{part}")
        found, seen = PARTS[part](options, f"{directory}/{part}")
        faults += found
        say(f"{part}: {seen}; {'right' if not found else f'{len(found)} FAULTS'}")
    if faults:
        print(f"\nFAILED, {len(faults)} faults; everything is in {directory}", *faults[:50], sep="\n  ")
        return 1
    if not options.keep:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
