//! The signals at which a program ends in order, or reads its certificates again.

use somersault_server::Tls;
use std::sync::Arc;

/// Completes at Ctrl-C, and at SIGTERM and SIGHUP where there are such signals. They are listened
/// for from the call on. A server with certificates reads them again at SIGHUP, and goes on.
#[cfg(unix)]
pub(crate) fn stop_signal(tls: Option<Arc<Tls>>) -> impl Future<Output = ()> + use<> {
    use tokio::signal::unix::SignalKind;
    let mut interrupt = Signals::of(SignalKind::interrupt(), "SIGINT");
    let mut terminate = Signals::of(SignalKind::terminate(), "SIGTERM");
    let mut hangup = match tls.is_some() || !is_hangup_ignored() {
        true => Signals::of(SignalKind::hangup(), "SIGHUP"),
        false => Signals(None),
    };
    async move {
        loop {
            tokio::select! {
                () = interrupt.next() => return,
                () = terminate.next() => return,
                () = hangup.next() => match &tls {
                    Some(tls) => tls.reload(),
                    None => return,
                },
            }
        }
    }
}

#[cfg(not(unix))]
pub(crate) async fn stop_signal(_tls: Option<Arc<Tls>>) {
    let _ = tokio::signal::ctrl_c().await;
}

/// The signals of one kind; `None` = they are not listened for.
#[cfg(unix)]
struct Signals(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Signals {
    fn of(kind: tokio::signal::unix::SignalKind, name: &str) -> Signals {
        let signals = tokio::signal::unix::signal(kind).inspect_err(|error| {
            eprintln!("somersault: {name} will end the program at once: {error}");
        });
        Signals(signals.ok())
    }

    /// Completes at the next one.
    async fn next(&mut self) {
        let came = match &mut self.0 {
            Some(signals) => signals.recv().await,
            None => None,
        };
        if came.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// Whether the program was started to outlive its terminal, as `nohup` does it.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    // Without such a file, a program cannot tell without `unsafe`, and the signal counts.
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else {
        return false;
    };
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is signal 1, the lowest bit.
    ignored.is_some_and(|mask| mask & 1 == 1)
}
