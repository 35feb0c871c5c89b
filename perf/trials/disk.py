"""What a disk may hold after a power cut: system calls of a run, as strace saw them, and the directories that they allow.

A byte that was written is on the disk for certain once its file was fsynced; an entry that was made, renamed or removed, once its
directory was. Before that it may be there or not: of a file's writes any part, or a file of the right size with zeros in it; of a
directory's changes the first few, or (`strict`) any that do not need one that is missing. A rename is there or not, never half. sync_file_range
begins to write and promises nothing, so it changes none of this."""
import os, re

CALLS = ("openat,open,creat,write,pwrite64,writev,pwritev,pwritev2,copy_file_range,sendfile,fallocate,fsync,fdatasync,ftruncate,"
         "truncate,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir")
KNOWN = re.compile(r"(\w+)\((.*)\)\s+= (\d+)(?:<([^>]*)>)?", re.S)


class Node:
    """A file (`whole` is its content) or a directory (`whole` is {name: node or the text of a symbolic link})."""

    def __init__(self, kind):
        self.kind = kind
        self.whole = bytearray() if kind == "file" else {}
        self.durable = b"" if kind == "file" else {}
        # For a file (offset, bytes), or (size, None); for a directory {name: node, text or None}.
        self.pending = []

    def sync(self):
        self.durable = bytes(self.whole) if self.kind == "file" else dict(self.whole)
        self.pending = []

    def write(self, offset, data):
        apply_write(self.whole, offset, data)
        self.pending.append((offset, data))

    def change(self, entries):
        apply_entries(self.whole, entries)
        self.pending.append(entries)


def apply_write(content, offset, data):
    if data is None:
        del content[offset:]
    end = offset if data is None else offset + len(data)
    content.extend(bytes(max(0, end - len(content))))
    if data is not None:
        content[offset:end] = data


def apply_entries(directory, entries):
    for name, node in entries.items():
        if node is None:
            directory.pop(name, None)
        else:
            directory[name] = node


def unhex(text):
    return bytes.fromhex(text.replace("\\x", ""))


class Disk:
    """The directory `root`, which exists and is empty, and what happens below it."""

    def __init__(self, root, ignore_syncs=()):
        """`ignore_syncs` are kinds of nodes for which an fsync does nothing."""
        self.root, self.top, self.ignore = os.fsencode(root), Node("directory"), ignore_syncs
        self.offsets = {}  # positions for write(), by (process, descriptor)

    # The methods below deal with paths.

    def below(self, path):
        path = os.path.normpath(path)
        if path == self.root:
            return []
        return path[len(self.root) + 1:].split(b"/") if path.startswith(self.root + b"/") else None

    def find(self, parts):
        node = self.top
        for name in parts:
            node = node.whole.get(name) if isinstance(node, Node) and node.kind == "directory" else None
            if node is None:
                return None
        return node

    def path(self, argument, base=None):
        if base and (at := re.match(r"(?:AT_FDCWD|\d+)<(.*)>$", base)):
            return os.path.join(unhex(at[1]), unhex(argument.strip('"')))
        return os.path.join(self.cwd, unhex(argument.strip('"')))

    def entry(self, path):
        """(directory, name) of a path below the root, else None."""
        parts = self.below(path)
        return (self.find(parts[:-1]), parts[-1]) if parts else None

    # The methods below replay calls. Each returns what the call was, to choose where to cut the power, or
    # None when the call does not matter here.

    def call(self, process, line, cwd):
        self.cwd = os.fsencode(cwd)
        found = KNOWN.match(line)
        if not found:
            return None  # it failed, or is a signal or an exit
        name, arguments, result = found[1], found[2].split(", "), int(found[3])
        if name in ("openat", "open", "creat"):
            return self.open(process, name, arguments, result, found[4])
        if name in ("write", "writev", "pwrite64", "ftruncate", "fsync", "fdatasync"):
            return self.on_descriptor(process, name, arguments, result)
        if name in ("pwritev", "pwritev2", "copy_file_range", "sendfile", "fallocate"):
            if any(self.below(unhex(x)) for x in re.findall(r"<([^>]*)>", found[2]) if x.startswith("\\x")):
                raise SystemExit(f"checkpoints.py power: {name} is not modelled")
            return None
        return self.on_names(name, arguments)

    def open(self, process, name, arguments, result, opened):
        at = 1 if name == "openat" else 0
        flags = arguments[at + 1] if len(arguments) > at + 1 and name != "creat" else "O_CREAT|O_TRUNC"
        place = self.entry(unhex(opened))
        self.offsets.pop((process, result), None)
        if not place or place[0] is None:
            return None
        directory, entry = place
        node, seen = directory.whole.get(entry), None
        if node is None and "O_CREAT" in flags:
            node = Node("file")
            directory.change({entry: node})
            seen = "create"
        elif isinstance(node, Node) and node.kind == "file" and "O_TRUNC" in flags and node.whole:
            node.write(0, None)
            seen = "truncate"
        self.offsets[process, result] = [0, "O_APPEND" in flags]
        return seen

    def on_descriptor(self, process, name, arguments, result):
        found = re.match(r"(\d+)<(.*)>$", arguments[0])
        parts = self.below(unhex(found[2])) if found and found[2].startswith("\\x2f") else None
        node = self.find(parts) if parts is not None else None
        if node is None:
            return None
        if name in ("fsync", "fdatasync"):
            if node.kind not in self.ignore:
                node.sync()
            return "fsync"
        if name == "ftruncate":
            node.write(int(arguments[1]), None)
            return "truncate"
        data = b"".join(unhex(text) for a in arguments for text in re.findall('"(.*)"', a))[:result]
        if name == "pwrite64":
            node.write(int(arguments[-1]), data)
            return "write"
        place = self.offsets.setdefault((process, int(found[1])), [0, True])
        offset = len(node.whole) if place[1] else place[0]
        node.write(offset, data)
        place[0] = offset + len(data)
        return "write"

    def on_names(self, name, arguments):
        if name in ("rename", "renameat", "renameat2"):
            two = arguments if name == "rename" else None
            old = self.entry(self.path(two[0]) if two else self.path(arguments[1], arguments[0]))
            new = self.entry(self.path(two[1]) if two else self.path(arguments[3], arguments[2]))
            return self.rename(old, new, len(arguments) > 4 and "RENAME_EXCHANGE" in arguments[4])
        if name in ("symlink", "symlinkat"):
            place = self.entry(self.path(arguments[-1], arguments[1] if name == "symlinkat" else None))
            node = unhex(arguments[0].strip('"'))
        elif name in ("unlink", "rmdir", "unlinkat"):
            place = self.entry(self.path(arguments[1], arguments[0]) if name == "unlinkat" else self.path(arguments[0]))
            node = None
        elif name in ("mkdir", "mkdirat"):
            place = self.entry(self.path(arguments[1], arguments[0]) if name == "mkdirat" else self.path(arguments[0]))
            node = Node("directory")
        else:
            raise SystemExit(f"checkpoints.py power: {name} is not modelled")
        if not place or place[0] is None:
            return None
        place[0].change({place[1]: node})
        return "remove" if node is None else "create"

    def rename(self, old, new, exchange):
        if old is None and new is None:
            return None
        if old is None or new is None or old[0] is not new[0]:
            raise SystemExit("checkpoints.py power: a rename between directories is not modelled")
        directory, was, becomes = old[0], old[1], new[1]
        other = directory.whole.get(becomes) if exchange else None
        directory.change({was: other, becomes: directory.whole[was]})
        return "rename"

    # The methods below say what may be there after a cut.

    def state(self, entries_of, content_of):
        """{path: bytes of a file, text of a link, or None for a directory}; both choose for a node with unsynced changes."""
        tree = {}

        def walk(node, path):
            for name, child in sorted((entries_of(node) if node.pending else node.durable).items()):
                at = path + b"/" + name if path else name
                if not isinstance(child, Node):
                    tree[at] = child.decode()
                elif child.kind == "directory":
                    tree[at] = None
                    walk(child, at)
                else:
                    tree[at] = content_of(child) if child.pending else child.durable
        walk(self.top, b"")
        return tree


def entries_after(node, pending):
    directory = dict(node.durable)
    for entries in pending:
        apply_entries(directory, entries)
    return directory


def any_entries(node, rng, strict):
    """Chooses which of a directory's changes are there: the first few; with strict any of them, but none of a name whose earlier change is missing."""
    if not strict:
        return entries_after(node, node.pending[:rng.randint(0, len(node.pending))])
    kept, missing = [], set()
    for entries in node.pending:
        if missing.isdisjoint(entries) and rng.random() < 0.6:
            kept.append(entries)
        else:
            missing.update(entries)
    return entries_after(node, kept)


def content_after(node, pending):
    content = bytearray(node.durable)
    for offset, data in pending:
        apply_write(content, offset, data)
    return bytes(content)


def any_content(node, rng):
    choice = rng.choice(("none", "all", "first", "some", "half", "zeros"))
    whole = content_after(node, node.pending)
    if choice == "none":
        return bytes(node.durable)
    if choice == "all":
        return whole
    if choice == "first":
        return content_after(node, node.pending[:rng.randint(0, len(node.pending))])
    if choice == "some":
        return content_after(node, [p for p in node.pending if rng.random() < 0.5])
    if choice == "half":
        return whole[:len(whole) // 2]
    return bytes(node.durable)[:len(whole)].ljust(len(whole), b"\0")
