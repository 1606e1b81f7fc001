"""pyoxigraph's in-memory store behind the bench's line protocol (see ../README.md)."""

import os
import signal
import sys
import time

from pyoxigraph import QueryBoolean, RdfFormat, Store


def run(store, text):
    """The rows of one execution and its nanoseconds, every row iterated."""
    start = time.perf_counter_ns()
    result = store.query(text)
    rows = 1 if isinstance(result, QueryBoolean) else sum(1 for _ in result)
    return rows, time.perf_counter_ns() - start


def first_run(store, text, limit_ms):
    """A run that may take too long happens in a forked copy, which an alarm ends: nothing else stops a query of this store."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_ms / 1000)
        try:
            rows, nanoseconds = run(store, text)
            said = f"rows {rows} {nanoseconds}"
        except Exception as error:  # Whatever the query does wrong is the answer.
            said = "failed " + " ".join(str(error).split())
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said or "failed over time"


def main():
    store = Store()
    known = set()
    commands = sys.stdin.buffer
    for line in iter(commands.readline, b""):
        command, *rest = line.decode().rstrip("\n").split(" ", 1)
        try:
            if command == "load":
                start = time.perf_counter_ns()
                store.bulk_load(path=rest[0], format=RdfFormat.N_TRIPLES)
                print(f"loaded {len(store)} {time.perf_counter_ns() - start}")
            elif command == "query":
                runs, limit_ms, size = map(int, rest[0].split())
                text = commands.read(size).decode()
                if text not in known:
                    said = first_run(store, text, limit_ms)
                    if not said.startswith("rows") or runs == 1:
                        print(said)
                        if said.startswith("rows"):
                            known.add(text)
                        continue
                    known.add(text)
                samples = [run(store, text) for _ in range(runs)]
                print("rows", samples[-1][0], *(nanoseconds for _, nanoseconds in samples))
            elif command == "endpoint":
                print("endpoint")
            else:
                print(f"failed no command {command}")
        except Exception as error:  # Reported to the bench, which decides.
            print("failed " + " ".join(str(error).split()))


main()
