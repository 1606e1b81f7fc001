//! The cost of subscribers that do not read: a server, many event streams that are never read, and
//! pushes whose firings have many rows. Prints memory, threads, the latency of pushes, and the
//! events that the subscribers get once they read.
//!
//! `cargo run --release -p somersault-server --example slow_subscribers -- [SUBSCRIBERS ROWS
//! FIRINGS]`
//!
//! The clients live in the same process; `ulimit -n` must allow two sockets for each.

use somersault::{Clock, Engine, EngineConfig, EventTime};
use somersault_server::{Running, ServerConfig};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The beginning of each row's subject: a firing's text has some hundred bytes for each row.
const LONG: &str = "http://example.org/a/resource/with/a/name/of/usual/length";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: usize| match arguments.next() {
        Some(text) => text.parse::<usize>().map_err(Box::<dyn Error>::from),
        None => Ok(default),
    };
    let (subscribers, rows, firings) = (number(1024)?, number(2000)?, number(300)?);
    let engine = Engine::open(EngineConfig {
        clock: Clock::Manual,
        ..EngineConfig::default()
    })?;
    engine.create_stream(None, "CREATE STREAM <urn:s> BATCH 1s IDLE NEVER")?;
    engine.register(
        Some("q"),
        "SELECT ?s ?o FROM NAMED STREAM <urn:s> [RANGE 1s STEP 1s] WHERE { GRAPH <urn:s> { ?s <urn:p> ?o } }",
    )?;
    engine.advance([("urn:s", EventTime(0))])?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = Running::start(engine.clone(), listener, ServerConfig::default())?;
    let address = server.address();
    let sockets = (0..subscribers)
        .map(|_| subscribe(address))
        .collect::<Result<Vec<_>, _>>()?;
    let (before_mb, most) = (status("VmRSS:")? / 1024, subscribers.max(1));
    println!("{subscribers} subscribers, {rows} rows, {firings} firings; {before_mb} MB before");
    let (mut times, mut most_mb, mut most_threads) = (Vec::new(), 0, 0);
    let mut pusher = BufReader::new(TcpStream::connect(address)?);
    for firing in 0..firings {
        let mut body = String::new();
        for row in 0..rows {
            body.push_str(&format!(
                "{}\t<{LONG}/{firing}/{row}> <urn:p> \"{row}\" .\n",
                firing * 1000
            ));
        }
        let pushed = Instant::now();
        request(
            &mut pusher,
            "POST /streams/urn%3As",
            "text/tab-separated-values",
            &body,
        )?;
        times.push(pushed.elapsed());
        let to = format!("{{\"to_ms\":{}}}", (firing + 1) * 1000);
        request(
            &mut pusher,
            "POST /streams/urn%3As/advance",
            "application/json",
            &to,
        )?;
        most_mb = most_mb.max(status("VmRSS:")? / 1024);
        most_threads = most_threads.max(status("Threads:")?);
    }
    engine.quiesce(Duration::from_secs(600))?;
    most_mb = most_mb.max(status("VmRSS:")? / 1024);
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    println!(
        "{} MB more at most, {most_threads} threads; push p50 {:.1} ms, p90 {:.1} ms, p99 {:.1} ms, longest {:.1} ms",
        most_mb.saturating_sub(before_mb),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    for line in request(&mut pusher, "GET /metrics", "text/plain", "")?.lines() {
        if line.starts_with("somersault_http_subscribers") {
            println!("{line}");
        }
    }
    let mut told = 0;
    for socket in sockets {
        told += usize::from(is_told(socket)?);
    }
    println!("{told} of {most} were told that they are slow");
    server.stop()?;
    engine.shutdown()?;
    Ok(())
}

/// A number of this process, as the system reports it.
fn status(name: &str) -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.ok_or("no such line")?.parse()?)
}

/// Opens an event stream, and reads only its first bytes.
fn subscribe(address: SocketAddr) -> Result<TcpStream, Box<dyn Error>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(
        socket,
        "GET /queries/q/results?from=now HTTP/1.1\r\nHost: {address}\r\n\r\n"
    )?;
    let mut some = [0; 16];
    socket.read_exact(&mut some)?;
    Ok(socket)
}

/// Reads an event stream until its client is told that it is slow; `false` if the stream ends or
/// goes silent.
fn is_told(mut socket: TcpStream) -> Result<bool, Box<dyn Error>> {
    const TOLD: &[u8] = b"event: slow";
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let (mut tail, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    // A stream that was cut off, and one that is silent, end with an error.
    while let Ok(read) = socket.read(&mut piece) {
        if read == 0 {
            break;
        }
        tail.extend_from_slice(&piece[..read]);
        if tail.windows(TOLD.len()).any(|window| window == TOLD) {
            return Ok(true);
        }
        tail.drain(..tail.len().saturating_sub(TOLD.len()));
    }
    Ok(false)
}

/// A request on a connection that is kept, and the text of its answer.
fn request(
    connection: &mut BufReader<TcpStream>,
    line: &str,
    media_type: &str,
    body: &str,
) -> Result<String, Box<dyn Error>> {
    let text = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection.get_mut().write_all(text.as_bytes())?;
    let (mut length, mut status) = (0, String::new());
    connection.read_line(&mut status)?;
    loop {
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut answer = vec![0; length];
    connection.read_exact(&mut answer)?;
    let answer = String::from_utf8(answer)?;
    if !status.contains(" 200 ") {
        return Err(format!("{status}{answer}").into());
    }
    Ok(answer)
}
