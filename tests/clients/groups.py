"""A group of three real consumers reads what is written, while a member, its coordinator and all brokers are killed.

Each record has to be read by somebody; what a client was told to be committed stays committed, whoever coordinates; at the end nothing is
left to be read.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from chaos import java, say
from cluster import Cluster

HERE = os.path.dirname(os.path.abspath(__file__))
TOPIC, PARTITIONS, GROUP = "grouped", 6, "readers"
OFFSETS = "__consumer_offsets"


def partition_of(group, partitions):
    """Java's String.hashCode, without its sign."""
    hashed = 0
    for unit in group:
        hashed = (hashed * 31 + ord(unit)) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


class Member:
    def __init__(self, client, bootstrap, directory, number):
        self.client, self.path = client, f"{directory}/member-{number}-{client}"
        self.errors = open(f"{self.path}.err", "wb")
        if client == "java":
            command = java("GroupMember", bootstrap, TOPIC, GROUP, self.path)
        else:
            command = [sys.executable, f"{HERE}/group_member.py", bootstrap, TOPIC, GROUP, self.path]
        self.process = subprocess.Popen(command, stderr=self.errors)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Answers what is wrong with how it ended."""
        self.process.terminate()
        try:
            code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
            return [f"{self.path} did not end"]
        # Java says with 143 that a signal ended it.
        return [] if code in (0, 143) else [f"{self.path} ended with {code}; see {self.errors.name}"]

    def lines(self):
        if not os.path.exists(self.path):
            return
        with open(self.path) as noted:
            for line in noted:
                # The last one may have been cut off with its writer.
                if line.endswith("\n"):
                    yield line.rstrip("\n").split(" ", 3)

    def read(self):
        return {(int(line[1]), int(line[2])): line[3] for line in self.lines() if line[0] == "read"}

    def committed(self):
        """The furthest offset of each partition that it was told to be committed."""
        furthest = {}
        for line in self.lines():
            if line[0] == "committed":
                furthest[int(line[1])] = max(int(line[2]), furthest.get(int(line[1]), 0))
        return furthest


def furthest(members):
    all_of_them = {}
    for member in members:
        for partition, offset in member.committed().items():
            all_of_them[partition] = max(offset, all_of_them.get(partition, 0))
    return all_of_them


class Group:
    """What the group's coordinator says, by Kafka's own tool."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap

    def tool(self, *arguments):
        command = java("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--bootstrap-server", self.bootstrap, *arguments)
        for _ in range(10):
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if "Error:" not in done.stdout + done.stderr:
                return done.stdout
            time.sleep(1)
        raise SystemExit(f"{' '.join(command[-4:])}: {done.stdout}{done.stderr}")

    def offsets(self):
        """Committed and end offsets by partition."""
        found = {}
        for line in self.tool("--describe", "--group", GROUP).splitlines():
            words = line.split()
            if words[:2] == [GROUP, TOPIC] and words[3] != "-":
                found[int(words[2])] = (int(words[3]), int(words[4]))
        return found


def behind(told, offsets):
    """Commits that a client was told of and that the coordinator does not know."""
    return [
        f"{TOPIC}-{partition}: a client was told that {offset} is committed; the coordinator says {offsets.get(partition, (None,))[0]}"
        for partition, offset in sorted(told.items())
        if offsets.get(partition, (-1,))[0] < offset
    ]


def write(bootstrap, seconds, rate):
    """Writes numbered lines with kcat, in the background."""
    lines = int(seconds * rate)
    command = ["kcat", "-E", "-P", "-b", bootstrap, "-t", TOPIC, "-X", "acks=all", "-X", "enable.idempotence=true", "-X", "message.timeout.ms=600000"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)

    def feed():
        begun = time.monotonic()
        for number in range(lines):
            process.stdin.write(f"line {number}\n")
            time.sleep(max(0.0, number / rate - (time.monotonic() - begun)))
        process.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    return process, lines


def trial(options, directory):
    cluster = Cluster(options.highwater, f"{directory}/data", options.port, ["group.initial.rebalance.delay.ms=1000"], f"{directory}/highwater.log")
    cluster.start()
    members, faults, writer = [], [], None
    try:
        cluster.until("three brokers", lambda s: sum(b["alive"] for b in s["brokers"]) == 3, 30)
        cluster.ask("topics", "create", TOPIC, "--partitions", str(PARTITIONS), "--replication-factor", "3")
        group = Group(cluster.bootstrap)
        writer, lines = write(cluster.bootstrap, options.seconds, options.rate)
        for number, client in enumerate(("confluent", "java", "confluent")):
            members.append(Member(client, cluster.bootstrap, directory, number))
        time.sleep(options.seconds / 4)
        say("kill -9 of a member")
        members[0].kill()
        members.append(Member("confluent", cluster.bootstrap, directory, len(members)))
        time.sleep(options.seconds / 4)
        home = partition_of(GROUP, len([p for p in cluster.status()["partitions"] if p["topic"] == OFFSETS]))
        coordinator = next(
            p["leader"] for p in cluster.status()["partitions"] if p["topic"] == OFFSETS and p["partition"] == home
        )
        say(f"kill -9 of broker {coordinator}, the group's coordinator ({OFFSETS}-{home})")
        told = furthest(members)
        cluster.signal(coordinator, signal.SIGKILL)
        faults += behind(told, group.offsets())
        time.sleep(options.seconds / 4)
        say("kill -9 of all brokers and the supervisor at once")
        cluster.kill_everything()
        told = furthest(members)
        cluster.start()
        cluster.until_whole(TOPIC, PARTITIONS)
        faults += behind(told, group.offsets())
        if writer.wait(300) != 0:
            faults.append(f"kcat ended with {writer.returncode}")
        say("everything is written; the members read to the end")
        end = time.monotonic() + 120
        while time.monotonic() < end:
            offsets = group.offsets()
            if len(offsets) == PARTITIONS and all(committed == last for committed, last in offsets.values()):
                break
        else:
            faults.append(f"the group did not come to the end: {offsets}")
        for member in members[1:]:
            faults += member.stop()
        faults += behind(furthest(members), group.offsets())
        faults += judge(members, lines)
        listed = group.tool("--list").split()
        deleted = group.tool("--delete", "--group", GROUP)
        if listed != [GROUP] or "successful" not in deleted:
            faults.append(f"the group was listed as {listed} and deleted with {deleted!r}")
        if (code := cluster.stop()) != 0:
            faults.append(f"Ctrl-C: the supervisor ended with {code} instead of 0")
        return faults
    finally:
        for process in [member.process for member in members] + ([writer] if writer else []):
            if process.poll() is None:
                process.kill()
        cluster.stop()


def judge(members, lines):
    """Every line was read, by whomever, and each place in the topic has one line."""
    faults, places, times = [], {}, 0
    for member in members:
        for place, value in member.read().items():
            times += 1
            if places.setdefault(place, value) != value:
                faults.append(f"{member.path} read {value!r} at {place}, another member {places[place]!r}")
    missing = {f"line {number}" for number in range(lines)} - set(places.values())
    if missing:
        faults.append(f"{len(missing)} of {lines} lines were read by nobody, such as {min(missing)!r}")
    say(f"{lines} lines were read {times} times by {sum(1 for member in members if member.read())} members")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--highwater", required=True, help="the binary")
    parser.add_argument("--seconds", type=float, default=40, help="over which lines are written")
    parser.add_argument("--rate", type=float, default=1000, help="lines a second")
    parser.add_argument("--port", type=int, default=9592, help="of the first broker")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="highwater-groups-")
    faults = trial(options, directory)
    if faults:
        print(f"\nFAILED, {len(faults)} faults; everything is in {directory}", *faults[:50], sep="\n  ")
        return 1
    print("\nEverything was read, and what was committed stayed committed.")
    shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
