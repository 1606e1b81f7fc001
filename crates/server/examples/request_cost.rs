//! The cost of a request: processor time of the server's threads for a light query over a
//! kept-alive connection, and the speed of writing a large answer, in process and over HTTP. The
//! client is the main thread, whose own time is left out. Linux only: it reads `/proc/self/task`.

use somersault::{Answer, Clock, Engine, EngineConfig, LoadOptions, QueryResultsFormat, RdfFormat};
use somersault_server::{Running, ServerConfig};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

const ROWS: usize = 200_000;
const LIGHT_REQUESTS: u32 = 20_000;
const ROUNDS: usize = 5;
const LARGE: &str =
    "SELECT ?student ?course { ?student <http://example.org/univ-bench.owl#takesCourse> ?course }";
const LIGHT: &str = "SELECT ?student { ?student <http://example.org/univ-bench.owl#takesCourse> <http://www.Department3.University7.edu/GraduateCourse7> }";

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let engine = Engine::open(EngineConfig {
        clock: Clock::Manual,
        ..EngineConfig::default()
    })?;
    engine.load(
        data().as_bytes(),
        RdfFormat::NTriples,
        LoadOptions::default(),
    )?;
    let large = engine.query(LARGE).run()?.answer;
    assert_eq!(large.len(), ROWS);
    for format in [
        QueryResultsFormat::Json,
        QueryResultsFormat::Tsv,
        QueryResultsFormat::Csv,
        QueryResultsFormat::Xml,
    ] {
        in_process(&large, format)?;
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let running = Running::start(engine.clone(), listener, ServerConfig::default())?;
    for accept in [
        "application/sparql-results+json",
        "text/tab-separated-values",
        "text/csv",
    ] {
        over_http(running.address(), accept)?;
    }
    light(running.address())?;
    running.stop()?;
    engine.shutdown()?;
    Ok(())
}

/// Students and courses in the manner of LUBM: ten students take each course.
fn data() -> String {
    (0..ROWS)
        .map(|row| {
            let (course, student) = (row / 10, row);
            let department = format!("http://www.Department{}.University{}.edu", course / 20 % 20, course / 400);
            format!(
                "<{department}/GraduateStudent{student}> <http://example.org/univ-bench.owl#takesCourse> <{department}/GraduateCourse{}> .\n",
                course % 20
            )
        })
        .collect()
}

fn in_process(answer: &Answer, format: QueryResultsFormat) -> Outcome {
    let mut bytes = Vec::new();
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        bytes.clear();
        let started = Instant::now();
        answer.write_results(format, &mut bytes)?;
        best = best.min(started.elapsed());
    }
    report(&format!("in process, {format}"), best, bytes.len());
    Ok(())
}

fn over_http(address: SocketAddr, accept: &str) -> Outcome {
    let mut connection = Connection::open(address)?;
    let mut best = Duration::MAX;
    let mut length = 0;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        length = connection.ask(LARGE, accept)?;
        best = best.min(started.elapsed());
    }
    report(&format!("HTTP, {accept}"), best, length);
    Ok(())
}

fn report(what: &str, took: Duration, bytes: usize) {
    let seconds = took.as_secs_f64();
    println!(
        "{what}: {:.2} ms, {:.2} M rows/s, {:.0} MB/s",
        seconds * 1e3,
        ROWS as f64 / seconds / 1e6,
        bytes as f64 / seconds / 1e6
    );
}

fn light(address: SocketAddr) -> Outcome {
    let mut connection = Connection::open(address)?;
    for _ in 0..LIGHT_REQUESTS / 10 {
        connection.ask(LIGHT, "application/sparql-results+json")?;
    }
    let mut best = f64::MAX;
    for _ in 0..3 {
        let before = processor_time()?;
        let started = Instant::now();
        for _ in 0..LIGHT_REQUESTS {
            connection.ask(LIGHT, "application/sparql-results+json")?;
        }
        let per_request = |ns: u64| ns as f64 / 1e3 / f64::from(LIGHT_REQUESTS);
        let took = per_request(u64::try_from(started.elapsed().as_nanos())?);
        let after = processor_time()?;
        let mut total = 0.0;
        print!("light: {took:.1} µs from end to end; server CPU µs a request:");
        for (name, ns) in after {
            let spent = per_request(ns - before.get(&name).copied().unwrap_or(0));
            if name != "request_cost" {
                total += spent;
            }
            if spent >= 0.1 {
                print!(" {name} {spent:.1}");
            }
        }
        println!(" = {total:.1} without the client");
        best = f64::min(best, total);
    }
    println!("light, best: {best:.1} µs of server CPU a request");
    Ok(())
}

/// Processor time of this process's threads so far in ns, by name. The client's is `request_cost`.
fn processor_time() -> Outcome<BTreeMap<String, u64>> {
    let mut times = BTreeMap::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        let folder = task?.path();
        let name = std::fs::read_to_string(folder.join("comm"))?;
        let scheduled = std::fs::read_to_string(folder.join("schedstat"))?;
        let on_cpu = scheduled.split(' ').next().unwrap_or("0").parse::<u64>()?;
        *times.entry(name.trim().to_owned()).or_insert(0) += on_cpu;
    }
    Ok(times)
}

/// A kept-alive connection.
struct Connection {
    reader: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> Outcome<Connection> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        Ok(Connection {
            reader: BufReader::with_capacity(256 * 1024, socket),
            line: String::new(),
            body: Vec::new(),
        })
    }

    /// Sends a query, reads the answer, and returns the length of its body.
    fn ask(&mut self, query: &str, accept: &str) -> Outcome<usize> {
        let request = format!(
            "POST /query HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Type: application/sparql-query\r\nContent-Length: {}\r\n\r\n{query}",
            query.len()
        );
        self.reader.get_mut().write_all(request.as_bytes())?;
        if !self.read_line()?.contains(" 200 ") {
            return Err(format!("refused: {}", self.line).into());
        }
        let mut length = None;
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = Some(value.parse::<usize>()?);
            }
        }
        self.read_body(length)
    }

    fn read_body(&mut self, length: Option<usize>) -> Outcome<usize> {
        if let Some(length) = length {
            self.body.resize(length, 0);
            self.reader.read_exact(&mut self.body)?;
            return Ok(length);
        }
        let mut total = 0;
        loop {
            let size = usize::from_str_radix(self.read_line()?, 16)?;
            self.body.resize(size + 2, 0);
            self.reader.read_exact(&mut self.body)?;
            total += size;
            if size == 0 {
                return Ok(total);
            }
        }
    }

    fn read_line(&mut self) -> Outcome<&str> {
        self.line.clear();
        self.reader.read_line(&mut self.line)?;
        Ok(self.line.trim_end())
    }
}
