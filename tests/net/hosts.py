"""Three brokers and a controller, each a process on a host of its own."""

import json
import os
import signal
import subprocess
import time

BROKERS = ("b1", "b2", "b3")
HOSTS = (*BROKERS, "controller", "client")
SETTINGS = {
    "insecure": "true",
    "replica.lag.time.max.ms": "2000",
    "broker.session.timeout.ms": "2000",
    "replica.fetch.backoff.ms": "200",
}


class Hosts:
    def __init__(self, binary, network, directory, data, settings=SETTINGS):
        self.binary, self.network, self.directory, self.data = binary, network, directory, data
        self.sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
        self.processes = {}
        self.addresses = {broker: f"{network.address(broker)}:9092" for broker in BROKERS}
        self.bootstrap = ",".join(self.addresses.values())

    def start(self, host):
        controller = f"{self.network.address('controller')}:9090"
        if host == "controller":
            command = ["controller", "--listen", controller, "--data", f"{self.directory}/controller", "--brokers", "3", *self.sets]
        else:
            listen = f"{self.network.address(host)}:9092"
            command = ["serve", "--id", host[1:], "--listen", listen, "--data", self.data[host], "--controller", controller, "--brokers", "3", *self.sets]
        with open(f"{self.directory}/{host}.log", "ab") as log:
            self.processes[host] = subprocess.Popen(
                self.network.command(host, self.binary, *command), stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def signal(self, host, which):
        self.processes[host].send_signal(which)
        if which == signal.SIGKILL:
            self.processes.pop(host).wait()

    def ended(self):
        """Processes that are not there although nobody ended them."""
        return [f"{host} ended with {process.poll()}" for host, process in self.processes.items() if process.poll() is not None]

    def ask(self, *arguments, bootstrap=None):
        command = self.network.command("client", self.binary, *arguments, "--bootstrap", bootstrap or self.bootstrap)
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout

    def status(self, broker):
        """As this broker knows it, which may be of before it was cut off."""
        return json.loads(self.ask("status", "--json", bootstrap=self.addresses[broker]))

    def until(self, what, holds, seconds, brokers=BROKERS):
        """Waits until the status of each of these brokers satisfies the condition; answers how long it took."""
        begun, last = time.monotonic(), None
        while time.monotonic() < begun + seconds:
            if ended := self.ended():
                raise SystemExit(f"{what}: {', '.join(ended)}; see {self.directory}")
            try:
                last = [self.status(broker) for broker in brokers]
                if all(map(holds, last)):
                    return time.monotonic() - begun
            except (subprocess.SubprocessError, ValueError) as error:
                last = getattr(error, "stderr", None) or error
            time.sleep(0.1)
        raise SystemExit(f"{what}: not within {seconds} s; last seen: {last}; see {self.directory}")

    def until_whole(self, topic, partitions):
        """Until each partition has a leader and all of its replicas in sync."""

        def whole(status):
            lines = [p for p in status["partitions"] if p["topic"] == topic]
            return len(lines) == partitions and all(
                p["leader"] is not None and sorted(p["isr"]) == sorted(p["replicas"]) for p in lines
            )

        return self.until("every replica in sync", whole, 120)

    def leader(self, topic):
        """The host that leads the topic's first partition."""
        lines = json.loads(self.ask("status", "--json"))["partitions"]
        return f"b{next(p['leader'] for p in lines if p['topic'] == topic and p['partition'] == 0)}"

    def until_out(self, broker):
        """Until the broker is out of the ISR of a partition, as another one knows it."""

        def out(status):
            return any(int(broker[1:]) not in p["isr"] for p in status["partitions"])

        other = next(other for other in BROKERS if other != broker)
        return self.until(f"{broker} leaves an ISR", out, 60, [other])

    def stop(self):
        """Everybody ends cleanly, the controller last. Answers what is wrong with that."""
        faults = []
        for host in (*BROKERS, "controller"):
            process = self.processes.pop(host, None)
            if process is None or process.poll() is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                if (code := process.wait(60)) != 0:
                    faults.append(f"{host} ended with {code} instead of 0")
            except subprocess.TimeoutExpired:
                faults.append(f"{host} did not stop within 60 s")
                process.kill()
        return faults

    def kill(self):
        for process in self.processes.values():
            if process.poll() is None:
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
                process.wait()
