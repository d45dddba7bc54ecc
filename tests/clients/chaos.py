"""Real clients write real text while brokers are killed and stopped; then every acknowledged line has to be there, once, in order.

With --bootstrap nothing is started or killed: the clients and the checks alone, against a cluster that is there (a Kafka, for example).
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

from cluster import Cluster
from judge import Input, Reading, logs_digest, real_text

HERE = os.path.dirname(os.path.abspath(__file__))
TOPIC, PARTITIONS = "chaos", 6
LAG_MS = 10_000
# A process that ends is seen by the supervisor; nobody waits for a session to time out.
FAIL_OVER_S = 2
# Which client, with which codec, and its share of the text.
WRITERS = [
    ("confluent", "none", 0.10),
    ("confluent", "gzip", 0.10),
    ("confluent", "snappy", 0.10),
    ("confluent", "lz4", 0.10),
    ("confluent", "zstd", 0.10),
    ("kcat", "lz4", 0.15),
    ("kcat", "zstd", 0.10),
    ("java", "none", 0.25),
]


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def java(main, *arguments):
    logging = f"-Dlog4j2.configurationFile={os.environ['JAVA_LOGGING']}"
    return ["java", "-Xmx512m", logging, "-Dkafka.log.level=ERROR", "-cp", os.environ["JAVA_CLASSES"], main, *arguments]


class Writer:
    """One producing client and its lines."""

    def __init__(self, client, codec, size_bytes, directory, text):
        self.client, self.codec = client, codec
        name = f"{client}-{codec}"
        self.input = Input(name, f"{directory}/{name}.txt", f"{directory}/{name}.acknowledged")
        self.size_bytes = self.input.write(text, size_bytes)
        self.errors = open(f"{directory}/{name}.err", "wb")
        self.process = None

    def start(self, bootstrap, seconds):
        rate, path, noted = str(self.size_bytes / seconds), self.input.path, self.input.acknowledged_path
        if self.client == "confluent":
            script = f"{HERE}/confluent_producing.py"
            command = [sys.executable, script, bootstrap, TOPIC, path, noted, rate, self.codec]
        elif self.client == "java":
            command = java("Producing", bootstrap, TOPIC, path, noted, rate)
        else:
            # -E: all brokers being down for a moment is what is tried here, and no reason to give up.
            command = ["kcat", "-E", "-P", "-b", bootstrap, "-t", TOPIC, "-z", self.codec, "-X", "acks=all"]
            command += ["-X", "enable.idempotence=true", "-X", "message.timeout.ms=600000"]
        stdin = subprocess.PIPE if self.client == "kcat" else subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=stdin, stderr=self.errors)
        if self.client == "kcat":
            threading.Thread(target=self.feed, args=(float(rate),), daemon=True).start()

    def feed(self, rate):
        """kcat reads what it is given; it is given so many bytes a second."""
        begun, sent = time.monotonic(), 0
        try:
            with open(self.input.path, "rb") as text, self.process.stdin as pipe:
                while piece := text.read(64 << 10):
                    pipe.write(piece)
                    sent += len(piece)
                    time.sleep(max(0.0, sent / rate - (time.monotonic() - begun)))
        except BrokenPipeError:
            pass  # It has ended; its exit code says how.

    def finish(self, seconds):
        """Waits for the end. Answers what is wrong with it, if anything."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f"{self.input.name} did not finish within {seconds} s"
        if self.client == "kcat" and code == 0:
            # kcat ends with 0 when every line was acknowledged, and says nothing of each.
            with open(self.input.acknowledged_path, "w") as noted:
                noted.writelines(f"{number}\n" for number in range(len(self.input.hashes)))
        return None if code == 0 else f"{self.input.name} ended with {code}; see {self.errors.name}"


def reader(client, bootstrap):
    if client == "java":
        return java("Consuming", bootstrap, TOPIC)
    if client == "confluent":
        return [sys.executable, f"{HERE}/confluent_consuming.py", bootstrap, TOPIC]
    return ["kcat", "-C", "-q", "-e", "-b", bootstrap, "-t", TOPIC, "-o", "beginning", "-X", "check.crcs=true", "-f", "%p %o %s\n"]


def read(client, bootstrap, writers, acknowledged):
    """Reads the whole topic with one client and judges it. Answers what is wrong."""
    reading = Reading([w.input for w in writers])
    with subprocess.Popen(reader(client, bootstrap), stdout=subprocess.PIPE, bufsize=1 << 20) as process:
        for line in process.stdout:
            reading.line(line[:-1])
    faults = reading.finish(acknowledged)
    if process.returncode != 0:
        faults.append(f"{client} could not read to the end (exit code {process.returncode})")
    say(f"  {client} read {reading.records} records: {'right' if not faults else f'{len(faults)} FAULTS'}")
    return [f"read by {client}: {fault}" for fault in faults]


def leader_of_first(status):
    return next(p["leader"] for p in status["partitions"] if p["topic"] == TOPIC and p["partition"] == 0)


def be_cruel(cluster):
    """Kills and stops, each time waiting until the cluster is whole again."""
    time.sleep(8)
    status = cluster.until_whole(TOPIC, PARTITIONS)
    first = leader_of_first(status)
    say(f"kill -9 of broker {first}, which leads {TOPIC}-0")
    cluster.signal(first, signal.SIGKILL)
    begun = time.monotonic()
    cluster.until("another leader", lambda s: leader_of_first(s) not in (None, first), FAIL_OVER_S)
    say(f"  another broker leads after {time.monotonic() - begun:.1f} s")
    time.sleep(5)
    second = leader_of_first(cluster.until_whole(TOPIC, PARTITIONS))
    say(f"all in sync again; kill -9 of broker {second}")
    cluster.signal(second, signal.SIGKILL)
    time.sleep(5)
    third = leader_of_first(cluster.until_whole(TOPIC, PARTITIONS))
    say(f"all in sync again; broker {third} is stopped for {LAG_MS / 1000 + 3:.0f} s (SIGSTOP)")
    pid = cluster.pid(third)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(LAG_MS / 1000 + 3)
    os.kill(pid, signal.SIGCONT)
    say("  it continues")
    cluster.until_whole(TOPIC, PARTITIONS)
    say("all in sync again; kill -9 of all brokers and the supervisor at once")
    cluster.kill_everything()
    cluster.start()
    cluster.until_whole(TOPIC, PARTITIONS)
    say("the command was given again; all in sync again")


def read_from_each(cluster, writers, acknowledged):
    """Each replica in turn as leader of everything; each time a librdkafka and the Java client read all."""
    faults = []
    for broker, clients in ((1, ("kcat", "java")), (2, ("confluent", "java")), (3, ("kcat", "java"))):
        for partition in range(PARTITIONS):
            cluster.ask("elect", TOPIC, str(partition), "--to", str(broker))
        cluster.until(
            f"broker {broker} leads everything",
            lambda s: all(p["leader"] == broker for p in s["partitions"] if p["topic"] == TOPIC),
            30,
        )
        say(f"broker {broker} leads everything")
        for client in clients:
            faults += [f"broker {broker}: {fault}" for fault in read(client, cluster.bootstrap, writers, acknowledged)]
    return faults


def compare_logs(data):
    faults = []
    for partition in range(PARTITIONS):
        logs = {broker: logs_digest(f"{data}/{broker}/{TOPIC}-{partition}") for broker in (1, 2, 3)}
        if len(set(logs.values())) != 1:
            sizes = ", ".join(f"broker {b}: {size} bytes {digest[:12]}" for b, (digest, size) in logs.items())
            faults.append(f"{TOPIC}-{partition} is not the same everywhere: {sizes}")
        elif logs[1][1] == 0:
            faults.append(f"{TOPIC}-{partition} is empty")
    return faults


def against_what_is_there(options, writers):
    for writer in writers:
        writer.start(options.bootstrap, options.seconds)
    faults = [fault for writer in writers if (fault := writer.finish(600))]
    acknowledged = {w.input.name: w.input.acknowledged() for w in writers}
    for client in ("kcat", "java", "confluent"):
        faults += read(client, options.bootstrap, writers, acknowledged)
    return faults, acknowledged


def with_our_own(options, directory, writers):
    settings = [f"replica.lag.time.max.ms={LAG_MS}"]
    cluster = Cluster(options.highwater, f"{directory}/data", options.port, settings, f"{directory}/highwater.log")
    cluster.start()
    try:
        cluster.until("three brokers", lambda s: sum(b["alive"] for b in s["brokers"]) == 3, 30)
        cluster.ask("topics", "create", TOPIC, "--partitions", str(PARTITIONS), "--replication-factor", "3")
        for writer in writers:
            writer.start(cluster.bootstrap, options.seconds)
        be_cruel(cluster)
        say("waiting for the producers")
        faults = [fault for writer in writers if (fault := writer.finish(900))]
        cluster.until_whole(TOPIC, PARTITIONS)
        acknowledged = {w.input.name: w.input.acknowledged() for w in writers}
        faults += read_from_each(cluster, writers, acknowledged)
        cluster.until_whole(TOPIC, PARTITIONS)
        if (code := cluster.stop()) != 0:
            faults.append(f"Ctrl-C: the supervisor ended with {code} instead of 0")
        faults += compare_logs(f"{directory}/data")
        return faults, acknowledged
    finally:
        for writer in writers:
            if writer.process and writer.process.poll() is None:
                writer.process.kill()
        cluster.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--highwater", help="the binary")
    parser.add_argument("--megabytes", type=float, default=200, help="of text, in total")
    parser.add_argument("--seconds", type=float, default=75, help="over which it is written")
    parser.add_argument("--port", type=int, default=9492, help="of the first broker")
    parser.add_argument("--bootstrap", help="use this cluster; start and kill nothing; its topic 'chaos' has to be there, empty")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="highwater-clients-")
    text = real_text()
    size = options.megabytes * 1e6
    writers = [Writer(client, codec, size * share, directory, text) for client, codec, share in WRITERS]
    lines = sum(len(w.input.hashes) for w in writers)
    say(f"{sum(w.size_bytes for w in writers) / 1e6:.0f} MB in {lines} lines, {len(writers)} producers, in {directory}")
    if options.bootstrap:
        faults, acknowledged = against_what_is_there(options, writers)
    else:
        faults, acknowledged = with_our_own(options, directory, writers)
    print()
    for writer in writers:
        print(f"  {writer.input.name:<18} {len(writer.input.hashes):>9} lines sent {len(acknowledged[writer.input.name]):>9} acknowledged")
    # What is refused proves nothing; with retries=3 a few are while nobody leads.
    faults += [
        f"{w.input.name}: less than 90 % was acknowledged"
        for w in writers
        if len(acknowledged[w.input.name]) < 0.9 * len(w.input.hashes)
    ]
    if faults:
        print(f"\nFAILED, {len(faults)} faults; everything is in {directory}", *faults[:50], sep="\n  ")
        return 1
    print("\nEvery acknowledged line is there, once and in order.")
    if not options.keep:
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
