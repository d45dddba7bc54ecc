"""Damage to one replica of real brokers: three of them, a controller, topics on brokers 2 and 3 or on 2 alone, every record acknowledged
with acks=all to an idempotent producer. Everybody stops, broker 2's files are damaged, brokers 1 and 2 start first and 3 some seconds
later; then every record has to be where it was, or what is missing has to be said."""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from enum import Enum, auto

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [f"{HERE}/../net", f"{HERE}/../clients"]

import cases  # noqa: E402
import files  # noqa: E402
from cases import Alone, Case  # noqa: E402
from clients import SIZE_OF_OTHERS, SIZE_OF_TABLE, Reader, write  # noqa: E402
from hosts import BROKERS, HOSTS, SETTINGS, Hosts  # noqa: E402
from judge import logs_digest  # noqa: E402
from network import Loopback  # noqa: E402

# Checkpoints are written often, so that those of what was written are there when everybody is killed.
OWN_SETTINGS = {**SETTINGS, "replica.high.watermark.checkpoint.interval.ms": "500", "log.flush.offset.checkpoint.interval.ms": "500"}
SEGMENT_BYTES = 1 << 20
THIRD_COMES_AFTER_S = 6


class Stop(Enum):
    KILL = auto()
    CLEAN = auto()


class Order(Enum):
    """Who is back first."""

    DAMAGED = auto()
    TOGETHER = auto()


@dataclass
class Struck:
    """A topic and what is done to broker 2's replica of it."""

    case: Case
    replicas: int
    size: tuple
    # While broker 3 is away nobody may lead.
    waits: bool = False
    lost: tuple | None = None

    @property
    def topic(self):
        return f"{self.case.name}-{'alone' if self.replicas == 1 else 'two'}-{self.size[0]}"


@dataclass
class Round:
    """One life and one death of a cluster."""

    name: str
    stop: Stop
    order: Order
    struck: list
    # Done to broker 2's data directory, beside what is done to its logs.
    directory_fault: callable = None
    faults: list = field(default_factory=list)


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


class Trial:
    def __init__(self, options, round, directory):
        self.options, self.round = options, round
        self.data = {broker: f"{directory}/{broker}" for broker in BROKERS}
        self.hosts = Hosts(options.highwater, Loopback(HOSTS), directory, self.data, OWN_SETTINGS)

    def log_of(self, broker, struck):
        return f"{self.data[broker]}/{struck.topic}-0"

    def start(self, *hosts):
        for host in hosts:
            self.hosts.start(host)

    def alive(self, count, brokers=BROKERS):
        self.hosts.until(f"{count} brokers", lambda status: sum(b["alive"] for b in status["brokers"]) >= count, 60, brokers)

    def fill(self):
        self.start("controller", *BROKERS)
        self.alive(3)
        for struck in self.round.struck:
            minimum = f"min.insync.replicas={struck.replicas}"
            segment = ["--config", f"segment.bytes={SEGMENT_BYTES}"] if struck.size == SIZE_OF_OTHERS else []
            assignment = "2:3" if struck.replicas == 2 else "2"
            self.hosts.ask("topics", "create", struck.topic, "--replica-assignment", assignment, "--config", minimum, *segment)
        for size in (SIZE_OF_TABLE, SIZE_OF_OTHERS):
            if topics := [struck.topic for struck in self.round.struck if struck.size == size]:
                self.round.faults += write(self.hosts.bootstrap, topics, size)
        # The checkpoints say so.
        time.sleep(1.5)

    def stop(self):
        if self.round.stop is Stop.CLEAN:
            self.round.faults += self.hosts.stop()
        else:
            for host in ("controller", *BROKERS):
                self.hosts.signal(host, signal.SIGKILL)

    def damage(self):
        for struck in self.round.struck:
            if struck.case.fault:
                struck.lost = struck.case.fault(files.Replica(self.log_of("b2", struck)))
        if self.round.directory_fault:
            self.round.directory_fault(self.data["b2"])

    def come_back(self):
        if self.round.order is Order.TOGETHER:
            self.start("controller", *BROKERS)
            return self.alive(3)
        self.start("controller", "b1", "b2")
        time.sleep(THIRD_COMES_AFTER_S)
        leaders = self.lines("b1", "leader")
        for struck in self.round.struck:
            if struck.waits and leaders[struck.topic] is not None:
                self.round.faults.append(f"{struck.topic}: broker {leaders[struck.topic]} leads while the one that has everything is away")
        self.start("b3")
        return self.alive(3)

    def lines(self, broker, key):
        return {line["topic"]: line.get(key) for line in self.hosts.status(broker)["partitions"]}

    def read(self):
        """Everything that two replicas had, and of what one had alone everything that is not damaged."""
        reader = Reader(self.hosts.bootstrap)
        try:
            for size in (SIZE_OF_TABLE, SIZE_OF_OTHERS):
                whole, middle, before, behind = {}, {}, {}, {}
                for struck in self.round.struck:
                    if struck.size != size:
                        continue
                    if struck.replicas == 1 and struck.case.alone is Alone.ASIDE:
                        continue
                    if struck.replicas == 2 or struck.lost is None:
                        whole[struck.topic] = (0, size[0])
                        # Found by an index.
                        middle[struck.topic] = (size[0] // 3, size[0] // 3 + 20)
                        continue
                    before[struck.topic] = (0, struck.lost[0])
                    if struck.case.alone is Alone.GAP:
                        behind[struck.topic] = (struck.lost[1], size[0])
                for wanted in (whole, middle, before, behind):
                    self.round.faults += reader.ranges(wanted, size[1])
            for struck in self.round.struck:
                if struck.replicas == 1 and struck.case.alone is Alone.ASIDE:
                    self.round.faults += reader.nothing_at(struck.topic, 0)
                if struck.replicas == 1 and struck.case.alone is Alone.GAP:
                    start, until = struck.lost
                    for offset in sorted({start, (start + until) // 2, until - 1}):
                        self.round.faults += reader.error_at(struck.topic, offset)
        finally:
            reader.close()

    def until_mended(self):
        """Two replicas are in sync and whole; one that is alone says what it lacks."""
        two = {struck.topic for struck in self.round.struck if struck.replicas == 2}

        def mended(status):
            lines = [line for line in status["partitions"] if line["topic"] in two]
            return len(lines) == len(two) and all(line["leader"] and len(line["isr"]) == 2 and not line.get("damaged") for line in lines)

        try:
            self.hosts.until("every replica whole and in sync", mended, 30)
        except SystemExit:
            for line in self.hosts.status("b1")["partitions"]:
                if line["topic"] in two and not (line["leader"] and len(line["isr"]) == 2 and not line.get("damaged")):
                    self.round.faults.append(f"{line['topic']} does not heal: {line}")
        damaged, lost, possibly = (self.lines("b1", key) for key in ("damaged", "lost", "possibly_lost_from"))
        for struck in self.round.struck:
            topic = struck.topic
            shown = damaged[topic] if struck.case.alone is Alone.GAP else damaged[topic] or lost[topic] or possibly[topic]
            if struck.replicas == 1 and struck.case.alone is not Alone.ALL and not shown:
                self.round.faults.append(f"{topic}: status does not show what it has lost")
            if struck.replicas == 2 and lost[topic]:
                self.round.faults.append(f"{topic}: status shows a loss, {lost[topic]}, though nothing is lost")

    def compare(self):
        for struck in self.round.struck:
            if struck.replicas == 1:
                continue
            ours, theirs = (logs_digest(self.log_of(broker, struck)) for broker in ("b2", "b3"))
            if ours != theirs:
                self.round.faults.append(f"{struck.topic}: the logs are not the same again, {ours[1]} and {theirs[1]} bytes")

    def run(self):
        try:
            self.fill()
            self.stop()
            self.damage()
            self.come_back()
            self.read()
            self.until_mended()
            self.round.faults += self.hosts.stop()
            self.compare()
        except (SystemExit, Exception) as error:  # noqa: BLE001
            self.round.faults.append(f"{type(error).__name__}: {error}")
        finally:
            self.hosts.kill()


def of_table(case, replicas=2, waits=False):
    return Struck(case, replicas, SIZE_OF_TABLE, waits)


def others(listed):
    """Each with a second replica, and alone."""
    return [Struck(case, replicas, SIZE_OF_OTHERS) for case in listed for replicas in (2, 1)]


def rounds(options):
    by_name = {case.name: case for case in cases.RECORDS}
    payload, base, cut = (by_name[name] for name in ("payload", "base-offset", "cut-to-a-tenth"))
    chosen = cases.RECORDS + cases.BESIDE
    logs = others(chosen if options.all else [case for case in chosen if case.name in cases.CHOSEN])
    yield Round(
        "killed; the damaged one first",
        Stop.KILL,
        Order.DAMAGED,
        [of_table(base), of_table(payload), of_table(cut, waits=True), of_table(payload, 1), *logs],
    )
    yield Round("stopped; the damaged one first", Stop.CLEAN, Order.DAMAGED, [of_table(payload), of_table(payload, 1), *logs])
    yield Round("killed; both together", Stop.KILL, Order.TOGETHER, [of_table(cut)])
    if options.all:
        yield from directories()


def directories():
    untouched = Case("untouched", None)
    for name in cases.CHECKPOINTS:
        for how in cases.CHECKPOINT_DAMAGE:
            for stop in Stop:
                struck = [Struck(untouched, 2, SIZE_OF_OTHERS), Struck(untouched, 1, SIZE_OF_OTHERS)]

                def fault(directory, name=name, how=how):
                    how(f"{directory}/{name}")

                yield Round(f"{stop.name.lower()}; {name}: {how.__name__}", stop, Order.DAMAGED, struck, fault)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--highwater", required=True, help="the binary")
    parser.add_argument("--all", action="store_true", help="every kind, and the checkpoints of the whole directory, too: a cluster for each, half an hour")
    parser.add_argument("--only", default="", help="rounds and topics with this in their name")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="highwater-damage-")
    say(f"everything is in {directory}")
    failed, tried = [], 0
    for number, round in enumerate(rounds(options)):
        if options.only not in round.name:
            round.struck = [struck for struck in round.struck if options.only in struck.topic]
        if not round.struck:
            continue
        place = f"{directory}/{number}"
        os.mkdir(place)
        Trial(options, round, place).run()
        tried += len(round.struck)
        say(f"{round.name}: {len(round.struck)} logs, {len(round.faults)} faults")
        failed += [f"{round.name}: {fault}" for fault in round.faults]
        if not round.faults and not options.keep:
            shutil.rmtree(place)
    if failed:
        print(f"\nFAILED, {len(failed)} faults; everything is in {directory}", *failed[:100], sep="\n  ")
        return 1
    print(f"\n{tried} logs were damaged: what a second replica had is there, byte for byte, and what nobody had is shown.")
    if not options.keep:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
