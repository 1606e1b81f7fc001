//! Runs every command of `docs/transactions.md`, in the order of the page, and compares what they
//! print with the page. `UPDATE_EXPECT=1` writes what they print into the page.

use crate::command::Server;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/transactions.md");
/// The block that starts a server; the test has one already.
const START: &str = "somersault serve --data ./data &\nsleep 1\n";
/// The address of the page's server.
const ADDRESS: &str = "http://127.0.0.1:7878";
/// The time that rounds may take after a push.
const PATIENCE: Duration = Duration::from_secs(30);

/// A block of commands, and the place and text of what the page says that they print.
struct Block<'p> {
    commands: &'p str,
    printed: Option<(usize, &'p str)>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut at = 0;
    while let Some(found) = page[at..].find("```") {
        let begin = at + found;
        let text = begin + page[begin..].find('\n').expect("a line ends") + 1;
        let end = text + page[text..].find("```").expect("a block ends");
        match &page[begin..text] {
            "```sh\n" => blocks.push(Block {
                commands: &page[text..end],
                printed: None,
            }),
            "```text\n" => {
                let block = blocks.last_mut().expect("commands stand before");
                block.printed = Some((text, &page[text..end]));
            }
            // Programs that embed the engine are examples, and compiled there.
            "```rust\n" => {}
            other => panic!("{other} begins no block that this test knows"),
        }
        at = end + 3;
    }
    blocks
}

/// Whether the commands change nothing, and may be repeated until what was pushed is consumed.
fn only_reads(commands: &str) -> bool {
    let reads = [
        "somersault query ",
        "somersault dataflows list",
        "somersault dataflows aborted ",
    ];
    (commands.lines()).all(|line| reads.iter().any(|read| line.starts_with(read)))
}

/// What a shell prints for commands, both streams together, and whether it succeeded.
fn run(commands: &str, folder: &Path, url: &str) -> (String, bool) {
    let program = Path::new(env!("CARGO_BIN_EXE_somersault"));
    let path = format!(
        "{}:{}",
        program.parent().expect("a folder").display(),
        std::env::var("PATH").expect("a path")
    );
    let text = format!("exec 2>&1\n{}", commands.replace(ADDRESS, url));
    let done = Command::new("sh")
        .args(["-e", "-c", &text])
        .current_dir(folder)
        .env("PATH", path)
        .env("SOMERSAULT_SERVER", url)
        .output()
        .expect("a shell");
    let printed = String::from_utf8(done.stdout).expect("it is text");
    // CSV over HTTP ends its lines with a carriage return, too.
    (printed.replace('\r', ""), done.status.success())
}

#[test]
fn every_command_of_the_page_prints_what_the_page_says() {
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let server = Server::start(&["--data", data.to_str().expect("text")]);
    let updates = std::env::var_os("UPDATE_EXPECT").is_some();
    let blocks = blocks(&page);
    assert_eq!(blocks[0].commands, START);
    assert!(blocks.len() > 15, "only {} blocks", blocks.len());
    let mut written = page.clone();
    for block in &blocks[1..] {
        let start = Instant::now();
        let (printed, succeeded) = loop {
            let (printed, succeeded) = run(block.commands, folder.path(), &server.url);
            let expected = block.printed.map(|(_, text)| text);
            let retried = only_reads(block.commands) && start.elapsed() < PATIENCE && !updates;
            if expected.is_none_or(|expected| expected == printed) || !retried {
                break (printed, succeeded);
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        match block.printed {
            None => assert!(succeeded, "{}\nprinted\n{printed}", block.commands),
            Some((at, text)) if updates => {
                let at = written.len() - (page.len() - at);
                written.replace_range(at..at + text.len(), &printed);
                std::thread::sleep(Duration::from_secs(1));
            }
            Some((_, text)) => assert_eq!(printed, text, "{}", block.commands),
        }
    }
    if updates {
        std::fs::write(PAGE, written).expect("the page is written");
    }
}
