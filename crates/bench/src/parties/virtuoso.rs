//! Virtuoso as a contender: a server process with a database folder for each data set, loaded once
//! through its own bulk loader.

use crate::harness::contender::{Burst, Contender, Figure, Loaded, NoTime};
use crate::harness::http::{Client, Style};
use crate::harness::machine;
use crate::parties::peers::Installed;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The graph that the data is in.
const GRAPH: &str = "http://somersault.example/bench";

const START_LIMIT: Duration = Duration::from_secs(60);

/// Says in a database folder that its load was finished, with the number of triples.
const STAMP: &str = "loaded";

/// A Virtuoso server with its database folder.
pub(crate) struct Virtuoso {
    version: String,
    folder: PathBuf,
    sql_port: u16,
    process: Child,
    client: Client,
}

impl Virtuoso {
    /// Starts it with the database of this name, empty or from an earlier run.
    pub(crate) fn start(
        installed: &Installed,
        database: &str,
        limit: Duration,
    ) -> Result<Virtuoso, String> {
        let folder = installed.home().join(database);
        if !folder.join(STAMP).exists() {
            // The leftovers of an interrupted load are of no use.
            let _ = fs::remove_dir_all(&folder);
        }
        let (sql_port, http_port) = (free_port()?, free_port()?);
        let process = installed
            .start_command()
            .arg(&folder)
            .args([sql_port.to_string(), http_port.to_string()])
            .env("VIRTUOSO_LIMIT_S", limit.as_secs().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("its start script did not run: {error}"))?;
        let style = Style::Form {
            default_graph: GRAPH.to_owned(),
        };
        let url = format!("http://127.0.0.1:{http_port}");
        let mut virtuoso = Virtuoso {
            version: installed.version.clone(),
            folder,
            sql_port,
            process,
            client: Client::new(&url, "/sparql", style)?,
        };
        virtuoso.wait_until_it_listens(http_port)?;
        Ok(virtuoso)
    }

    fn wait_until_it_listens(&mut self, http_port: u16) -> Result<(), String> {
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            if TcpStream::connect(("127.0.0.1", http_port)).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(format!("it ended when it was started ({status})"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err("it did not listen within a minute".to_owned())
    }

    fn sql(&self, statements: &str) -> Result<String, String> {
        let output = Command::new("isql-vt")
            .arg(format!("127.0.0.1:{}", self.sql_port))
            .args(["dba", "dba", "VERBOSE=OFF", "BANNER=OFF", "PROMPT=OFF"])
            .arg(format!("exec={statements}"))
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("isql-vt did not run: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() || errors.contains("Error") {
            return Err(format!("its SQL client failed: {}", errors.trim()));
        }
        Ok(said)
    }
}

impl Contender for Virtuoso {
    fn name(&self) -> &str {
        "virtuoso"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn figures(&self) -> Vec<Figure> {
        vec![Figure::Http]
    }

    fn load(&mut self, data: &Path) -> Result<Loaded, String> {
        let stamp = self.folder.join(STAMP);
        if let Some(triples) = fs::read_to_string(&stamp)
            .ok()
            .and_then(|text| text.trim().parse().ok())
        {
            return Ok(Loaded {
                triples,
                took: None,
            });
        }
        let start = Instant::now();
        let (Some(folder), Some(file)) = (data.parent(), data.file_name()) else {
            return Err(format!("{} is not a file", data.display()));
        };
        let (folder, file) = (folder.display(), file.to_string_lossy());
        self.sql(&format!(
            "ld_dir('{folder}', '{file}', '{GRAPH}'); rdf_loader_run(); checkpoint;"
        ))?;
        let took = start.elapsed();
        let counted = self.sql(&format!(
            "sparql select count(*) from <{GRAPH}> where {{ ?s ?p ?o }};"
        ))?;
        let triples = counted
            .split_whitespace()
            .find_map(|word| word.parse().ok())
            .filter(|&triples: &u64| triples > 0)
            .ok_or("its load left nothing stored")?;
        fs::write(&stamp, triples.to_string())
            .map_err(|error| format!("{} cannot be written: {error}", stamp.display()))?;
        Ok(Loaded {
            triples,
            took: Some(took),
        })
    }

    fn run(
        &mut self,
        _figure: Figure,
        text: &str,
        runs: usize,
        limit: Duration,
    ) -> Result<Burst, NoTime> {
        self.client.run(text, runs, limit)
    }

    fn resident_bytes(&self) -> u64 {
        machine::resident_bytes_of(&self.process.id().to_string())
    }
}

impl Drop for Virtuoso {
    fn drop(&mut self) {
        // Its data was written by a checkpoint; asked to end it would take long over nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_file(self.folder.join("virtuoso.lck"));
    }
}

fn free_port() -> Result<u16, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(|error| format!("no port is free: {error}"))
}
