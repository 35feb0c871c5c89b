"""What happens in a directory of checkpoints, as it happens (inotify)."""
import ctypes, os, re, select, struct, time

CLOSE_WRITE, MOVED_TO, CREATE, DELETE, IS_DIRECTORY = 0x8, 0x80, 0x100, 0x200, 0x40000000

# The moments of a save, by the events that show them.
MOMENTS = {
    "begun": (CREATE, r"step-\d+\.tmp"), "shard opened": (CREATE, r"shard-.*"), "shard written": (CLOSE_WRITE, r"shard-.*"),
    "descriptions opened": (CREATE, r"slices\.jsonl"), "index opened": (CREATE, r"index\.h5"), "manifest opened": (CREATE, r"manifest\.json"),
    "manifest written": (CLOSE_WRITE, r"manifest\.json"), "renamed": (MOVED_TO, r"step-\d+"), "link made": (CREATE, r"latest\.tmp"),
    "link moved": (MOVED_TO, r"latest"), "old one hidden": (MOVED_TO, r"step-\d+\.removed\.tmp"), "old one removed": (DELETE, r"shard-.*"),
}


class Watch:
    def __init__(self, directory):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fd = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.paths = {}
        self.add(directory)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def add(self, directory):
        number = self.libc.inotify_add_watch(self.fd, os.fsencode(directory), CLOSE_WRITE | MOVED_TO | CREATE | DELETE)
        if number >= 0:  # otherwise it has gone already
            self.paths[number] = directory

    def moments(self, seconds):
        """Names of MOMENTS that were seen, in order; waits that long for the first."""
        seen = []
        if not select.select([self.fd], [], [], seconds)[0]:
            return seen
        data = os.read(self.fd, 1 << 16)
        while data:
            number, mask, _, length = struct.unpack_from("iIII", data)
            name, data = data[16:16 + length].rstrip(b"\0").decode(), data[16 + length:]
            if mask & CREATE and mask & IS_DIRECTORY and number in self.paths:
                self.add(os.path.join(self.paths[number], name))
            seen += [(moment, name) for moment, (kind, pattern) in MOMENTS.items() if mask & kind and re.fullmatch(pattern, name)]
        return seen

    def wait_for(self, moment, times, alive):
        """Waits until the moment was seen that many times; False when the run ended before."""
        while times > 0:
            seen = self.moments(0.02)
            times -= sum(name == moment for name, _ in seen)
            if not seen and not alive():
                return False
        return True


def wait_until(condition, alive):
    while not condition():
        if not alive():
            return False
        time.sleep(0.001)
    return True
