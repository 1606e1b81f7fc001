//! A folder with checkpoints that have a file of every kind.

use oxrdf::{Literal, NamedNode};
use somersault_checkpoint::{
    CheckpointError, CheckpointTimes, Coverage, FileKind, ListFileReader, ListFileWriter,
    LogOrigin, Manifest, NewCheckpoint, PieceReader, PieceRuns, PieceWriter, SavedSlice,
    SliceReader, SliceWriter, TermRuns, restore_dictionary,
};
use somersault_dictionary::{Dictionary, rdf_type};
use somersault_disk::Disk;
use somersault_model::{
    BatchNumber, Direction, EventTime, Lease, Millis, Sn, StreamUid, TermId, TimedTriple, TripleIds,
};
use somersault_store::{ListKey, ListRun};

pub const ORIGIN: LogOrigin = LogOrigin {
    log: *b"sixteen bytes ok",
    incarnation: 3,
};

/// The times of a checkpoint with this number.
pub fn times(number: u64) -> CheckpointTimes {
    let newest_ms = number as i64 * 1_000;
    CheckpointTimes {
        shown_ms: newest_ms - 1,
        newest_ms,
    }
}

/// A list: its key and its members.
pub type List = (ListKey, Vec<TermId>);

/// The lists that a run has left.
pub fn lists<R: ListRun>(mut run: R) -> Result<Vec<List>, R::Error> {
    let (mut lists, mut members) = (Vec::new(), Vec::new());
    while let Some(key) = run.next_list(&mut members)? {
        lists.push((key, members.clone()));
    }
    Ok(lists)
}

/// A process that writes one checkpoint after another.
pub struct Writer {
    pub dictionary: Dictionary,
    runs: TermRuns,
    /// Those of slices, of the core, of answers and of transactions.
    pieces: [PieceRuns; 4],
    lease: Lease,
    ids: Vec<TermId>,
}

/// What a checkpoint should read back as.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    terms: Vec<(TermId, String)>,
    slice: SavedSlice,
    lists: Vec<List>,
    records: Vec<String>,
}

impl Writer {
    pub fn new() -> Writer {
        let dictionary = Dictionary::new();
        let lease = dictionary.lease(StreamUid(7));
        Writer {
            dictionary,
            runs: TermRuns::default(),
            pieces: Default::default(),
            lease,
            ids: Vec::new(),
        }
    }

    fn intern(&mut self, number: u64) {
        let name = NamedNode::new_unchecked(format!("http://example.com/{number}"));
        let datatype = NamedNode::new_unchecked(format!("urn:type:{}", number % 2));
        let typed = Literal::new_typed_literal(format!("text {number}"), datatype);
        let transient = NamedNode::new_unchecked(format!("urn:transient:{number}"));
        let mut mentions = self.dictionary.mentions(&self.lease);
        self.ids.extend([
            self.dictionary.intern(name.as_ref().into()),
            self.dictionary.intern(typed.as_ref().into()),
            self.dictionary
                .mention(transient.as_ref().into(), &mut mentions),
        ]);
        if number % 2 == 1 {
            self.dictionary.intern(transient.as_ref().into());
        }
    }

    fn slice(&self, number: u64) -> SavedSlice {
        let batch = BatchNumber(number as i64);
        let at = batch.start(Millis(100));
        let statements = self
            .ids
            .windows(3)
            .zip(0..)
            .map(|(ids, later)| TimedTriple {
                at: EventTime(at.0 + later % 100),
                triple: TripleIds::new(ids[0], ids[1], ids[2]),
            });
        SavedSlice {
            stream: StreamUid(7),
            batch,
            interval: Millis(100),
            revision: number as u32,
            epoch: Some(self.lease.epoch().number()),
            statements: statements.collect(),
        }
    }

    fn lists(&self) -> Vec<List> {
        let key = |direction, at: usize| ListKey {
            direction,
            graph: TermId::DEFAULT_GRAPH,
            predicate: rdf_type(),
            vertex: TermId::from_raw(1 << 60 | at as u64),
        };
        let mut members = self.ids.clone();
        members.sort_unstable();
        let directions = [Direction::Out, Direction::In].into_iter();
        let lists = directions.flat_map(|direction| {
            let members = &members;
            (0..3).map(move |at| (key(direction, at), members[at..].to_vec()))
        });
        lists.collect()
    }

    /// What checkpoint `number` holds, once its terms are known.
    pub fn content(&self, number: u64) -> Content {
        Content {
            terms: terms(&self.dictionary, &self.ids),
            slice: self.slice(number),
            lists: self.lists(),
            records: (0..number).map(|at| format!("record {at}")).collect(),
        }
    }

    /// Begins checkpoint `number`, and writes its files.
    pub fn files<'d>(
        &mut self,
        disk: &'d dyn Disk,
        number: u64,
    ) -> Result<NewCheckpoint<'d>, CheckpointError> {
        self.intern(number);
        let sn = Sn(number * 10);
        let new = NewCheckpoint::begin(disk, number, ORIGIN, (number * 100, sn), 2);
        let mut new = new.at_times(times(number));
        let runs = self.runs.write(&mut new, &self.dictionary, 4, sn)?;
        let [of_slices, of_core, of_answers, of_transactions] = &self.pieces;
        let pieces = PieceWriter::new(new.create(FileKind::Slices)?, of_slices)?;
        let mut slices = SliceWriter::new(pieces);
        slices.push(&self.slice(number))?;
        let of_slices = slices.into_pieces().finish(&mut new, Coverage::whole(sn))?;
        for kind in [FileKind::Image, FileKind::Delta] {
            let mut lists = ListFileWriter::new(new.create(kind)?);
            for (key, members) in self.lists() {
                lists.push(&key, &members)?;
            }
            new.add(lists.into_file(), Coverage::whole(sn))?;
        }
        let mut records = |kind, before: &PieceRuns| {
            let mut pieces = PieceWriter::new(new.create(kind)?, before)?;
            for at in 0..number {
                let record = postcard::to_stdvec(&format!("record {at}")).unwrap();
                pieces.push(Some(at.into()), |file| {
                    file.write_number(record.len() as u64)?;
                    file.write(&record)
                })?;
            }
            pieces.finish(&mut new, Coverage::whole(sn))
        };
        let of_core = records(FileKind::Core, of_core)?;
        let of_answers = records(FileKind::Answers, of_answers)?;
        let of_transactions = records(FileKind::Transactions, of_transactions)?;
        self.pieces = [of_slices, of_core, of_answers, of_transactions];
        self.runs = runs;
        Ok(new)
    }

    pub fn write(&mut self, disk: &dyn Disk, number: u64) -> Result<Manifest, CheckpointError> {
        self.files(disk, number)?.commit()
    }
}

fn terms(dictionary: &Dictionary, ids: &[TermId]) -> Vec<(TermId, String)> {
    let named = ids.iter().map(|id| (*id, dictionary.decode(*id)));
    named
        .map(|(id, term)| (id, term.map_or_else(String::new, |term| term.to_string())))
        .collect()
}

/// Reads everything that a checkpoint holds; the ids are those of its slice.
pub fn read(disk: &dyn Disk, manifest: &Manifest) -> Result<Content, CheckpointError> {
    let dictionary = restore_dictionary(disk, manifest, 1)?.dictionary;
    dictionary.check().expect("DI-2");
    let own = |kind| {
        let mut files = manifest.files_of(kind);
        let file = files.find(|file| file.name.checkpoint == manifest.number());
        PieceReader::open(disk, manifest, file.unwrap())
    };
    let mut slices = Vec::new();
    let mut reader = SliceReader::new(own(FileKind::Slices)?);
    while let Some(slice) = reader.take()? {
        slices.push(slice);
    }
    let mut of_files: Vec<Vec<List>> = Vec::new();
    for kind in [FileKind::Image, FileKind::Delta] {
        for file in manifest.files_of(kind) {
            of_files.push(lists(ListFileReader::new(manifest.open(disk, file)?))?);
        }
    }
    let mut records: Vec<Vec<String>> = Vec::new();
    for kind in [FileKind::Core, FileKind::Answers, FileKind::Transactions] {
        // Fixtures from before there were transactions have no such file.
        if kind == FileKind::Transactions && manifest.files_of(kind).count() == 0 {
            continue;
        }
        let of_kind: Result<Vec<String>, _> = own(kind)?.into_records().collect();
        records.push(of_kind?);
    }
    records.dedup();
    of_files.dedup();
    assert_eq!((slices.len(), records.len(), of_files.len()), (1, 1, 1));
    let slice = slices.remove(0);
    let first = slice.statements[0].triple;
    let rest = slice.statements[1..]
        .iter()
        .map(|statement| statement.triple.object);
    let ids: Vec<TermId> = [first.subject, first.predicate, first.object]
        .into_iter()
        .chain(rest)
        .collect();
    Ok(Content {
        terms: terms(&dictionary, &ids),
        slice,
        lists: of_files.remove(0),
        records: records.remove(0),
    })
}
