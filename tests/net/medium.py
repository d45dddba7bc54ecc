"""Where a broker's data lies: a file system in memory that can fill up, or one that can lose its power."""

import os
import subprocess


class Room:
    """A tmpfs of a fixed size."""

    def __init__(self, path, megabytes):
        self.path = path
        os.makedirs(path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "highwater-net", path], check=True)

    def fill(self):
        """Until there is no byte left."""
        with open(f"{self.path}/filler", "wb", buffering=0) as filler:
            try:
                while filler.write(bytes(1 << 16)):
                    pass
            except OSError:
                return

    def empty(self):
        os.remove(f"{self.path}/filler")

    def close(self):
        subprocess.run(["umount", "-l", self.path], capture_output=True)


class PowerLoss:
    """What was not synced may be lost, torn or reordered when the power goes."""

    def __init__(self, soak, seed):
        self.process = subprocess.Popen([soak, "medium", str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.path = self.process.stdout.readline().strip()
        if not self.path:
            raise SystemExit(f"there is no such file system; highwater-soak ended with {self.process.wait()}")

    def lose_power(self):
        """Whoever runs on it has been killed before."""
        self.process.stdin.write("lose power\n")
        self.process.stdin.flush()
        lost = self.process.stdout.readline().strip()
        if not lost:
            raise SystemExit(f"the medium did not come back; highwater-soak ended with {self.process.wait()}")
        return lost

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)
