//! The workloads of one-shot queries: which data, which queries, how many rows are known. Data is
//! made or unpacked once, into `target/bench-data`, as N-Triples that every engine can load;
//! workloads on the same data are measured after one load.

use crate::oneshot::runner::Query;
use somersault::oxrdf::Triple;
use somersault_generate::{NamedQuery, Parameters, SocialNetwork, Sp2Bench, WatDiv};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The folder in which data is kept between runs.
const DATA: &str = "target/bench-data";

const SEED: u64 = 1;

/// The size of generated data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    users: u32,
    history_ms: i64,
    shop: u32,
    bibliography: u64,
}

impl Size {
    /// 10 million triples each, and SP²Bench's quarter of a million.
    pub(crate) const FULL: Size = Size {
        users: 100_000,
        history_ms: 45_000,
        shop: 95,
        bibliography: 250_000,
    };

    /// This percentage of the full size.
    pub(crate) fn percent(percent: u32) -> Size {
        let share = |of: u64| of * u64::from(percent) / 100;
        let share_of_int = |of: u32| u32::try_from(share(of.into())).unwrap_or(u32::MAX);
        Size {
            users: share_of_int(Size::FULL.users),
            history_ms: Size::FULL.history_ms * i64::from(percent) / 100,
            shop: share_of_int(Size::FULL.shop).max(1),
            bibliography: share(Size::FULL.bibliography),
        }
    }

    /// Users of the social network.
    pub(crate) fn users(&self) -> u32 {
        self.users
    }
}

/// Data and the queries on it.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// The data, in words.
    pub(crate) data: String,
    pub(crate) queries: Vec<Query>,
    source: Source,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A file of the test data, compressed.
    File(PathBuf),
    Lsbench {
        users: u32,
        history_ms: i64,
    },
    WatDiv {
        scale: u32,
    },
    Sp2Bench {
        triples: u64,
    },
}

/// The workloads, in the order in which they are run.
pub(crate) const NAMES: [&str; 6] = [
    "lubm-1", "lubm-40", "sp2bench", "lsbench", "watdiv", "features",
];

/// Twenty queries of our own on WatDiv's data: the parts of SPARQL beside joins.
const FEATURES: [(&str, &str); 20] = [
    ("F01", include_str!("../../queries/F01.rq")),
    ("F02", include_str!("../../queries/F02.rq")),
    ("F03", include_str!("../../queries/F03.rq")),
    ("F04", include_str!("../../queries/F04.rq")),
    ("F05", include_str!("../../queries/F05.rq")),
    ("F06", include_str!("../../queries/F06.rq")),
    ("F07", include_str!("../../queries/F07.rq")),
    ("F08", include_str!("../../queries/F08.rq")),
    ("F09", include_str!("../../queries/F09.rq")),
    ("F10", include_str!("../../queries/F10.rq")),
    ("F11", include_str!("../../queries/F11.rq")),
    ("F12", include_str!("../../queries/F12.rq")),
    ("F13", include_str!("../../queries/F13.rq")),
    ("F14", include_str!("../../queries/F14.rq")),
    ("F15", include_str!("../../queries/F15.rq")),
    ("F16", include_str!("../../queries/F16.rq")),
    ("F17", include_str!("../../queries/F17.rq")),
    ("F18", include_str!("../../queries/F18.rq")),
    ("F19", include_str!("../../queries/F19.rq")),
    ("F20", include_str!("../../queries/F20.rq")),
];
const FEATURE_PREFIXES: &str = include_str!("../../queries/prefixes.rq");

impl Workload {
    /// A workload by its name.
    ///
    /// # Errors
    /// Why it cannot be run here.
    pub(crate) fn named(name: &str, size: Size) -> Result<Workload, String> {
        let Size {
            users,
            history_ms,
            shop: scale,
            bibliography: triples,
        } = size;
        Ok(match name {
            "lubm-1" => lubm("lubm-1", 1, [0, 828, 0, 10, 10, 125, 30])?,
            "lubm-40" => lubm("lubm-40", 40, [106, 43_291, 0, 10, 10, 125, 1_763])?,
            "lsbench" => Workload {
                name: "lsbench",
                data: format!("LSBench, {users} users"),
                queries: generated(network(users, history_ms).one_shot_queries()),
                source: Source::Lsbench { users, history_ms },
            },
            "watdiv" => Workload {
                name: "watdiv",
                data: format!("WatDiv, scale {scale}"),
                queries: generated(shop(scale).queries()),
                source: Source::WatDiv { scale },
            },
            "sp2bench" => Workload {
                name: "sp2bench",
                data: format!("SP²Bench, {triples} triples"),
                queries: generated(bibliography(triples).queries()),
                source: Source::Sp2Bench { triples },
            },
            "features" => Workload {
                name: "features",
                data: format!("WatDiv, scale {scale}"),
                queries: FEATURES
                    .iter()
                    .map(|&(name, text)| Query {
                        name: name.to_owned(),
                        text: format!("{FEATURE_PREFIXES}{text}"),
                        rows: None,
                    })
                    .collect(),
                source: Source::WatDiv { scale },
            },
            _ => {
                return Err(format!(
                    "there is no workload {name}; there are {}",
                    NAMES.join(", ")
                ));
            }
        })
    }

    /// Whether both ask the same data.
    pub(crate) fn shares_data(&self, other: &Workload) -> bool {
        self.source == other.source
    }

    /// The data as a file of N-Triples.
    pub(crate) fn file(&self) -> Result<PathBuf, String> {
        let folder = crate::parties::peers::absolute(Path::new(DATA))?;
        let name = match &self.source {
            Source::File(_) => self.name.to_owned(),
            Source::Lsbench { users, history_ms } => {
                format!("lsbench-{users}-{history_ms}-{SEED}")
            }
            Source::WatDiv { scale } => format!("watdiv-{scale}-{SEED}"),
            Source::Sp2Bench { triples } => format!("sp2bench-{triples}-{SEED}"),
        };
        let path = folder.join(format!("{name}.nt"));
        if path.exists() {
            return Ok(path);
        }
        println!("making {}", path.display());
        let half = folder.join(format!("{name}.nt.half"));
        let unwritten = |error: io::Error| format!("{} cannot be written: {error}", path.display());
        fs::create_dir_all(&folder).map_err(unwritten)?;
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&half).map_err(unwritten)?);
        self.write(&mut out).map_err(unwritten)?;
        out.flush().map_err(unwritten)?;
        // Only a whole file gets the name that the next run looks for.
        fs::rename(&half, &path).map_err(unwritten)?;
        Ok(path)
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut written = Ok(());
        let mut line = |triple: Triple| {
            if written.is_ok() {
                written = writeln!(out, "{triple} .");
            }
        };
        match &self.source {
            Source::File(packed) => return zstd::stream::copy_decode(File::open(packed)?, out),
            &Source::Lsbench { users, history_ms } => {
                let network = network(users, history_ms);
                network.people().for_each(&mut line);
                network.activity().past().for_each(&mut line);
            }
            &Source::WatDiv { scale } => shop(scale).generate(&mut line),
            &Source::Sp2Bench { triples } => bibliography(triples).generate(&mut line),
        }
        written
    }
}

fn network(users: u32, history_ms: i64) -> SocialNetwork {
    SocialNetwork::new(Parameters {
        users,
        history_ms,
        seed: SEED,
        ..Parameters::default()
    })
}

fn shop(scale: u32) -> WatDiv {
    WatDiv::new(scale, SEED)
}

fn bibliography(triples: u64) -> Sp2Bench {
    Sp2Bench::new(triples, SEED)
}

fn generated(queries: Vec<NamedQuery>) -> Vec<Query> {
    queries
        .into_iter()
        .map(|query| Query {
            name: query.name.to_owned(),
            text: query.text,
            rows: None,
        })
        .collect()
}

/// The folder of the test data.
pub(crate) fn test_data() -> PathBuf {
    std::env::var_os("SOMERSAULT_TESTDATA").map_or_else(|| "../shared/data".into(), PathBuf::from)
}

/// The compressed LUBM data of a number of universities.
pub(crate) fn lubm_file(name: &str) -> Result<PathBuf, String> {
    let packed = test_data().join(format!("lubm/{name}.nt.zst"));
    if packed.exists() {
        Ok(packed)
    } else {
        Err(format!(
            "skipped: no test data ({} is not there; set SOMERSAULT_TESTDATA)",
            packed.display()
        ))
    }
}

fn lubm(name: &'static str, universities: u32, rows: [u64; 7]) -> Result<Workload, String> {
    let packed = lubm_file(name)?;
    let queries = (1..)
        .zip(rows)
        .map(|(number, rows)| {
            let path = test_data().join(format!("lubm/queries/L{number}.rq"));
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
            Ok(Query {
                name: format!("L{number}"),
                text,
                rows: Some(rows),
            })
        })
        .collect::<Result<_, String>>()?;
    Ok(Workload {
        name,
        data: format!("LUBM, {universities} universities"),
        queries,
        source: Source::File(packed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault::{Engine, EngineConfig, LoadOptions, RdfFormat};

    #[test]
    fn every_generated_workload_has_its_queries_and_they_run() {
        let engine = Engine::open(EngineConfig::default()).unwrap();
        for (name, count) in [
            ("lsbench", 6),
            ("watdiv", 20),
            ("sp2bench", 14),
            ("features", 20),
        ] {
            let queries = Workload::named(name, Size::percent(1)).unwrap().queries;
            assert_eq!(queries.len(), count, "{name}");
            for query in queries {
                let result = engine.query(&query.text).run();
                assert!(result.is_ok(), "{name} {}: {result:?}", query.name);
            }
        }
        assert!(Workload::named("tpch", Size::FULL).is_err());
    }

    #[test]
    fn generated_data_is_written_once_and_loads() {
        let books = Workload::named("sp2bench", Size::percent(2)).unwrap();
        let mut text = Vec::new();
        books.write(&mut text).unwrap();
        let engine = Engine::open(EngineConfig::default()).unwrap();
        let loaded = engine
            .load(&text[..], RdfFormat::NTriples, LoadOptions::default())
            .unwrap();
        assert!(loaded.statements >= 5_000 && loaded.stored == loaded.statements);
    }

    #[test]
    fn workloads_on_the_same_data_know_it() {
        let [shop, features, books] = ["watdiv", "features", "sp2bench"]
            .map(|name| Workload::named(name, Size::percent(1)).unwrap());
        assert!(shop.shares_data(&features) && !shop.shares_data(&books));
    }
}
