"""Hosts that can be cut off: a network namespace each, and a bridge in one more. Needs root; touches no network but its own.

Where nobody is cut off, `Loopback` does without."""

import os
import subprocess


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class Loopback:
    """`hosts` by name; each has an address of this machine's own, which no other run has at the same time."""

    def __init__(self, hosts):
        self.hosts = list(hosts)
        self.prefix = f"127.{64 + os.getpid() // 250 % 128}.{os.getpid() % 250 + 1}"

    def address(self, host):
        return f"{self.prefix}.{self.hosts.index(host) + 1}"

    def command(self, _host, *command):
        return list(command)


class Network:
    """`hosts` by name; each has the address `address(name)` and can talk to all others."""

    def __init__(self, hosts):
        self.hosts, self.made, self.cuts = list(hosts), [], set()
        self.prefix = f"hw{os.getpid()}"
        try:
            self.make("net")
            self.inside("net", "link", "add", "br0", "type", "bridge")
            self.inside("net", "link", "set", "br0", "up")
            for host in self.hosts:
                self.make(host)
                self.inside("net", "link", "add", f"to-{host}", "type", "veth", "peer", "name", "eth0", "netns", self.name(host))
                self.inside("net", "link", "set", f"to-{host}", "master", "br0", "up")
                self.inside(host, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
                self.inside(host, "link", "set", "lo", "up")
                self.inside(host, "link", "set", "eth0", "up")
        except subprocess.CalledProcessError as error:
            self.close()
            raise SystemExit(f"no network namespaces: {' '.join(error.cmd)}: {error.stderr.strip()}") from error

    def name(self, host):
        return f"{self.prefix}-{host}"

    def make(self, host):
        ip("netns", "add", self.name(host))
        self.made.append(host)

    def inside(self, host, *arguments):
        ip("-n", self.name(host), *arguments)

    def address(self, host):
        return f"10.99.0.{self.hosts.index(host) + 1}"

    def command(self, host, *command):
        """The command, as it is run on that host."""
        return ["nsenter", f"--net=/run/netns/{self.name(host)}", *command]

    def cut_off(self, host):
        """Nobody hears the host, and it hears nobody."""
        self.inside("net", "link", "set", f"to-{host}", "down")
        self.cuts.add((host,))

    def cut(self, host, other):
        """What the host sends to the other one is lost; the way back stays."""
        self.inside(host, "route", "add", "blackhole", f"{self.address(other)}/32")
        self.cuts.add((host, other))

    def heal(self):
        for cut in sorted(self.cuts):
            if len(cut) == 1:
                self.inside("net", "link", "set", f"to-{cut[0]}", "up")
            else:
                self.inside(cut[0], "route", "del", "blackhole", f"{self.address(cut[1])}/32")
        self.cuts.clear()

    def close(self):
        while self.made:
            subprocess.run(["ip", "netns", "delete", self.name(self.made.pop())], capture_output=True)
