#!/usr/bin/env python3
"""Makes the data and the answers of cases/windows: make.py TESTDATA, where TESTDATA is the folder with refeval.py.

The answers come from the reference evaluator (pip install pyoxigraph==0.5.13), from the same query texts that the engine gets: a line
that begins with REGISTER or FROM is left out, and GRAPH over a stream becomes GRAPH over its window. What the evaluator does not know is
done here: windows of unequal STEP (each shows its latest close), COMPUTED EVERY, streams of which a part is absorbed, ASK, CONSTRUCT,
windows that end before their close or are of a number of statements, ISTREAM and DSTREAM, f:timestamp."""
import json, os, random, re, sys, tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, sys.argv[1])
import refeval as R

NS = 'http://example.org/cases/'
FOLDER = here + '/windows'
UNTIL = 12000
BATCH = 500
STORED = NS + 'stored'

# name: windows as (stream, RANGE, STEP) in ms, with how long before the close they end where they do; `every` for COMPUTED
# EVERY; `union` where the default graph is the merge of the windows with the graph that FROM names; `end` of the file's name
# where it is not in C-SPARQL; `blocks`, what stands before the braces of each window, where it is not GRAPH and the stream;
# `count`, a window of the last so many statements, closing with each so many; `gives`, what of the solutions; `origin` for STARTING
# AT; `over`, the query that derives the stream that is windowed: the statements of each second of the source, one second later.
CASES = {
    'multiplicity': dict(windows=[('readings', 3000, 1000)]),
    'projection': dict(windows=[('readings', 3000, 1000)]),
    'union-twice': dict(windows=[('readings', 2000, 1000)]),
    'unbound': dict(windows=[('readings', 2000, 1000)]),
    'values-undef': dict(windows=[('readings', 2000, 2000)]),
    'unequal-steps': dict(windows=[('readings', 3000, 2000), ('moves', 4000, 3000)]),
    'unequal-ranges': dict(windows=[('readings', 1000, 1000), ('moves', 5000, 1000)]),
    'range-not-multiple': dict(windows=[('readings', 2500, 1000)]),
    'half-seconds': dict(windows=[('readings', 1500, 500)]),
    'every': dict(windows=[('readings', 2000, 1000)], every=3000),
    'sampling': dict(windows=[('readings', 1000, 3000)]),
    'tumbling': dict(windows=[('readings', 2000, 2000)]),
    'aggregate': dict(windows=[('readings', 4000, 1000)]),
    'aggregate-empty': dict(windows=[('likes', 1000, 1000)]),
    'ordered': dict(windows=[('readings', 3000, 1000)]),
    'not-exists': dict(windows=[('readings', 2000, 1000), ('likes', 4000, 1000)]),
    'graph-variable': dict(windows=[('readings', 1000, 1000), ('moves', 2000, 1000)]),
    'evolving': dict(windows=[('likes', 1000, 1000)]),
    'blank': dict(windows=[('readings', 3000, 1000)]),
    'merged': dict(windows=[('readings', 2000, 1000), ('moves', 3000, 1000)], union=True),
    'ask': dict(windows=[('readings', 1000, 1000)]),
    'construct': dict(windows=[('readings', 3000, 1000)]),
    'construct-blank': dict(windows=[('readings', 2000, 1000)]),
    'past': dict(windows=[('readings', 2500, 1000, 1500)], end='rspql', blocks=['WINDOW :w ']),
    'past-and-present': dict(windows=[('readings', 2000, 1000, 2000), ('readings', 1000, 1000)], end='rspql',
                             blocks=['WINDOW :past ', 'WINDOW :present ']),
    'came': dict(windows=[('readings', 3000, 1000)], gives='ISTREAM'),
    'went': dict(windows=[('readings', 2000, 1000)], end='rspql', blocks=['WINDOW :w '], gives='DSTREAM'),
    'came-construct': dict(windows=[('readings', 2000, 1000)], end='rspql', blocks=['WINDOW :w '], gives='ISTREAM'),
    'now': dict(windows=[('readings', BATCH, BATCH)], end='cqels', blocks=['STREAM :readings [NOW] ']),
    'all': dict(windows=[('likes', UNTIL, BATCH)], end='cqels', blocks=['STREAM :likes [ALL] ']),
    'each-batch': dict(windows=[('moves', 1000, BATCH)], end='cqels', blocks=['STREAM :moves [RANGE 1s] ']),
    'elements': dict(windows=[('readings', 0, BATCH)], end='rspql', blocks=['WINDOW :w '], count=(6, 10)),
    'triples': dict(windows=[('readings', 0, BATCH)], count=(7, 3), every=2000),
    'timestamp': dict(windows=[('readings', 2000, 1000)]),
    'starting-at': dict(windows=[('readings', 2000, 1000)], origin=500),
    'whole': dict(windows=[('readings', 2000, 1000)], gives='RSTREAM'),
    'gone': dict(windows=[('readings', 2000, 1000)], gives='DSTREAM'),
    'two-windows': dict(windows=[('readings', 3000, 1000), ('readings', 1000, 1000)], end='cqels',
                        blocks=['STREAM :readings [RANGE 3s SLIDE 1s] ', 'STREAM :readings [RANGE 1s SLIDE 1s] ']),
    'derived': dict(windows=[('readings', 3000, 1000, 1000)], blocks=['GRAPH :seconds '], over='seconds'),
}
# One-shot queries: the graph that they read by default.
ONE_SHOT = {'stored-rooms': STORED, 'stored-positions': STORED, 'labels': None}
SNAPSHOTS = [0, 2500, 6000, 12000]
TIMING = {'moves': [NS + 'position']}


def iri(name):
    return f'<{NS}{name}>'


def make_data():
    draw = random.Random(7)
    # The spelling of a value is part of it: these are never made canonical.
    values = ['"07.50"^^<http://www.w3.org/2001/XMLSchema#decimal>', '"12"^^<http://www.w3.org/2001/XMLSchema#integer>',
              '"45"^^<http://www.w3.org/2001/XMLSchema#integer>', '"3.0E1"^^<http://www.w3.org/2001/XMLSchema#double>',
              '"19"^^<http://www.w3.org/2001/XMLSchema#integer>', '"51"^^<http://www.w3.org/2001/XMLSchema#integer>']
    readings, moves, likes = [], [], []
    for second in range(12):
        if second in (5, 6):            # a silence of two seconds: empty windows
            continue
        at = [second * 1000, second * 1000, second * 1000 + 499, second * 1000 + 500] + [second * 1000 + draw.randrange(1000) for _ in range(4)]
        for t in sorted(at):            # the first two lie on the boundary of every window
            readings.append((t, f'{iri("s" + str(draw.randrange(1, 7)))} {iri("value")} {draw.choice(values)}'))
        repeated = readings[-1]
        readings.append(repeated)       # a statement twice within a window, at one time
        readings.append((second * 1000 + 999, repeated[1]))
        if second % 3 == 1:             # and the same again in the next one
            readings.append((second * 1000 + 999, readings[-6][1]))
    for second in range(0, 12, 2):
        sensor = iri('s' + str(draw.randrange(1, 7)))
        moves.append((second * 1000 + 250, f'{sensor} {iri("position")} "{draw.randrange(4)},{draw.randrange(4)}"'))
        moves.append((second * 1000 + 250, f'{sensor} {iri("room")} {iri("r" + str(draw.randrange(1, 4)))}'))
        moves.append((second * 1000 + 1000, f'{sensor} {iri("seen")} "move {second}"@en'))
    for second in range(1, 12, 3):
        for user in ('ann', 'bob', 'eve'):
            likes.append((second * 1000 + draw.randrange(1000), f'{iri(user)} {iri("likes")} {iri("s" + str(draw.randrange(1, 7)))}'))
    for name, rows in (('readings', readings), ('moves', moves), ('likes', likes)):
        with open(f'{FOLDER}/{name}.tsv', 'w') as out:
            for t, triple in sorted(rows, key=lambda row: row[0]):
                out.write(f'{t}\t{triple} .\n')
    with open(FOLDER + '/rooms.nt', 'w') as out:
        for sensor, room in ((1, 'r1'), (2, 'r1'), (3, 'r2'), (3, 'r1')):
            out.write(f'{iri("s" + str(sensor))} {iri("room")} {iri(room)} .\n')
        out.write(f'{iri("s4")} {iri("room")} _:attic .\n_:attic {iri("name")} "attic" .\n_:cellar {iri("name")} "cellar" .\n{iri("s5")} {iri("room")} _:cellar .\n')
    with open(FOLDER + '/labels.nt', 'w') as out:
        for sensor in range(1, 5):
            out.write(f'{iri("s" + str(sensor))} {iri("label")} "sensor {sensor}"@en .\n')


def absorbed_part(name):
    """The file with those statements of a stream that are absorbed."""
    path = f'{tempfile.mkdtemp()}/{name}.tsv'
    with open(path, 'w') as out:
        for line in open(f'{FOLDER}/{name}.tsv'):
            if not any(f'<{predicate}>' in line for predicate in TIMING[name]):
                out.write(line)
    return path


def engine(stored_graph):
    """An engine whose stored graph is the one asked for: `moves` is absorbed into STORED, `likes` into the default graph."""
    file = lambda name: f'{FOLDER}/{name}.tsv'
    named = stored_graph == STORED
    streams = {NS + name: dict(file=file(name), absorb=False) for name in ('readings', 'moves', 'likes')}
    if named:
        streams[NS + 'moves-absorbed'] = dict(file=absorbed_part('moves'), absorb=True)
    else:
        streams[NS + 'likes']['absorb'] = True
    return R.Engine(STORED, [FOLDER + ('/rooms.nt' if named else '/labels.nt')], streams)


def plain(text):
    return '\n'.join(line for line in text.split('\n') if not re.match(r'(REGISTER|FROM)\b', line))


def evaluate(e, text, union=False):
    if union:                       # a merge is a set; the evaluator's own union keeps a triple once for each graph that has it
        merged = R.Engine(STORED, [], {}, e.lex)
        merged.store.extend(R.ox.Quad(quad.subject, quad.predicate, quad.object) for quad in e.store)
        return merged.query(text)
    if 'CONSTRUCT' not in text:
        return e.query(text)
    triples = {tuple(e.lex.back(str(term)) for term in triple) for triple in e.store.query(text)}
    return ['subject', 'predicate', 'object'], [list(triple) for triple in triples]


def query_file(name):
    return f'queries/{name}.{CASES[name].get("end", "csparql")}'


def statements(e, stream, t, count, step):
    """Makes a graph of the last statements of a stream before t, up to the last multiple of STEP."""
    before = [triple for at, triple in e.src[NS + stream] if at < t]
    graph = R.ox.NamedNode(NS + stream + '--statements')
    for quad in list(e.store.quads_for_pattern(None, None, None, graph)):
        e.store.remove(quad)
    end = len(before) // step * step
    e.store.extend(R.ox.Quad(*triple, graph) for triple in before[max(end - count, 0):end])
    return graph.value, len(before)


def event_time(e, stream, t, length, subject, value):
    """The event time of the newest such reading in a window, as the data spells its terms."""
    here = [at for at, (s, _, v) in e.src[NS + stream]
            if t - length <= at < t and str(s) == subject and (str(v) == value or e.lex.back(str(v)) == value)]
    return f'"{max(here)}"^^<http://www.w3.org/2001/XMLSchema#integer>'


def without(rows, others):
    others, left = list(others), []
    for row in rows:
        if row in others:
            others.remove(row)
        else:
            left.append(row)
    return left


def continuous(name, case):
    text = plain(open(f'{FOLDER}/{query_file(name)}').read())
    text = re.sub(r'\((f:timestamp[^)]*)\) AS \?t\)', '', text)
    text = re.sub(r'SELECT [IDR]STREAM', 'SELECT', text)
    e = engine(STORED)
    every, count = case.get('every'), case.get('count')
    steps = [every] if every else [step for _, _, step, *_ in case['windows']]
    blocks = case.get('blocks') or [f'GRAPH :{stream} ' for stream, *_ in case['windows']]
    before, counted = [], 0
    origin = case.get('origin', 0)
    # A derived stream has a time from its first firing on, and is one step ahead of its source.
    first, last = (2000, UNTIL + 1000) if case.get('over') else (1, UNTIL)
    for t in sorted({origin + k * step for step in steps for k in range((last - origin) // step + 1)}):
        if t < first:
            continue
        e.advance(t)
        asked = text
        back = {}
        for (stream, length, step, *until), block in zip(case['windows'], blocks):
            if count:
                window, had = statements(e, stream, t, *count)
            else:
                e.window(NS + stream, length, (t if every else (t - origin) // step * step + origin) - (until or [0])[0])
                window = e.gname(NS + stream, length)
            back[f'<{window}>'] = iri(stream)
            asked = asked.replace(block, f'GRAPH <{window}> ')
        if count and not every:
            # It closes where a multiple of STEP is reached; the data reaches no two in one batch.
            reached, counted = had // count[1] - counted // count[1], had
            assert reached < 2
            if not reached:
                continue
        names, rows = evaluate(e, asked, case.get('union', False))
        rows = [[back.get(term, term) for term in row] for row in rows]
        if name == 'timestamp':
            (stream, length, _), = case['windows']
            names, rows = [*names, 't'], [[*row, event_time(e, stream, t, length, *row)] for row in rows]
        whole, gives = rows, case.get('gives')
        if gives and gives != 'RSTREAM':
            rows = without(rows, before) if gives == 'ISTREAM' else without(before, rows)
        before = whole
        yield R.answer(name, t, names, rows)


def one_shot(name, graph):
    e = engine(graph)
    text = open(f'{FOLDER}/queries/{name}.rq').read().replace('WHERE', f'FROM <{STORED}>\nWHERE', 1)
    for t in SNAPSHOTS:
        e.advance(t)
        names, rows = e.query(text)
        answer = R.answer(name, t, names, rows)
        answer['snapshot_ms'] = answer.pop('close_ms')
        yield answer


def over(case):
    return dict(over=f'queries/{case["over"]}.csparql') if 'over' in case else {}


def main():
    make_data()
    stream = lambda name, **more: dict(iri=NS + name, file=name + '.tsv', **more)
    suite = dict(
        name='windows', t0_ms=0, batch_ms=BATCH, until_ms=UNTIL, default_namespace=NS,
        stored=[dict(graph=STORED, file='rooms.nt'), dict(graph=None, file='labels.nt')],
        streams=[stream('readings', timeless=False, into=None), stream('moves', timing=TIMING['moves'], into=STORED),
                 stream('likes', timeless=True, into=None)],
        continuous=[dict(name=name, query=query_file(name), **over(case), expected='expected.jsonl') for name, case in CASES.items()],
        oneshot=[dict(name=name, query=f'queries/{name}.rq', default_graph=graph, expected='expected.jsonl') for name, graph in ONE_SHOT.items()])
    with open(FOLDER + '/suite.json', 'w') as out:
        json.dump(suite, out, indent=1)
        out.write('\n')
    with open(FOLDER + '/expected.jsonl', 'w') as out:
        answers = [list(continuous(name, case)) for name, case in CASES.items()] + [list(one_shot(*query)) for query in ONE_SHOT.items()]
        for query in answers:
            for answer in query:
                out.write(json.dumps(answer, ensure_ascii=False, separators=(',', ':')) + '\n')
            name = query[0]['query']
            repeats = sum('mult' in answer for answer in query)
            unbound = sum(any(None in row for row in answer['rows']) for answer in query)
            print(f'{name:20} answers {len(query):3} rows {sum(a["n"] for a in query):4} empty {sum(a["n"] == 0 for a in query):3} with repeats {repeats:3} with unbound {unbound:3}')


main()
