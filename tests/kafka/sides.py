"""The two sides: a Kafka with its own client, and a program over our engine. Each is ordered by lines of JSON and answers so."""

import glob
import json
import os
import shutil
import signal
import subprocess
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIBS = os.environ["KAFKA_LIBS"]
ORDER_SECONDS = 120
# These processes live for seconds: what makes them fast later costs more than it brings.
SHORT_LIFE = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# What belongs to a data directory rather than to one of its partitions, and goes along when directories are exchanged.
SMALL_FILES = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
)


class Refused(Exception):
    """An order was not carried out; the text says why."""


class Servant:
    """A process that takes orders. Ended by its id, also when the test fails."""

    def __init__(self, command, errors):
        self.errors = open(errors, "ab")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, encoding="utf-8"
        )

    def answer(self):
        # Nobody waits for ever for a process that hangs.
        alarm = threading.Timer(ORDER_SECONDS, self.process.kill)
        alarm.start()
        line = self.process.stdout.readline()
        alarm.cancel()
        if not line:
            raise SystemExit(f"{self.process.args[0]} ended with {self.process.wait()}; see {self.errors.name}")
        answer = json.loads(line)
        if "failed" in answer:
            raise Refused(answer["failed"])
        return answer

    def order(self, what, **parameters):
        self.process.stdin.write(json.dumps({"do": what, **parameters}) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Embedder(Servant):
    """Our engine over a data directory."""

    def __init__(self, binary, directory, settings, errors):
        super().__init__([binary, directory, json.dumps(settings)], errors)
        self.opened = self.answer()

    def close(self):
        self.process.stdin.close()
        answer = self.answer()
        if self.process.wait() != 0:
            raise SystemExit(f"a clean stop ended with {self.process.returncode}: {answer}")


def client(bootstrap, errors):
    """Kafka's own client, of whoever listens there."""
    logging = [f"-Dlog4j2.configurationFile={HERE}/log4j2.properties", "-Dkafka.log.level=ERROR"]
    classes = f"{os.environ['KAFKA_HAND']}:{LIBS}/*"
    return Servant(["java", "-Xmx256m", *SHORT_LIFE.split(), *logging, "-cp", classes, "Hand", bootstrap], errors)


class Highwater:
    """One broker of ours with its own controller, and Kafka's client."""

    def __init__(self, binary, directory, port):
        self.binary, self.directory, self.address = binary, directory, f"127.0.0.1:{port}"
        self.data = f"{directory}/1"
        self.log = open(f"{directory}.log", "ab")
        self.process = self.hand = None

    def start(self):
        command = [self.binary, "serve", "--listen", self.address, "--data", self.directory]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        end = time.monotonic() + ORDER_SECONDS
        while self.tool("status", "--bootstrap", self.address, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"highwater does not answer; see {self.log.name}")
            time.sleep(0.1)
        self.hand = client(self.address, self.log.name)

    def tool(self, *arguments, check=True):
        command = [self.binary, *arguments]
        return subprocess.run(command, check=check, capture_output=True, text=True, timeout=ORDER_SECONDS)

    def end(self):
        if self.hand:
            self.hand.kill()
            self.hand = None
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(ORDER_SECONDS)


class Kafka:
    """One broker on loopback, with its data directory, and its client."""

    def __init__(self, directory, port, settings):
        self.directory, self.settings = directory, settings
        self.environment = {**os.environ, "KAFKA_PORT": str(port), "KAFKA_HEAP": "400m"}
        self.data = f"{directory}/1/data"
        self.hand = None

    def tool(self, *arguments, check=True, options=""):
        return subprocess.run(
            [f"{HERE}/kafka", *arguments],
            env={**self.environment, **({"JAVA_TOOL_OPTIONS": options} if options else {})},
            check=check,
            capture_output=True,
            text=True,
            timeout=ORDER_SECONDS,
        )

    def start(self):
        started = self.tool("start", self.directory, "1", *self.settings, check=False, options=SHORT_LIFE)
        if started.returncode != 0:
            raise Refused(started.stderr)
        bootstrap = self.tool("bootstrap", self.directory).stdout.strip()
        self.hand = client(bootstrap, f"{self.directory}/hand.err")

    def end(self, how):
        """`stop` or `kill`, of the broker and of its client."""
        self.tool(how, self.directory)
        if self.hand:
            self.hand.kill()
            self.hand = None

    def order(self, what, **parameters):
        return self.hand.order(what, **parameters)

    def dump(self, *files):
        """What the dump tool says of files: its output, and what it complains of."""
        told = self.tool("dump-log", "--deep-iteration", "--print-data-log", "--files", ",".join(files), check=False)
        return told.stdout, told.stderr + ("" if told.returncode == 0 else f"exit code {told.returncode}")


def read_checkpoint(path):
    """The entries of an offset checkpoint, by partition, without our guard."""
    if not os.path.exists(path):
        return {}
    with open(path) as lines:
        entries = [line.split() for line in lines.read().splitlines()[2:]]
    return {f"{t}-{p}": int(offset) for t, p, offset in entries if t != "__highwater_guard"}


def write_checkpoint(path, entries):
    lines = ["0", str(len(entries))]
    lines += ["{} {} {}".format(*name.rsplit("-", 1), offset) for name, offset in entries.items()]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def carry_out(source, target, partitions):
    """Copies partitions out of a data directory that is at rest, into one of their own."""
    os.makedirs(target)
    for name in SMALL_FILES:
        if not os.path.exists(f"{source}/{name}"):
            continue
        if name.startswith("."):
            shutil.copy(f"{source}/{name}", target)
        else:
            entries = read_checkpoint(f"{source}/{name}")
            write_checkpoint(f"{target}/{name}", {p: o for p, o in entries.items() if p in partitions})
    for partition in partitions:
        shutil.copytree(f"{source}/{partition}", f"{target}/{partition}")


def put_in_place(source, target, partitions):
    """Puts partitions in the place that they have in another data directory that is at rest."""
    for partition in partitions:
        shutil.rmtree(f"{target}/{partition}")
        shutil.copytree(f"{source}/{partition}", f"{target}/{partition}")
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"):
        ours = read_checkpoint(f"{source}/{name}")
        entries = read_checkpoint(f"{target}/{name}")
        entries.update({p: ours[p] for p in partitions if p in ours})
        write_checkpoint(f"{target}/{name}", entries)


def files_of(partition, *suffixes):
    """A partition's files with these endings, by name."""
    return sorted(path for suffix in suffixes for path in glob.glob(f"{partition}/*{suffix}"))


def stop_on_signals():
    """A test that is told to end ends what it has started."""

    def stop(number, _frame):
        raise SystemExit(f"ended by signal {number}")

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGHUP, stop)
