"""Everything that can happen between and to hosts, one thing after the other, while idempotent clients write with acks=all; then every
acknowledged record has to be there, once and in order, on every replica.

With --canary the opposite: all hosts lose their power at once, under a topic that counts what is only written. Then acknowledged records are
gone, and the run fails unless its judge misses them and `status` shows the loss."""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = f"{HERE}/../clients"
sys.path.insert(0, CLIENTS)

from hosts import BROKERS, HOSTS, Hosts  # noqa: E402
from judge import Input, Reading, logs_digest, real_text  # noqa: E402
from medium import PowerLoss, Room  # noqa: E402
from network import Network  # noqa: E402

PARTITIONS = 6
# How long a fault lasts: longer than a session and the lag time.
FAULT_S = 4
# Each topic and its durability: what only `fsync` survives is tried on a topic of that kind.
TOPICS = {"written": "written", "synced": "fsync"}
# One producer for each, on each topic.
CODECS = ("none", "lz4")
BYTES_A_SECOND = 200_000
ROOM_MEGABYTES = 512
# A power loss may happen to take nothing; with this seed it takes something from each of three media.
CANARY_SEED = 2021040449


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


class Writer:
    """One producing client and its lines."""

    def __init__(self, topic, number, seconds, directory, text):
        self.topic, self.codec, name = topic, CODECS[number], f"{topic}-{number}"
        self.input = Input(name, f"{directory}/{name}.txt", f"{directory}/{name}.acknowledged")
        self.input.write(text, BYTES_A_SECOND * seconds)
        self.process = None

    def start(self, hosts):
        script = f"{CLIENTS}/confluent_producing.py"
        rate, codec = str(BYTES_A_SECOND), self.codec
        command = [sys.executable, "-B", script, hosts.bootstrap, self.topic, self.input.path, self.input.acknowledged_path, rate, codec]
        with open(f"{self.input.path}.err", "wb") as errors:
            self.process = subprocess.Popen(hosts.network.command("client", *command), stderr=errors, stdin=subprocess.DEVNULL)

    def finish(self, seconds):
        """Waits for the end. Answers what is wrong with it, if anything."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f"{self.input.name} did not finish within {seconds} s"
        return None if code == 0 else f"{self.input.name} ended with {code}; see {self.input.path}.err"


class Trial:
    def __init__(self, options, directory, rng):
        self.rng = rng
        self.network = Network(HOSTS)
        self.rooms = {}
        try:
            # One broker's disk can fill up; the others' can lose their power, and so can its own: it is in memory.
            if not options.canary:
                self.rooms["b1"] = Room(f"{directory}/room", ROOM_MEGABYTES)
            for broker in BROKERS:
                if broker not in self.rooms:
                    self.rooms[broker] = PowerLoss(options.soak, rng.randrange(1 << 32))
        except BaseException:
            self.close()
            raise
        data = {broker: f"{room.path}/data" for broker, room in self.rooms.items()}
        self.hosts = Hosts(options.highwater, self.network, directory, data)
        self.told = []

    def close(self):
        for room in self.rooms.values():
            room.close()
        self.network.close()

    # Each fault lasts a while and is taken back; the name is for people.

    def one_cut_off(self):
        host = self.rng.choice([*BROKERS, "controller"])
        return self.cut(f"{host} is cut off from everybody", lambda: self.network.cut_off(host))

    def leader_and_follower(self):
        leader = self.hosts.leader("written")
        follower = self.rng.choice([broker for broker in BROKERS if broker != leader])

        def both():
            self.network.cut(leader, follower)
            self.network.cut(follower, leader)

        return self.cut(f"{leader}, which leads, and {follower} are cut from each other", both)

    def one_way(self):
        leader = self.hosts.leader("written")
        follower = self.rng.choice([broker for broker in BROKERS if broker != leader])
        sender, other = self.rng.sample([leader, follower], 2)
        return self.cut(f"what {sender} sends to {other} is lost ({leader} leads)", lambda: self.network.cut(sender, other))

    def cut(self, what, do):
        say(what)
        do()
        time.sleep(FAULT_S)
        self.network.heal()
        return what

    def stopped(self):
        host = self.rng.choice([*BROKERS, "controller"])
        what = f"{host} is stopped (SIGSTOP)"
        say(what)
        self.hosts.signal(host, signal.SIGSTOP)
        time.sleep(FAULT_S)
        self.hosts.signal(host, signal.SIGCONT)
        return what

    def full(self):
        what = "the disk of b1 is full"
        say(what)
        self.rooms["b1"].fill()
        # The room that was reserved ahead is used up first.
        self.hosts.until_out("b1")
        self.rooms["b1"].empty()
        return what

    def killed(self):
        host = self.rng.choice([*BROKERS, "controller"])
        times = self.rng.randrange(2, 6)
        what = f"{host} is killed {times} times (SIGKILL)"
        say(what)
        for _ in range(times):
            self.hosts.signal(host, signal.SIGKILL)
            self.hosts.start(host)
            time.sleep(self.rng.uniform(0.05, 1.5))
        return what

    def one_without_power(self):
        host = self.rng.choice(["b2", "b3"])
        what = f"{host} loses its power"
        say(what)
        self.hosts.signal(host, signal.SIGKILL)
        lost = self.rooms[host].lose_power()
        time.sleep(self.rng.uniform(0, 1))
        self.hosts.start(host)
        return f"{what}: {lost}"

    def all_without_power(self):
        """For topics that count what is synced. The first broker's disk is in memory: killed, it keeps all."""
        what = "all brokers lose their power"
        say(what)
        for broker in BROKERS:
            self.hosts.signal(broker, signal.SIGKILL)
        lost = [room.lose_power() for room in self.rooms.values() if isinstance(room, PowerLoss)]
        for broker in self.rng.sample(BROKERS, len(BROKERS)):
            self.hosts.start(broker)
        return f"{what}: {'; '.join(lost)}"

    def faults(self):
        return [
            self.one_cut_off,
            self.leader_and_follower,
            self.one_way,
            self.stopped,
            self.full,
            self.killed,
            self.one_without_power,
        ]

    def suffer(self, seconds):
        """One fault after the other, each kind before one comes again, until the time is over."""
        end, waiting = time.monotonic() + seconds, []
        while time.monotonic() < end:
            if not waiting:
                waiting = self.faults()
                self.rng.shuffle(waiting)
            what = waiting.pop()()
            whole = max(self.hosts.until_whole(topic, PARTITIONS) for topic in TOPICS)
            self.told.append(f"{what}; all in sync again after {whole:.1f} s")
        return len(self.faults()) <= len(self.told)


def read(hosts, topic, writers):
    """Reads a topic from its beginning and judges it. Answers what is wrong."""
    reading = Reading([writer.input for writer in writers])
    command = [sys.executable, "-B", f"{CLIENTS}/confluent_consuming.py", hosts.bootstrap, topic]
    with subprocess.Popen(hosts.network.command("client", *command), stdout=subprocess.PIPE, bufsize=1 << 20) as process:
        for line in process.stdout:
            reading.line(line[:-1])
    faults = reading.finish({writer.input.name: writer.input.acknowledged() for writer in writers})
    if process.returncode != 0:
        faults.append(f"{topic} could not be read to its end (exit code {process.returncode})")
    return [f"{topic}: {fault}" for fault in faults]


def compare_logs(rooms, topics):
    faults = []
    for topic in topics:
        for partition in range(PARTITIONS):
            logs = {broker: logs_digest(f"{room.path}/data/{topic}-{partition}") for broker, room in rooms.items()}
            if len(set(logs.values())) != 1:
                shown = ", ".join(f"{broker}: {size} bytes {digest[:12]}" for broker, (digest, size) in logs.items())
                faults.append(f"{topic}-{partition} is not the same everywhere: {shown}")
            elif logs["b1"][1] == 0:
                faults.append(f"{topic}-{partition} is empty")
    return faults


def begin(hosts, writers):
    """A cluster with its topics, and clients that write."""
    for host in ("controller", *BROKERS):
        hosts.start(host)
    hosts.until("three brokers", lambda status: sum(broker["alive"] for broker in status["brokers"]) == 3, 60)
    for topic, durability in TOPICS.items():
        size = ["--partitions", str(PARTITIONS), "--replication-factor", "3"]
        hosts.ask("topics", "create", topic, *size, "--config", f"durability={durability}")
    for writer in writers:
        writer.start(hosts)


def lose(trial, writers):
    """What only `fsync` survives, under a topic that does not ask for it. Answers what is wrong: that nothing was missed."""
    hosts = trial.hosts
    begin(hosts, writers)
    faults = [fault for writer in writers if (fault := writer.finish(300))]
    trial.told.append(trial.all_without_power())
    hosts.until_whole("written", PARTITIONS)
    judged = read(hosts, "written", writers)
    shown = [line for line in hosts.status("b1")["partitions"] if line.get("lost") or line.get("possibly_lost_from")]
    trial.told += judged + [f"status: {line['topic']}-{line['partition']}: {line.get('lost')}" for line in shown]
    if not any("LOST" in fault for fault in judged):
        faults.append("records that were acknowledged are gone, and the judge has missed none")
    if not shown:
        faults.append("records that were acknowledged are gone, and status does not show it")
    return faults + hosts.stop()


def carry_out(trial, writers, seconds):
    """Answers what is wrong."""
    hosts = trial.hosts
    begin(hosts, writers)
    faults = [] if trial.suffer(seconds) else ["the time was over before each kind of fault had come"]
    for writer in writers:
        if writer.topic == "written" and (fault := writer.finish(300)):
            faults.append(fault)
    written = [writer for writer in writers if writer.topic == "written"]
    synced = [writer for writer in writers if writer.topic == "synced"]
    faults += read(hosts, "written", written)
    trial.told.append(trial.all_without_power())
    trial.told[-1] += f"; all in sync again after {hosts.until_whole('synced', PARTITIONS):.1f} s"
    faults += [fault for writer in synced if (fault := writer.finish(300))]
    faults += read(hosts, "synced", synced)
    for topic in TOPICS:
        hosts.until_whole(topic, PARTITIONS)
    faults += hosts.stop()
    return faults + compare_logs(trial.rooms, TOPICS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--highwater", required=True, help="the binary")
    parser.add_argument("--soak", required=True, help="highwater-soak, which has the file system that loses its power")
    parser.add_argument("--seconds", type=float, default=60, help="how long hosts suffer, at least")
    parser.add_argument("--seed", type=int, help="chooses what happens to whom, in which order; not when the kernel does what")
    parser.add_argument("--canary", action="store_true", help="lose acknowledged records, which has to be noticed")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else CANARY_SEED if options.canary else random.randrange(1 << 32)
    directory = tempfile.mkdtemp(prefix="highwater-net-")
    say(f"seed {seed}; everything is in {directory}")
    text = real_text()
    # Shorter than it takes until a log is synced in the background.
    topics, writing = (["written"], 8) if options.canary else (TOPICS, options.seconds * 1.5)
    writers = [Writer(topic, number, writing, directory, text) for topic in topics for number in range(len(CODECS))]
    trial = Trial(options, directory, random.Random(seed))
    try:
        faults = lose(trial, writers) if options.canary else carry_out(trial, writers, options.seconds)
    finally:
        for writer in writers:
            if writer.process and writer.process.poll() is None:
                writer.process.kill()
        trial.hosts.kill()
        trial.close()
    print(f"\n{len(trial.told)} times something happened, with seed {seed}:", *trial.told, sep="\n  ")
    for writer in writers:
        sent, acknowledged = len(writer.input.hashes), len(writer.input.acknowledged())
        print(f"  {writer.input.name:<12} {sent:>8} records sent {acknowledged:>8} acknowledged")
    if faults:
        print(f"\nFAILED with seed {seed}, {len(faults)} faults; everything is in {directory}", *faults[:50], sep="\n  ")
        return 1
    if options.canary:
        print("\nAcknowledged records were lost, the judge has missed them, and status shows it.")
    else:
        print("\nEvery acknowledged record is there, once and in order, on every replica.")
    if not options.keep:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
