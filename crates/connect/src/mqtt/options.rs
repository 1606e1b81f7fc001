//! The options of MQTT: the broker, the topic, and who connects.

use crate::options::Options;
use std::fmt;
use std::time::Duration;

/// The port of a broker, unless its address names another.
const PORT: u16 = 1883;
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// The longest client id that a broker has to take, in bytes, is 23; all known ones take this.
const LONGEST_ID: usize = 256;

/// How to reach a broker, and the topic.
#[derive(Clone, PartialEq, Eq)]
pub struct MqttOptions {
    /// The broker's host.
    pub host: String,
    /// The broker's port.
    pub port: u16,
    /// The topic to publish to, or the filter of the topics to subscribe to.
    pub topic: String,
    /// The client id. A broker has one connection of each at a time.
    pub client_id: String,
    /// The user and the password.
    pub credentials: Option<(String, String)>,
    /// The time between signs of life.
    pub keep_alive: Duration,
}

impl fmt::Debug for MqttOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MqttOptions")
            .field("broker", &self.broker())
            .field("topic", &self.topic)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

impl MqttOptions {
    /// The broker, for messages.
    pub(crate) fn broker(&self) -> String {
        format!("mqtt://{}:{}", self.host, self.port)
    }

    /// Reads the options of a source or a sink of this name.
    pub(crate) fn read(sort: &str, name: &str, options: &Options) -> Result<MqttOptions, String> {
        let url = options.required("url")?;
        let (host, port) = address(&url)?;
        let topic = options.required("topic")?;
        if sort == "sink" && topic.contains(['+', '#']) {
            return Err(format!(
                "topic = {topic}: a sink publishes to one topic, which has neither + nor #"
            ));
        }
        let client_id = options.text("client-id");
        let client_id = client_id.unwrap_or_else(|| format!("somersault-{sort}-{name}"));
        if client_id.is_empty() || client_id.len() > LONGEST_ID {
            return Err(format!("client-id: it has 1 to {LONGEST_ID} bytes"));
        }
        let credentials = match (options.text("user"), options.text("password")) {
            (Some(user), password) => Some((user, password.unwrap_or_default())),
            (None, None) => None,
            (None, Some(_)) => {
                return Err(
                    "password is given without user; MQTT takes a password with a user only"
                        .to_owned(),
                );
            }
        };
        let keep_alive = options.duration("keep-alive")?.unwrap_or(KEEP_ALIVE);
        if keep_alive < Duration::from_secs(1) || keep_alive > Duration::from_secs(65_535) {
            return Err("keep-alive: it is 1s to 65535s".to_owned());
        }
        Ok(MqttOptions {
            host,
            port,
            topic,
            client_id,
            credentials,
            keep_alive,
        })
    }
}

/// `mqtt://host[:port]`
fn address(url: &str) -> Result<(String, u16), String> {
    let expected = "it is an address like mqtt://broker.example.org:1883";
    let wrong = |why: &str| format!("url = {url}: {expected}{why}");
    let Some(rest) = url.strip_prefix("mqtt://") else {
        let why = match url.starts_with("mqtts://") {
            true => "; for TLS put a proxy in front of the broker",
            false => "",
        };
        return Err(wrong(why));
    };
    if rest.contains('@') {
        // The address is shown in listings, and these are not.
        return Err(
            "url: it holds a user or a password; write the options user and password instead"
                .to_owned(),
        );
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        // An IPv6 address without a port.
        Some((_, after)) if after.ends_with(']') => (rest, None),
        Some((host, port)) => (host, Some(port)),
        None => (rest, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host.contains('/') {
        return Err(wrong(""));
    }
    let port = match port {
        None => PORT,
        Some(port) => port.parse().map_err(|_| wrong(""))?,
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (url, host, port) in [
            ("mqtt://h", "h", 1883),
            ("mqtt://h/", "h", 1883),
            ("mqtt://h:99", "h", 99),
            ("mqtt://[::1]:99", "::1", 99),
            ("mqtt://[::1]", "::1", 1883),
        ] {
            assert_eq!(address(url), Ok((host.to_owned(), port)), "{url}");
        }
        for (url, said) in [
            ("h:1883", "mqtt://"),
            ("mqtts://h", "proxy"),
            ("mqtt://", "address"),
            ("mqtt://h:x", "address"),
            ("mqtt://ann:pw@h", "options user and password"),
        ] {
            let refused = address(url).expect_err(url);
            assert!(refused.contains(said), "{refused}");
            assert!(!refused.contains("pw@"), "{refused}");
        }
    }
}
