//! The workloads of one-shot queries: which data, which queries, how many rows are known.
//! Data is made or unpacked once, into `target/bench-data`, as N-Triples that every engine can load.

use crate::runner::Query;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where data is kept between runs.
const DATA: &str = "target/bench-data";

/// Data and the queries on it.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    /// What the data is, in words.
    pub(crate) data: String,
    pub(crate) queries: Vec<Query>,
    source: Source,
}

enum Source {
    /// A file of the test data, compressed.
    File(PathBuf),
}

/// The workloads, in the order in which they are run.
pub(crate) const NAMES: [&str; 2] = ["lubm-1", "lubm-40"];

impl Workload {
    /// A workload by its name.
    ///
    /// # Errors
    /// Why it cannot be run here.
    pub(crate) fn named(name: &str) -> Result<Workload, String> {
        match name {
            "lubm-1" => lubm("lubm-1", 1, [0, 828, 0, 10, 10, 125, 30]),
            "lubm-40" => lubm("lubm-40", 40, [106, 43_291, 0, 10, 10, 125, 1_763]),
            _ => Err(format!(
                "there is no workload {name}; there are {}",
                NAMES.join(", ")
            )),
        }
    }

    /// The data as a file of N-Triples.
    pub(crate) fn file(&self) -> Result<PathBuf, String> {
        let folder = crate::peers::absolute(Path::new(DATA))?;
        let path = folder.join(format!("{}.nt", self.name));
        if path.exists() {
            return Ok(path);
        }
        let half = folder.join(format!("{}.nt.half", self.name));
        let unwritten =
            |error: std::io::Error| format!("{} cannot be written: {error}", path.display());
        fs::create_dir_all(&folder).map_err(unwritten)?;
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&half).map_err(unwritten)?);
        match &self.source {
            Source::File(packed) => {
                let file = File::open(packed).map_err(unwritten)?;
                zstd::stream::copy_decode(file, &mut out).map_err(unwritten)?;
            }
        }
        out.flush().map_err(unwritten)?;
        // Only a whole file gets the name that the next run looks for.
        fs::rename(&half, &path).map_err(unwritten)?;
        Ok(path)
    }
}

/// The folder of the test data.
pub(crate) fn test_data() -> PathBuf {
    std::env::var_os("SOMERSAULT_TESTDATA").map_or_else(|| "../shared/data".into(), PathBuf::from)
}

/// The compressed LUBM data of so many universities.
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
