"""Continuous queries on pyoxigraph: stored data loaded once, each window in a named graph that is brought up to date at each
close, and the query asked again. See ../README.md for the case that is read and the lines that are written."""

import hashlib
import json
import os
import re
import signal
import struct
import sys
import time
from collections import Counter

from pyoxigraph import NamedNode, Quad, RdfFormat, Store, parse


NUMBER = re.compile(r'"([-+.0-9eE]+)"\^\^<http://www\.w3\.org/2001/XMLSchema#\w+>')


def spelled(term):
    """A term as ../README.md has it: numbers by their value, blank nodes without label."""
    if term is None:
        return ""
    text = str(term)
    if text.startswith("_:"):
        return "_:"
    number = NUMBER.fullmatch(text)
    if not number:
        return text
    try:
        value = float(number[1]) + 0.0
    except ValueError:
        return text
    return struct.pack(">d", value).hex()


def rows_hash(rows):
    lines = sorted("\t".join(map(spelled, row)) + "\n" for row in rows)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def load(store, stored):
    start = time.perf_counter_ns()
    for part in stored:
        store.bulk_load(path=part["file"], format=RdfFormat.N_TRIPLES, to_graph=NamedNode(part["iri"]))
    print("loaded", len(store), time.perf_counter_ns() - start)


def read_stream(path, iri):
    """The statements of a stream with their times, in the graph that its window is kept in."""
    graph, times, triples = NamedNode(iri), [], []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            at_ms, _, triple = line.partition("\t")
            times.append(int(at_ms))
            triples.append(triple)
    parsed = parse("".join(triples), format=RdfFormat.N_TRIPLES)
    return [(at, Quad(t.subject, t.predicate, t.object, graph)) for at, t in zip(times, parsed)]


class Window:
    """A sliding window in a graph of the store; a statement that came twice leaves with its last arrival."""

    def __init__(self, store, statements, range_ms):
        self.store, self.statements, self.range_ms = store, statements, range_ms
        self.oldest = self.newest = 0
        self.arrivals = Counter()

    def slide(self, close_ms):
        come = []
        while self.newest < len(self.statements) and self.statements[self.newest][0] < close_ms:
            come.append(self.statements[self.newest][1])
            self.newest += 1
        self.store.extend(come)
        self.arrivals.update(come)
        while self.oldest < self.newest and self.statements[self.oldest][0] < close_ms - self.range_ms:
            quad = self.statements[self.oldest][1]
            self.oldest += 1
            self.arrivals[quad] -= 1
            if not self.arrivals[quad]:
                del self.arrivals[quad]
                self.store.remove(quad)


def run(store, streams, query, until_ms):
    windows = [Window(store, streams[window["stream"]], window["range_ms"]) for window in query["windows"]]
    step_ms = min(window["step_ms"] for window in query["windows"])
    for close_ms in range(query["first_close_ms"], until_ms + 1, step_ms):
        start = time.perf_counter_ns()
        for window in windows:
            window.slide(close_ms)
        asked = time.perf_counter_ns()
        rows = list(store.query(query["sparql"]))
        ended = time.perf_counter_ns()
        print("close", query["name"], close_ms, len(rows), rows_hash(rows), ended - asked, asked - start, flush=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        case = json.load(file)
    store = Store()
    load(store, case["stored"])
    streams = {stream["iri"]: read_stream(stream["file"], stream["iri"]) for stream in case["streams"]}
    for query in case["queries"]:
        # In a forked copy, which an alarm ends: nothing else stops a query of this store.
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, case["limit_ms"] / 1000)
            try:
                run(store, streams, query, case["until_ms"])
            except Exception as error:  # Whatever the query does wrong is the answer.
                print("failed", query["name"], " ".join(str(error).split()), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            print("failed", query["name"], "over time", flush=True)


main()
