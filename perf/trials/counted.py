"""System calls on the files of a directory, as strace counts them, beside what tests/faults counted."""
import collections, re

# How often these happen depends on time: rank 0 looks once a second.
BY_THE_CLOCK = {("access", "STOP"), ("faccessat2", "STOP")}


def calls_of_strace(trace, directory):
    """Lines of `strace -f -y -s 0`: {(name as tests/faults has it, last component of the file): how often}."""
    found, begun = collections.Counter(), {}
    with open(trace, encoding="utf-8", errors="replace") as file:
        for line in file:
            process, call = line.rstrip("\n").split(None, 1)
            if call.endswith("<unfinished ...>"):
                begun[process] = call.removesuffix("<unfinished ...>")
                continue
            if resumed := re.match(r"<\.\.\. \w+ resumed>", call):
                call = begun.pop(process, "") + call[resumed.end():]
            parts = re.match(r"(\w+)\((.*)\)\s+= ", call)
            if parts and (name := name_of(parts[1], parts[2])) and directory in parts[2]:
                found[name, file_of(parts[2], directory)] += 1
    return found


def name_of(name, arguments):
    """The call's name as tests/faults has it; None for a call that it does not count."""
    if name in ("execve", "getcwd", "rt_sigprocmask", "ioctl") or (name == "fcntl" and "SETLK" not in arguments):
        return None
    return "open+create" if name in ("open", "openat") and "O_CREAT" in arguments else name


def file_of(arguments, directory):
    """The last component of the first file that counts."""
    arguments = re.sub(r"AT_FDCWD<[^>]*>", "", arguments)
    at = re.match(r'\d+<([^>]*)>, "([^"/]+)"', arguments)
    paths = [f"{at[1]}/{at[2]}"] if at else [p.removesuffix(" (deleted)") for p in re.findall(r'["<](/[^">]*)', arguments)]
    path = next(p for p in paths if directory in p)
    return "." if path == directory else without_chance(path)


def without_chance(path):
    name = path.rstrip("/").rsplit("/", 1)[-1]
    return re.sub(r"(events\.out\.tfevents\.).*", r"\1", re.sub(r"(?<=\.)\d+(?=$|\.tmp)|(?<=\.)PID", "", name))


def calls_of_library(log):
    """{(name of the call, last component of the file): how often}, from the log of tests/faults."""
    with open(log, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return collections.Counter((call, without_chance(path)) for call, _, path in lines)


def differences(strace, library):
    return [f"{call} of {file}: {strace[call, file]} by strace, {library[call, file]} by the library"
            for call, file in sorted(set(strace) | set(library))
            if strace[call, file] != library[call, file] and (call, file) not in BY_THE_CLOCK]
