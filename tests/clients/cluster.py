"""Three brokers and their supervisor, as a person starts and treats them. Uses the `highwater` binary only."""

import json
import os
import signal
import subprocess
import time


class Cluster:
    def __init__(self, binary, data, port, settings, log):
        self.binary, self.data, self.port, self.settings = binary, data, port, settings
        self.log = open(log, "ab")
        self.bootstrap = ",".join(f"127.0.0.1:{port + i}" for i in range(3))
        self.process = None

    def start(self):
        sets = [part for pair in self.settings for part in ("--set", pair)]
        command = [self.binary, "--data", self.data, "--port", str(self.port), *sets]
        # A group of its own: a Ctrl-C meant for the test is passed on in order, by stop().
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True)

    def ask(self, *arguments, timeout=90):
        command = [self.binary, *arguments, "--bootstrap", self.bootstrap]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=timeout).stdout

    def status(self):
        return json.loads(self.ask("status", "--json"))

    def until(self, what, holds, seconds):
        """Waits until the status satisfies the condition; answers it."""
        end, last = time.monotonic() + seconds, None
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise SystemExit(f"the supervisor ended with {self.process.returncode}; see {self.log.name}")
            try:
                last = self.status()
                if holds(last):
                    return last
            except (subprocess.SubprocessError, ValueError) as error:
                last = getattr(error, "stderr", None) or error
            time.sleep(0.2)
        raise SystemExit(f"{what}: not within {seconds} s; last seen: {last}")

    def until_whole(self, topic, partitions, seconds=120):
        """Waits until each partition has a leader and all of its replicas in sync."""

        def whole(status):
            lines = [p for p in status["partitions"] if p["topic"] == topic]
            return len(lines) == partitions and all(
                p["leader"] is not None and sorted(p["isr"]) == sorted(p["replicas"]) for p in lines
            )

        return self.until("every replica in sync", whole, seconds)

    def pid(self, broker):
        return next(b["pid"] for b in self.status()["brokers"] if b["id"] == broker)

    def signal(self, broker, which):
        os.kill(self.pid(broker), which)

    def kill_everything(self):
        """kill -9 of the supervisor and all brokers at one moment."""
        pids = [self.process.pid, *(b["pid"] for b in self.status()["brokers"] if b["alive"])]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Ctrl-C. Answers the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGINT)
                self.process.wait(60)
        return self.process.returncode
