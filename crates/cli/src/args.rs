//! The command line: every subcommand, its options and an example. Nothing here does anything.

use crate::{times, values};
use clap::{Args, Parser, Subcommand, ValueEnum};
use somersault::Right;
use somersault_connect::SinkSpec;
use std::path::PathBuf;
use std::time::Duration;

/// One system for streams of linked data and the graph they change.
#[derive(Debug, Parser)]
#[command(
    name = "somersault",
    version,
    about = "Stateful stream query engine for linked data: continuous queries over streams joined with an evolving RDF graph, and SPARQL on consistent snapshots of it.",
    after_help = "Examples:\n  somersault demo\n  somersault serve --data ./data\n  somersault query --stored people.ttl 'SELECT * { ?s ?p ?o } LIMIT 10'\n\nCommands that need a server look for it in --server, then in SOMERSAULT_SERVER, then at\nhttp://127.0.0.1:7878. They send the token in SOMERSAULT_TOKEN, if there is one.\n\nExit codes: 0 success, 1 failure, 2 wrong usage."
)]
pub(crate) struct Cli {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server: SPARQL, streams and continuous queries over HTTP
    #[command(
        after_help = "Examples:\n  somersault serve                                  in memory, on 127.0.0.1:7878\n  somersault serve --data ./data --workers 2        durable: acknowledged data survives a crash\n  somersault token create boss --right admin --data ./data\n  somersault serve --data ./data --auth tokens --listen 0.0.0.0:7878\n                                                    for other machines: each request needs a token\n  somersault serve --data ./data --auth tokens --listen 0.0.0.0:7878 --tls-cert server.pem --tls-key server.key\n                                                    the same with HTTPS"
    )]
    Serve(Box<ServeArgs>),
    /// Load RDF files into a server's stored graph, or into a data folder
    #[command(
        after_help = "Examples:\n  somersault load people.ttl places.nt.gz\n  somersault load history.nt.zst --graph http://example.org/history --data ./data"
    )]
    Load(LoadArgs),
    /// Answer a SPARQL query from a server, a data folder or files
    #[command(
        after_help = "Examples:\n  somersault query 'SELECT ?s { ?s a <http://xmlns.com/foaf/0.1/Person> } LIMIT 5'\n  somersault query --file q.rq --stored people.ttl --format json"
    )]
    Query(QueryArgs),
    /// Apply a SPARQL update to a server or a data folder
    #[command(
        after_help = "Examples:\n  somersault update 'INSERT DATA { <urn:a> <urn:knows> <urn:b> }'\n  somersault update 'CALL deposit(<urn:a>, 5)'      a call of a procedure; prints its answer"
    )]
    Update(UpdateArgs),
    /// Show how a query is answered: steps with estimates, or with actual rows and times
    #[command(
        after_help = "Example:\n  somersault explain --analyze --file q.rq --stored people.ttl"
    )]
    Explain(ExplainArgs),
    /// Register continuous queries, and declare streams, sources and sinks, from files
    #[command(
        after_help = "Examples:\n  somersault register streams.sql            CREATE STREAM statements\n  somersault register meters.sql             CREATE SOURCE and CREATE SINK statements\n  somersault register trending.csparql --name trending\n  somersault register trending.csparql --name trending --replace"
    )]
    Register(RegisterArgs),
    /// Push a file of statements into a stream
    #[command(
        after_help = "Examples:\n  somersault push http://example.org/likes likes.tsv\n  somersault push http://example.org/likes now.ttl --at 1700000000000\n  somersault push http://example.org/votes votes.ttl --messages --source booth --seq 1\n  somersault push http://example.org/readings readings.csv --documents --source gateway --seq 1\n\nRun the last two again if they were interrupted: messages that were taken are known by their numbers, and are\nnot taken twice. Refused messages are reported with their places; the others are taken all the same."
    )]
    Push(PushArgs),
    /// Show a server's streams and continuous queries: the time of each, and what it waits for
    #[command(after_help = "Example:\n  somersault status")]
    Status(StatusArgs),
    /// Let a server take a checkpoint, from which its next start begins
    #[command(
        after_help = "Examples:\n  somersault checkpoint\n  somersault checkpoint http://127.0.0.1:7979\n\nA server takes checkpoints by itself (serve --recovery-target, --checkpoint-every). This takes another one at once, for example before an upgrade."
    )]
    Checkpoint(CheckpointArgs),
    /// Print a continuous query's answers as they come
    #[command(
        after_help = "Examples:\n  somersault subscribe trending\n  somersault subscribe trending --after 1700000000000 --count 10 --format json\n  somersault subscribe trending --from-now --retry 600\n\nA lost connection is opened again, and continues where it stopped. Exit codes: 0 the count was reached or the query was dropped, 1 the server refused or could not be reached."
    )]
    Subscribe(SubscribeArgs),
    /// Create, read, acknowledge and delete durable subscriptions, whose answers the server keeps
    #[command(
        after_help = "Examples:\n  somersault subscriptions create trending billing --from kept --deadline 1h\n  somersault subscriptions read trending billing --ack >> answers.jsonl\n  somersault subscriptions list trending\n  somersault subscriptions delete trending billing"
    )]
    Subscriptions(SubscriptionsArgs),
    /// Call a procedure on a server, once or as often as a file says
    #[command(
        after_help = "Examples:\n  somersault call deposit account=http://example.org/a1 amount=20\n  somersault call deposit account='<http://example.org/a1>' amount=20 --key till/7\n  somersault call deposit --file deposits.ndjson\n  somersault call --file calls.ndjson\n\nA value is a number, true or false, an IRI in angle brackets, any other JSON (a text in quotation\nmarks, a term as in SPARQL 1.1 Query Results JSON), or a text, which is an IRI where the parameter\nis declared IRI. A call with a --key that was used is not run again: it is answered as before.\n\nEach line of a file is one call: {\"args\": {\"amount\": 20}, \"key\": \"till/7\"}; without a NAME the line\nhas it in \"call\". A line is printed for each, in their order.\n\nExit codes: 0 the calls committed, 3 a procedure aborted, 4 a call was refused, 1 the server could not\nbe reached or failed."
    )]
    Call(CallArgs),
    /// List, show, declare and drop the procedures of a server
    #[command(
        after_help = "Examples:\n  somersault procedures list\n  somersault procedures declare bank.sql\n  somersault procedures show deposit\n  somersault procedures drop deposit"
    )]
    Procedures(ProceduresArgs),
    /// List, show, declare, pause, resume and drop the dataflows of a server
    #[command(
        after_help = "Examples:\n  somersault dataflows list\n  somersault dataflows declare vote.sql\n  somersault dataflows aborted vote\n  somersault dataflows resume vote"
    )]
    Dataflows(DataflowsArgs),
    /// Make, list and revoke the tokens of a server, in its data folder or while it runs
    #[command(
        after_help = "Examples:\n  somersault token create boss --right admin --data ./data       before the first start\n  somersault token create till --right call:deposit --right read:default --expires 2160h\n  somersault token create rooms --right 'push:http://example.org/rooms/*'\n  somersault token list\n  somersault token revoke till\n\nWithout --data or --tokens a running server is asked, with the token in SOMERSAULT_TOKEN, which needs\nthe right admin. A token is printed once. A change of the file holds for a running server within a second.\n\nRights, for all names or, behind a colon, for one name or the names that begin as the text before a *:\n  read, write      a stored graph, by its IRI; the default graph is read:default, write:default\n  push             a stream: to send into it and to move its time\n  window           a stream: to read it in windows of queries and procedures\n  subscribe        a continuous query: to read its answers\n  register         a stream, query, procedure or dataflow: to declare, change and drop it\n  call             a procedure\n  remote, monitor, admin   without names: SERVICE and LOAD; counters and the condition; everything"
    )]
    Token(TokenArgs),
    /// List the sources of a server, which feed streams: how far each is, and what it refused
    #[command(
        after_help = "Example:\n  somersault sources\n  somersault sources --json\n\nThey are declared, dropped, paused and resumed by statements: somersault register FILE.\n  CREATE SOURCE meters INTO <http://example.org/m> FROM MQTT (url = 'mqtt://broker:1883', topic = 'meters/+')\n    FORMAT JSONLD DEAD LETTER INTO <http://example.org/bad>;\n  PAUSE SOURCE meters; RESUME SOURCE meters; DROP SOURCE meters"
    )]
    Sources(ConnectorsArgs),
    /// List the sinks of a server, which deliver answers: what each has delivered, and what failed
    #[command(
        after_help = "Example:\n  somersault sinks\n  somersault sinks --json\n\nThey are declared, dropped, paused and resumed by statements: somersault register FILE.\n  CREATE SINK bill FROM QUERY orders INTO WEBHOOK (url = 'http://127.0.0.1:9000/orders');\n  PAUSE SINK bill; RESUME SINK bill; DROP SINK bill"
    )]
    Sinks(ConnectorsArgs),
    /// Drop a continuous query, or a stream that no query windows
    #[command(
        after_help = "Examples:\n  somersault drop query trending\n  somersault drop query 'tea first'\n  somersault drop stream http://example.org/likes"
    )]
    Drop(DropArgs),
    /// Stop a continuous query until it is resumed
    #[command(after_help = "Example:\n  somersault pause trending")]
    Pause(QueryNameArgs),
    /// Resume a paused query; closes that passed during the pause are not answered later
    #[command(after_help = "Example:\n  somersault resume trending")]
    Resume(QueryNameArgs),
    /// Advance the time of streams: nothing earlier will come, so closes become due
    #[command(
        after_help = "Examples:\n  somersault advance 1700000002000 http://example.org/likes\n  somersault advance 2023-11-14T22:13:22Z        all streams that are pushed to"
    )]
    Advance(AdvanceArgs),
    /// Write the stored graphs as RDF, at one snapshot
    #[command(
        after_help = "Examples:\n  somersault export --output backup.nq\n  somersault export --data ./data --format trig\n  somersault export --graph http://example.org/history --format ttl\n  somersault export --default --format nt\n\nStreams and their windows are not stored graphs, and are not exported."
    )]
    Export(ExportArgs),
    /// Write all that is stored and declared as texts that other engines take
    #[command(
        after_help = "Examples:\n  somersault dump ./dump                                   of the running server\n  somersault dump ./dump --data ./data                     of a folder that no server has open\n  somersault dump - --only statements | zstd > stored.nq.zst\n\nThe folder gets statements.nq, all stored statements at one snapshot, and declarations.sql, all\nstreams and continuous queries. To take them elsewhere:\n  somersault load ./dump/statements.nq\n  somersault register ./dump/declarations.sql\n\nBlank nodes keep the labels by which the engine knows them. Statements that only windows show, and\nthe times of streams, are not in a dump; see somersault backup."
    )]
    Dump(DumpArgs),
    /// Copy a server's data folder while it runs, or a folder that no server has open
    #[command(
        after_help = "Examples:\n  somersault backup ./monday                               of the running server\n  somersault backup ./monday --server http://127.0.0.1:7878\n  somersault backup ./monday --data ./data                 of a folder that no server has open\n\nA backup is the newest checkpoint and the log behind it, through everything that was acknowledged\nwhen it began. It is verified in the end. Backups of a folder on the same file system share the\nfiles that never change with it (hard links); --copy copies them.\n\nsomersault restore makes a data folder of it. Do not serve a backup itself."
    )]
    Backup(BackupArgs),
    /// Make a data folder from a backup
    #[command(
        after_help = "Example:\n  somersault restore ./monday ./data\n  somersault serve --data ./data\n\nThe backup is verified first and stays as it is. The new folder goes on as a branch of its own: the\noriginal may go on too, and neither takes files of the other."
    )]
    Restore(RestoreArgs),
    /// Check every file of a data folder or a backup, without starting and without changing it
    #[command(
        after_help = "Examples:\n  somersault verify ./data\n  somersault verify ./monday --deep\n  somersault verify ./data --json\n\nReads every byte: checksums of all files, whether they belong together, and whether the log goes on\nbehind each checkpoint. --deep also begins an engine from it in memory, as a start would, and checks\nits invariants. A server that has the folder open must be stopped before; a backup can be verified\nat any time.\n\nExit codes: 0 nothing is wrong, 1 something is damaged or cannot be read."
    )]
    Verify(VerifyArgs),
    /// Replay recorded streams through queries, in process, and write every firing
    #[command(
        after_help = "Examples:\n  somersault replay --stored static.nt --stream http://example.org/likes=likes.tsv --query trending.csparql\n  somersault replay --create streams.sql --stream http://example.org/likes=likes.tsv.gz --query q.csparql --speed 10 --output answers.jsonl\n\nEach line of the output is one firing: query, close_ms, vars (the columns), n (rows, repeats counted), rows (distinct rows, terms as in N-Triples), mult (where rows repeat, how often each stands in the answer) and sha256 (of the rows with their counts)."
    )]
    Replay(ReplayArgs),
    /// Write a seeded social network: stored graph, five streams, queries
    #[command(
        after_help = "Example:\n  somersault generate ./network --users 1000 --seconds 5 --seed 1"
    )]
    Generate(GenerateArgs),
    /// Watch a social network live: five streams, nine continuous queries, one stored graph
    #[command(
        after_help = "Examples:\n  somersault demo\n  somersault demo --rate 133000 --users 10000 --duration 60"
    )]
    Demo(DemoArgs),
    /// Watch a voting show live: three procedures in one transaction for each vote, three boards
    #[command(
        after_help = "Examples:\n  somersault demo-vote\n  somersault demo-vote --votes 10000 --duration 60 --contestants 30\n\nAt the end it compares what the engine holds with what the votes lead to; where they differ the exit code is 1."
    )]
    DemoVote(DemoVoteArgs),
}

/// The place in which a client subcommand finds the data.
#[derive(Debug, Args)]
pub(crate) struct Target {
    /// URL of a running server [env: SOMERSAULT_SERVER] [default: http://127.0.0.1:7878]
    // Neither clap's `env` nor its default: either would exclude the other places.
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    pub(crate) server: Option<String>,
    /// A data folder that no server has open
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trust: Trust,
}

/// A running server.
#[derive(Debug, Args)]
pub(crate) struct Server {
    /// URL of a running server
    #[arg(long = "server", value_name = "URL", env = SERVER_VARIABLE, default_value = DEFAULT_SERVER)]
    pub(crate) url: String,
    #[command(flatten)]
    pub(crate) trust: Trust,
}

/// What is trusted at https addresses, and shown there.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// Certificates (PEM) that are trusted at https addresses, in place of the public authorities
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", env = "SOMERSAULT_CA_FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Certificate (PEM) that is shown at https addresses that ask for one
    #[cfg(feature = "tls")]
    #[arg(
        long,
        value_name = "FILE",
        env = "SOMERSAULT_CLIENT_CERT",
        requires = "client_key"
    )]
    pub(crate) client_cert: Option<PathBuf>,
    /// Private key (PEM) of --client-cert
    #[cfg(feature = "tls")]
    #[arg(
        long,
        value_name = "FILE",
        env = "SOMERSAULT_CLIENT_KEY",
        requires = "client_cert"
    )]
    pub(crate) client_key: Option<PathBuf>,
}

/// The text of a query, or the file that holds it.
#[derive(Debug, Args)]
pub(crate) struct Text {
    /// The query or update; `-` reads it from standard input
    #[arg(value_name = "TEXT", required_unless_present = "file")]
    pub(crate) text: Option<String>,
    /// A file that holds the query or update
    #[arg(long, short, value_name = "FILE", conflicts_with = "text")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Folder of the data; without it all data is in memory, and lost when the server stops
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Address to listen on. On a loopback address such as the default, other machines cannot reach
    /// the server
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) listen: String,
    /// Shards, each written by one worker
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,
    /// Threads that answer queries; by default one for each core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) query_threads: Option<u16>,
    /// Namespace of names without a prefix, which the dialect of the Wukong+S paper has
    #[arg(long, value_name = "IRI", value_parser = values::iri)]
    pub(crate) namespace: Option<String>,
    /// Longest time one query may take, in milliseconds; 60000 if not given
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) query_time_ms: Option<u64>,
    /// Longest time one firing of a continuous query may take, in milliseconds; 60000 if not given
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) firing_time_ms: Option<u64>,
    /// Longest time between two snapshots while statements wait to become visible, in milliseconds.
    /// A smaller value shows one-shot queries newer data, a larger one costs less processor time
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub(crate) freshness_ms: u64,
    /// How far an event time may lie ahead of both its stream's newest time and the clock, in
    /// milliseconds, for streams declared without AHEAD; a day if not given
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) time_ahead_ms: Option<u64>,
    /// Number of closes of one continuous query that a push or an advance may make due; 100000 if
    /// not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) closes_at_once: Option<u64>,
    /// Maximum number of rows of one answer; 10000000 if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) result_rows: Option<u64>,
    /// Largest body of a request, in bytes; 268435456 if not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) body_bytes: Option<u64>,
    /// Memory of pushes, loads and updates that may be on their way to the shards at a time, in
    /// bytes; further ones wait. 1073741824 (1 GiB) if not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) inflight_bytes: Option<u64>,
    /// Memory of replaced data that may be kept for readers of earlier snapshots, in bytes; beyond
    /// it, the one-shot queries with the oldest snapshot end with an error. 4294967296 (4 GiB) if
    /// not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) superseded_bytes: Option<u64>,
    /// Longest text of a query, an update or a declaration, in bytes; 1048576 if not given
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) text_bytes: Option<u64>,
    /// A checkpoint is taken when a restart would probably take longer than this: a number with ms,
    /// s, m or h. 5s if not given
    #[arg(long, value_name = "TIME", value_parser = values::duration, requires = "data")]
    pub(crate) recovery_target: Option<Duration>,
    /// A checkpoint is taken when the log has grown by this: a number with KiB, MiB, GiB or TiB.
    /// 4GiB if not given
    #[arg(long, value_name = "SIZE", value_parser = values::size, requires = "data")]
    pub(crate) checkpoint_every: Option<u64>,
    /// Certificate (PEM) with which the server speaks HTTPS, and behind it in the file those that
    /// lead to an authority. It is read again when it changes, and at SIGHUP
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key (PEM) of --tls-cert
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Authorities (PEM) of clients' certificates: a client without a certificate of one of them is
    /// refused
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Origin whose web pages may use the server, or `*` for any; may be repeated
    #[arg(long, value_name = "ORIGIN", value_parser = values::origin)]
    pub(crate) cors: Vec<String>,
    /// The server's URL as clients see it, behind a proxy; requests for its host are answered
    #[arg(long, value_name = "URL", value_parser = values::public_url)]
    pub(crate) public_url: Option<String>,
    /// Host, NAME or NAME:PORT, for which the server answers; may be repeated. A server on a
    /// loopback address answers for these, for the host of --public-url and for loopback names; any
    /// other server answers for all hosts until one is given
    #[arg(long, value_name = "HOST")]
    pub(crate) allowed_host: Vec<String>,
    /// How the server finds out who sends a request
    #[arg(long, value_enum, default_value_t = AuthMode::Off)]
    pub(crate) auth: AuthMode,
    /// File of the tokens; tokens.json in the data folder if not given
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// With --auth jwt: file of the public keys of the identity provider (a JSON Web Key Set). It
    /// is read again when it changes
    #[cfg(feature = "jwt")]
    #[arg(long, value_name = "FILE")]
    pub(crate) jwks: Option<PathBuf>,
    /// With --auth jwt: issuer (iss) of the tokens
    #[cfg(feature = "jwt")]
    #[arg(long, value_name = "TEXT")]
    pub(crate) jwt_issuer: Option<String>,
    /// With --auth jwt: audience (aud) that tokens must be for
    #[cfg(feature = "jwt")]
    #[arg(long, value_name = "TEXT")]
    pub(crate) jwt_audience: Option<String>,
    /// With --auth jwt: claim of the tokens that has the rights
    #[cfg(feature = "jwt")]
    #[arg(long, value_name = "CLAIM", default_value = "rights")]
    pub(crate) jwt_rights: String,
    /// Requests that one token may send in a second, with --auth; any number if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) token_requests: Option<u32>,
    /// Queries of one token that run or are being sent at one time, with --auth; any number if not
    /// given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) token_queries: Option<u16>,
    /// Listen on an address that other machines reach although any of them may then read and write
    /// everything
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Let SERVICE and LOAD fetch from other machines
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Host, NAME or NAME:PORT, that SERVICE and LOAD may reach, and no others; may be repeated
    #[arg(long, value_name = "HOST", requires = "allow_remote")]
    pub(crate) remote_host: Vec<String>,
    /// Sink for the answers of a query, name=NAME,query=QUERY,file=PATH or
    /// name=NAME,query=QUERY,webhook=URL; may be repeated. Each answer arrives, also after
    /// a restart, through the durable subscription NAME. Before the target: from=now|kept,
    /// empties=true|false, answers=N, bytes=N, deadline-ms=MS, when-full=end|skip, in-flight=N
    #[arg(long, value_name = "SINK")]
    pub(crate) sink: Vec<SinkSpec>,
    // For SERVICE, LOAD and webhooks.
    #[command(flatten)]
    pub(crate) trust: Trust,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// RDF files: .nt .nq .ttl .trig .rdf .jsonld, plain or .gz or .zst
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Graph for the statements of the default graph
    #[arg(long, value_name = "IRI")]
    pub(crate) graph: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) text: Text,
    #[command(flatten)]
    pub(crate) target: Target,
    /// RDF file to query in process; may be repeated
    // One file each time, so that the query may stand behind it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "data"])]
    pub(crate) stored: Vec<PathBuf>,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    pub(crate) text: Text,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    pub(crate) text: Text,
    #[command(flatten)]
    pub(crate) target: Target,
    /// RDF file to plan for, in process; may be repeated
    // One file each time, so that the query may stand behind it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "data"])]
    pub(crate) stored: Vec<PathBuf>,
    /// Run the query and show actual rows and times beside the estimates
    #[arg(long)]
    pub(crate) analyze: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterArgs {
    /// Files of statements separated by `;`: CREATE STREAM, SOURCE, SINK …, REGISTER …, queries,
    /// DROP, PAUSE, RESUME
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The files hold one query a line, as {"name": …, "query": …}; .gz and .zst too
    #[arg(long, conflicts_with_all = ["name", "replace"])]
    pub(crate) batch: bool,
    /// Replace the query of the same name, if there is one; no close is lost between the two
    #[arg(long)]
    pub(crate) replace: bool,
    /// Name of the query, if the text gives none
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Namespace of names without a prefix, the same as the server's; needed for streams that have
    /// such names
    #[arg(long, value_name = "IRI", value_parser = values::iri)]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    /// IRI of the stream
    pub(crate) stream: String,
    /// Lines of `t_ms<TAB>triple .`; with --at any RDF file; with --messages one of messages (.nt,
    /// .nq, .ttl, .trig, .ndjson, .jsonl); with --documents plain JSON or CSV; .gz and .zst too
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Event time of every statement in the file: milliseconds since 1970, or a date
    #[arg(long, value_name = "TIME", value_parser = times::instant, allow_hyphen_values = true)]
    pub(crate) at: Option<i64>,
    /// Name of the source, for exactly-once pushes
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// The file holds messages, each taken or refused by itself: RDF Messages, or lines of JSON-LD
    #[arg(long)]
    pub(crate) messages: bool,
    /// The file holds documents for a stream that is declared with MAPPED BY: a JSON document or an
    /// array of them (.json), one a line (.ndjson, .jsonl), or CSV behind a header (.csv)
    #[arg(long, conflicts_with = "messages")]
    pub(crate) documents: bool,
    /// Sequence number of the first push, message or document; later ones count up
    #[arg(long, value_name = "N", requires = "source")]
    pub(crate) seq: Option<u64>,
    /// Statements in one push
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) batch: u64,
    /// Then advance the stream to this event time: milliseconds since 1970, or a date
    #[arg(long, value_name = "TIME", value_parser = times::instant, allow_hyphen_values = true)]
    pub(crate) advance: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct ConnectorsArgs {
    /// Print everything that the server says, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    /// URL of the server, instead of --server
    #[arg(value_name = "URL")]
    pub(crate) address: Option<String>,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct SubscribeArgs {
    /// Name of the continuous query
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Only firings after this close: milliseconds since 1970, or a date
    #[arg(long, value_name = "TIME", value_parser = times::instant, allow_hyphen_values = true)]
    pub(crate) after: Option<i64>,
    /// Begin with the next firing, not with the oldest that is kept
    #[arg(long, conflicts_with = "after")]
    pub(crate) from_now: bool,
    /// Seconds after which to give up a server that does not answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) retry: u64,
    /// Stop after this number of firings
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Print empty answers too
    #[arg(long)]
    pub(crate) empties: bool,
    /// Format of each answer
    #[arg(long, value_enum, default_value_t = Stream::Table)]
    pub(crate) format: Stream,
}

#[derive(Debug, Args)]
pub(crate) struct SubscriptionsArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: SubscriptionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SubscriptionsCommand {
    /// List the durable subscriptions to a query, a line each
    #[command(after_help = "Example:\n  somersault subscriptions list trending")]
    List(ListSubscriptionsArgs),
    /// Show one: its place, the answers kept for it, its deadline and its limits
    #[command(
        after_help = "Examples:\n  somersault subscriptions show trending billing\n  somersault subscriptions show trending billing --json"
    )]
    Show(ShowSubscriptionArgs),
    /// Create one; the same terms again change nothing
    #[command(
        after_help = "Examples:\n  somersault subscriptions create trending billing\n  somersault subscriptions create trending billing --from kept --answers 100000 --bytes 1GiB\n  somersault subscriptions create trending billing --deadline 1h --when-full skip"
    )]
    Create(CreateSubscriptionArgs),
    /// Print the answers that are not acknowledged, then the live ones, as lines of JSON
    #[command(
        after_help = "Examples:\n  somersault subscriptions read trending billing --ack >> answers.jsonl\n  somersault subscriptions read trending billing --count 10 | jq .id\n\nEach line is one answer, with its id. With --ack an answer is acknowledged when its line is written and\nflushed, so after a crash it may be printed again, under the same id. Without --ack the next reader gets\nall of them again. A lost connection is opened again. Ctrl-C ends it between two answers.\n\nExit codes: 0 the count was reached, Ctrl-C, or the output was closed; 1 the subscription has ended or was\ndeleted, or the server refused or could not be reached."
    )]
    Read(ReadSubscriptionArgs),
    /// Acknowledge all answers up to one: they are not sent again
    #[command(
        after_help = "Example:\n  somersault subscriptions ack trending billing 3:1700000004000"
    )]
    Ack(AckSubscriptionArgs),
    /// Delete one: nothing is kept for it any more
    #[command(after_help = "Example:\n  somersault subscriptions delete trending billing")]
    Delete(SubscriptionName),
}

/// A durable subscription of a server.
#[derive(Debug, Args)]
pub(crate) struct SubscriptionName {
    /// Name of the continuous query
    pub(crate) query: String,
    /// Name of the subscription
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct ListSubscriptionsArgs {
    /// Name of the continuous query
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) server: Server,
    /// Print the server's JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowSubscriptionArgs {
    #[command(flatten)]
    pub(crate) of: SubscriptionName,
    /// Print the server's JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CreateSubscriptionArgs {
    #[command(flatten)]
    pub(crate) of: SubscriptionName,
    /// The first answer: `now`, that of the next firing to become due; `kept`, the oldest one that
    /// is kept; or the id of the answer before it
    #[arg(long, value_name = "now|kept|ID", default_value = "now")]
    pub(crate) from: String,
    /// The number of answers that are kept at most [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) answers: Option<u64>,
    /// The memory of the answers that are kept at most, such as 1GiB [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) bytes: Option<u64>,
    /// The time within which an answer is to be acknowledged, such as 1h
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) deadline: Option<Duration>,
    /// Keep empty answers too
    #[arg(long)]
    pub(crate) empties: bool,
    /// What happens at a limit
    #[arg(long, value_enum, default_value_t = AtLimit::End)]
    pub(crate) when_full: AtLimit,
}

/// What happens at a limit of a durable subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtLimit {
    /// The subscription ends
    End,
    /// The oldest answers are let go
    Skip,
}

#[derive(Debug, Args)]
pub(crate) struct ReadSubscriptionArgs {
    #[command(flatten)]
    pub(crate) of: SubscriptionName,
    /// Acknowledge each answer when its line is written and flushed
    #[arg(long)]
    pub(crate) ack: bool,
    /// Stop after this number of answers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Seconds after which to give up a server that does not answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) retry: u64,
}

#[derive(Debug, Args)]
pub(crate) struct AckSubscriptionArgs {
    #[command(flatten)]
    pub(crate) of: SubscriptionName,
    /// Id of the newest answer that is done
    pub(crate) id: String,
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// Name of the procedure; may be left out with --file
    #[arg(value_name = "NAME")]
    pub(crate) procedure: Option<String>,
    /// The arguments, by the names of the parameters
    #[arg(value_name = "KEY=VALUE", conflicts_with = "file")]
    pub(crate) arguments: Vec<String>,
    /// The key of the call: a source, a slash, and its number for the call
    #[arg(long, value_name = "SOURCE/SEQ", conflicts_with = "file")]
    pub(crate) key: Option<String>,
    /// A file of calls, a line of JSON each (.gz and .zst are unpacked)
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Run the call, undo it, and show what each step did
    #[arg(long, conflicts_with_all = ["file", "format", "key"])]
    pub(crate) explain: bool,
    /// Format of the answer
    #[arg(long, value_enum, default_value_t = Format::Table, conflicts_with = "file")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct ProceduresArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: ProceduresCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProceduresCommand {
    /// List the procedures, a line each
    #[command(after_help = "Example:\n  somersault procedures list")]
    List(WholeArgs),
    /// Show the text of one and how far it is
    #[command(after_help = "Example:\n  somersault procedures show deposit")]
    Show(ShowNamedArgs),
    /// Declare what files say: streams, procedures, dataflows
    #[command(
        after_help = "Example:\n  somersault procedures declare bank.sql\n\nThe same text again changes nothing; CREATE OR REPLACE PROCEDURE replaces another one."
    )]
    Declare(DeclareArgs),
    /// Drop one that no dataflow names
    #[command(after_help = "Example:\n  somersault procedures drop deposit")]
    Drop(DropProcedureArgs),
    /// Show the steps of one, with the plans of their queries
    #[command(after_help = "Example:\n  somersault procedures explain deposit")]
    Explain(NamedArgs),
    /// List the transactions that one aborted on batches
    #[command(after_help = "Example:\n  somersault procedures aborted validate")]
    Aborted(ShowNamedArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DataflowsArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: DataflowsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataflowsCommand {
    /// List the dataflows, a line each
    #[command(after_help = "Example:\n  somersault dataflows list")]
    List(WholeArgs),
    /// Show the text of one and its state
    #[command(after_help = "Example:\n  somersault dataflows show vote")]
    Show(ShowNamedArgs),
    /// Declare what files say: streams, procedures, dataflows
    #[command(after_help = "Example:\n  somersault dataflows declare vote.sql")]
    Declare(DeclareArgs),
    /// Drop one; its procedures stay
    #[command(after_help = "Example:\n  somersault dataflows drop vote")]
    Drop(NamedArgs),
    /// Let no round begin until resume
    #[command(after_help = "Example:\n  somersault dataflows pause vote")]
    Pause(NamedArgs),
    /// Let one go on that is paused, or that an abort has stopped
    #[command(after_help = "Example:\n  somersault dataflows resume vote")]
    Resume(NamedArgs),
    /// Draw the graph of one
    #[command(
        after_help = "Examples:\n  somersault dataflows explain vote\n  somersault dataflows explain vote --dot | dot -Tsvg > vote.svg"
    )]
    Explain(DrawArgs),
    /// List the transactions that aborted, and why
    #[command(after_help = "Example:\n  somersault dataflows aborted vote")]
    Aborted(ShowNamedArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WholeArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// Its name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct ShowNamedArgs {
    #[command(flatten)]
    pub(crate) of: NamedArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DrawArgs {
    #[command(flatten)]
    pub(crate) of: NamedArgs,
    /// Print DOT, for Graphviz
    #[arg(long)]
    pub(crate) dot: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DropProcedureArgs {
    #[command(flatten)]
    pub(crate) of: NamedArgs,
    /// Also while messages wait for it, which are given up
    #[arg(long)]
    pub(crate) discard: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeclareArgs {
    /// The files, in their order
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Namespace of bare names
    #[arg(long, value_name = "IRI")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) server: Server,
}

/// The kinds of declared things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Declared {
    /// A continuous query
    Query,
    /// A stream
    Stream,
}

#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// What to drop
    #[arg(value_enum)]
    pub(crate) kind: Declared,
    /// Name of the query, or IRI of the stream
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct QueryNameArgs {
    /// Name of the continuous query
    pub(crate) query: String,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct AdvanceArgs {
    /// The time: milliseconds since 1970, or a date
    #[arg(value_name = "TIME", value_parser = times::instant, allow_hyphen_values = true)]
    pub(crate) to: i64,
    /// IRIs of the streams; by default all streams that are pushed to
    #[arg(value_name = "STREAM")]
    pub(crate) streams: Vec<String>,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Only this named graph
    #[arg(long, value_name = "IRI")]
    pub(crate) graph: Option<String>,
    /// Only the default graph
    #[arg(long, conflicts_with = "graph")]
    pub(crate) default: bool,
    /// Format; by default that of the extension of --output, or nq
    #[arg(long, value_enum)]
    format: Option<GraphFormat>,
    /// Output file; standard output by default
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl ExportArgs {
    /// The format, by the option or by the ending of the file.
    pub(crate) fn format(&self) -> GraphFormat {
        let ending = (self.output.as_ref())
            .and_then(|path| path.extension()?.to_str())
            .and_then(|ending| GraphFormat::from_str(ending, true).ok());
        self.format.or(ending).unwrap_or(GraphFormat::Nq)
    }
}

#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// Folder to write to, which must be empty or not there; `-` writes to standard output
    #[arg(value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Only one of the two parts
    #[arg(long, value_enum, required_if_eq("out", "-"))]
    pub(crate) only: Option<DumpPart>,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// The parts of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DumpPart {
    /// All stored statements, as N-Quads
    Statements,
    /// All streams and continuous queries, as statements of the language
    Declarations,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Folder of the backup, which must be empty or not there
    #[arg(value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) target: Target,
    /// Copy files that could be shared with the data folder
    #[arg(long, requires = "data")]
    pub(crate) copy: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Folder of the backup
    #[arg(value_name = "BACKUP")]
    pub(crate) backup: PathBuf,
    /// The new data folder, which must be empty or not there
    #[arg(value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Copy files that could be shared with the backup
    #[arg(long)]
    pub(crate) copy: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The data folder or backup
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Also begin an engine from it in memory, and check its invariants
    #[arg(long)]
    pub(crate) deep: bool,
    /// Print the findings as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// RDF files loaded before the streams start
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) stored: Vec<PathBuf>,
    /// Graph that the stored files go into
    #[arg(long, value_name = "IRI")]
    pub(crate) graph: Option<String>,
    /// A stream and its file of `t_ms<TAB>triple .` lines, as IRI=FILE
    #[arg(long = "stream", value_name = "IRI=FILE", required = true)]
    pub(crate) streams: Vec<String>,
    /// Files with CREATE STREAM statements; a stream not declared there is timing, in batches of
    /// 100 ms
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) create: Vec<PathBuf>,
    /// Files with continuous queries; one without a name is named after its file
    #[arg(long = "query", value_name = "FILE", num_args = 1.., required = true)]
    pub(crate) queries: Vec<PathBuf>,
    /// 1 is real time, 10 is ten times as fast, max does not wait
    #[arg(long, value_enum, default_value_t = Speed::Max)]
    pub(crate) speed: Speed,
    /// Stop at this event time, and feed no statement from it on: milliseconds since 1970, or a
    /// date
    #[arg(long, value_name = "TIME", value_parser = times::instant, allow_hyphen_values = true)]
    pub(crate) until: Option<i64>,
    /// Namespace of names without a prefix, which the dialect of the Wukong+S paper has
    #[arg(long, value_name = "IRI", value_parser = values::iri)]
    pub(crate) namespace: Option<String>,
    /// File for the answers; standard output by default
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Shards, each written by one worker
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,
}

/// Size and shape of a generated network; the same numbers give the same data.
#[derive(Debug, Clone, Args)]
pub(crate) struct NetworkArgs {
    /// Users of the network
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) users: u32,
    /// Seed; the same seed and sizes give the same data
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Statements per second of all five streams together, in the proportions of the Wukong+S paper
    #[arg(long, default_value_t = 133_500, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) rate: u32,
    /// Seconds of past posts, photos and likes in the stored graph
    #[arg(long, default_value_t = 5.0)]
    pub(crate) history: f64,
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// Folder to write to
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    /// Seconds of streams
    #[arg(long, default_value_t = 5.0)]
    pub(crate) seconds: f64,
    /// Compress the data with gzip
    #[arg(long)]
    pub(crate) gz: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Users of the network
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub(crate) users: u32,
    /// Statements per second of all five streams together
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub(crate) rate: u32,
    /// Seconds to play, in real time
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) duration: u32,
    /// Seed; the same seed and sizes give the same data
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Address of the demo's HTTP server
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) listen: String,
    /// Shards, each written by one worker
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,
    /// Plain lines, one a second, even on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DemoVoteArgs {
    /// Votes per second
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) votes: u32,
    /// Seconds to play, in real time
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) duration: u32,
    /// Contestants; all but one are removed in the course of the show
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(4..=500))]
    pub(crate) contestants: u32,
    /// Seed; the same seed and sizes give the same votes
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Address of the demo's HTTP server
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7878")]
    pub(crate) listen: String,
    /// Shards, each written by one worker
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,
    /// Plain lines, one a second, even on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token, and print its text
    #[command(
        after_help = "Examples:\n  somersault token create boss --right admin --data ./data\n  SOMERSAULT_TOKEN=smr_… somersault token create till --right call:deposit --expires 24h"
    )]
    Create(TokenCreateArgs),
    /// List the tokens, a line each: id, name, when it ends, rights
    #[command(after_help = "Example:\n  somersault token list --data ./data")]
    List(TokenPlace),
    /// Revoke a token; its event streams end too
    #[command(after_help = "Example:\n  somersault token revoke till --data ./data")]
    Revoke {
        /// The name of the token, or its id
        #[arg(value_name = "NAME")]
        which: String,
        #[command(flatten)]
        place: TokenPlace,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Name of the token, for lists and logs
    pub(crate) name: String,
    /// A right, such as read, read:default or push:http://example.org/rooms/*; may be repeated
    #[arg(long, value_name = "RIGHT", required = true)]
    pub(crate) right: Vec<Right>,
    /// Time after which the token ends: a number with ms, s, m or h; without it the token does not
    /// end
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) expires: Option<Duration>,
    #[command(flatten)]
    pub(crate) place: TokenPlace,
}

/// Where the tokens are.
#[derive(Debug, Args)]
pub(crate) struct TokenPlace {
    /// URL of a running server [env: SOMERSAULT_SERVER] [default: http://127.0.0.1:7878]
    #[arg(long, value_name = "URL", conflicts_with_all = ["data", "tokens"])]
    pub(crate) server: Option<String>,
    /// Data folder of the server, whether it runs or not
    #[arg(long, value_name = "DIR", conflicts_with = "tokens")]
    pub(crate) data: Option<PathBuf>,
    /// File of tokens that the server is started with (serve --tokens)
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trust: Trust,
}

/// The variable that has the token with which client subcommands ask a server.
pub(crate) const TOKEN_VARIABLE: &str = "SOMERSAULT_TOKEN";
/// The variable that names the server where the command line does not.
pub(crate) const SERVER_VARIABLE: &str = "SOMERSAULT_SERVER";
/// The server that client subcommands use when neither the option nor the environment names one.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:7878";

/// How a server finds out who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthMode {
    /// It does not: whoever reaches it may do everything
    Off,
    /// By the token of the request (Authorization: Bearer smr_…)
    Tokens,
    /// By a signed token of an identity provider (Authorization: Bearer, a JWT)
    #[cfg(feature = "jwt")]
    Jwt,
}

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    Table,
    /// SPARQL results in JSON
    Json,
    /// SPARQL results in XML
    Xml,
    /// SPARQL results in CSV
    Csv,
    /// SPARQL results in TSV
    Tsv,
    /// N-Triples, for CONSTRUCT and DESCRIBE
    Nt,
    /// Turtle, for CONSTRUCT and DESCRIBE
    Ttl,
    /// N-Quads, for CONSTRUCT (with GRAPH too) and DESCRIBE
    Nq,
    /// TriG, for CONSTRUCT (with GRAPH too) and DESCRIBE
    Trig,
}

/// The format of graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// N-Quads
    Nq,
    /// TriG
    Trig,
    /// N-Triples, of one graph
    Nt,
    /// Turtle, of one graph
    Ttl,
}

/// The format of a subscription's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    /// A table for people
    Table,
    /// The server's events, one JSON object a line
    Json,
}

/// The speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Speed {
    /// Real time
    #[value(name = "1")]
    Real,
    /// Ten times real time
    #[value(name = "10")]
    Ten,
    /// As fast as the engine takes it
    #[value(name = "max")]
    Max,
}
