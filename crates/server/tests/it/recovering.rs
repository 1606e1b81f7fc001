//! While an engine is being opened the server already answers, and reports the progress.

use crate::client::{Reply, exchange, request_bytes};
use serde_json::json;
use somersault::OpenProgress;
use somersault_server::serve_while_opening;
use std::sync::Arc;

#[test]
fn a_server_that_recovers_says_so_and_refuses_all_else() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let (opened, opening) = tokio::sync::oneshot::channel::<u32>();
    let serving = runtime.spawn(async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        serve_while_opening(&listener, None, Arc::new(OpenProgress::default()), opening).await
    });
    let send = |method: &str, path: &str, body: Option<&[u8]>| -> Reply {
        exchange(address, &request_bytes(method, path, &[], body), false)
    };
    for _ in 0..2 {
        let health = send("GET", "/health", None);
        assert_eq!(health.status, 503);
        let said = health.json();
        assert_eq!(said["status"], "recovering");
        assert_eq!(
            (&said["progress"], &said["phase"]),
            (&json!(0.0), &json!("begun"))
        );
        assert_eq!(
            send("GET", "/livez", None).expect(200).json()["status"],
            "live"
        );
        let ready = send("GET", "/ready", None).expect(503);
        assert_eq!(ready.json()["status"], "recovering");
        let queried = send("POST", "/query", Some(b"ASK {}"));
        assert_eq!(queried.status, 503);
        assert_eq!(queried.json()["code"], "recovering");
        assert!(queried.header("retry-after").is_some());
    }
    opened.send(7).unwrap();
    assert_eq!(runtime.block_on(serving).unwrap(), Ok(7));
}
