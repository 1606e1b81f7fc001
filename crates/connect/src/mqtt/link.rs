//! A connection to a broker: the client's thread, and the events that matter here.
//!
//! The one thing to know before changing it: a link ends with its first fault, and the next one
//! begins without what was on its way. An acknowledgement that outlives its session could
//! acknowledge another message.

use super::MqttOptions;
use rumqttc::{
    Client, Connection, Event, MqttOptions as Settings, Outgoing, Packet, Publish,
    SubscribeReasonCode,
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The greatest packet of the protocol.
const GREATEST_PACKET: usize = 268_435_455;
/// Requests to the client that may wait.
const REQUESTS: usize = 1_024;
/// Events that may wait. Behind them the broker waits.
const EVENTS: usize = 256;
/// The time within which a broker has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a broker has said.
#[derive(Debug)]
pub(super) enum LinkEvent {
    /// It has accepted the client; whether it knows its session.
    Connected { knows_session: bool },
    /// It has answered a subscription; whether it takes it.
    Subscribed(bool),
    /// It brings a message.
    Message(Publish),
    /// A message of ours is on its way, under this number.
    Sent(u16),
    /// It has this message.
    Acknowledged(u16),
    /// The connection is alive.
    Alive,
}

/// A connection to a broker.
pub(super) struct Link {
    client: Option<Client>,
    events: Option<Receiver<Result<LinkEvent, String>>>,
    thread: Option<JoinHandle<()>>,
    /// Whether the broker knew the client's session.
    pub(super) knows_session: bool,
    /// Messages that came before they were asked for.
    early: Vec<Publish>,
}

impl Link {
    /// Connects.
    pub(super) fn open(options: &MqttOptions, keeps_session: bool) -> Result<Link, String> {
        let mut settings = Settings::new(&options.client_id, &options.host, options.port);
        settings.set_keep_alive(options.keep_alive);
        settings.set_clean_session(!keeps_session);
        settings.set_manual_acks(true);
        settings.set_max_packet_size(GREATEST_PACKET, GREATEST_PACKET);
        if let Some((user, password)) = &options.credentials {
            settings.set_credentials(user, password);
        }
        let (client, connection) = Client::new(settings, REQUESTS);
        let (sender, events) = sync_channel(EVENTS);
        let thread = thread::Builder::new()
            .name("mqtt".to_owned())
            .spawn(move || pass_on(connection, &sender))
            .map_err(|error| error.to_string())?;
        let mut link = Link {
            client: Some(client),
            events: Some(events),
            thread: Some(thread),
            knows_session: false,
            early: Vec::new(),
        };
        let knows_session = link.wait_for("the connection", |event| match event {
            LinkEvent::Connected { knows_session } => Some(knows_session),
            _ => None,
        })?;
        link.knows_session = knows_session;
        Ok(link)
    }

    /// Subscribes to the topics of a filter.
    pub(super) fn subscribe(&mut self, filter: &str) -> Result<(), String> {
        let client = self.client()?;
        let asked = client.try_subscribe(filter, rumqttc::QoS::AtLeastOnce);
        asked.map_err(|_| format!("\"{filter}\" is no filter of topics"))?;
        let is_taken = self.wait_for("the subscription", |event| match event {
            LinkEvent::Subscribed(is_taken) => Some(is_taken),
            _ => None,
        })?;
        match is_taken {
            true => Ok(()),
            false => Err(format!("it refuses the subscription to \"{filter}\"")),
        }
    }

    /// Ends the subscription to a filter.
    pub(super) fn unsubscribe(&self, filter: &str) -> Result<(), String> {
        let asked = self.client()?.try_unsubscribe(filter);
        asked.map_err(|error| error.to_string())
    }

    /// The next event; `None` if there is none within this time.
    pub(super) fn next(&mut self, time: Duration) -> Result<Option<LinkEvent>, String> {
        if !self.early.is_empty() {
            return Ok(Some(LinkEvent::Message(self.early.remove(0))));
        }
        let Some(events) = &self.events else {
            return Ok(None);
        };
        match events.recv_timeout(time) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("the connection has ended".to_owned()),
        }
    }

    /// Acknowledges a message.
    pub(super) fn acknowledge(&self, message: &Publish) -> Result<(), String> {
        let sent = self.client()?.try_ack(message);
        sent.map_err(|error| error.to_string())
    }

    /// Publishes a message. Its number follows as an event.
    pub(super) fn publish(&self, topic: &str, message: Vec<u8>) -> Result<(), String> {
        let client = self.client()?;
        let sent = client.try_publish(topic, rumqttc::QoS::AtLeastOnce, false, message);
        sent.map_err(|error| error.to_string())
    }

    fn client(&self) -> Result<&Client, String> {
        let ended = || "the connection has ended".to_owned();
        self.client.as_ref().ok_or_else(ended)
    }

    /// Waits for an answer of the broker, and keeps the messages that come before it.
    fn wait_for<T>(
        &mut self,
        what: &str,
        mut answer: impl FnMut(LinkEvent) -> Option<T>,
    ) -> Result<T, String> {
        let until = Instant::now() + PATIENCE;
        let mut early = std::mem::take(&mut self.early);
        let mut found = None;
        while found.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            match self.next(left)? {
                None => {
                    return Err(format!(
                        "it has not answered {what} within {} s",
                        PATIENCE.as_secs()
                    ));
                }
                Some(LinkEvent::Message(message)) => early.push(message),
                Some(event) => found = answer(event),
            }
        }
        self.early = early;
        found.ok_or_else(|| "the connection has ended".to_owned())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The broker ends a connection that says goodbye, and the thread ends with it, at the
        // latest with the next sign of life. Until then no other link may begin: a broker has one
        // connection of a client id.
        if let Some(client) = self.client.take() {
            // The connection may have ended; then there is nothing to end.
            let _ = client.try_disconnect();
        }
        self.events = None;
        if self.thread.take().is_some_and(|it| it.join().is_err()) {
            tracing::error!("the thread of an MQTT connection panicked");
        }
    }
}

/// Passes events on, up to the first fault.
fn pass_on(mut connection: Connection, events: &SyncSender<Result<LinkEvent, String>>) {
    for event in connection.iter() {
        let passed = match event {
            Ok(event) => match of_interest(event) {
                Some(event) => events.send(Ok(event)),
                // Without room it is not worth waiting; without a receiver the link is gone.
                None => match events.try_send(Ok(LinkEvent::Alive)) {
                    Err(TrySendError::Disconnected(_)) => return,
                    Ok(()) | Err(TrySendError::Full(_)) => continue,
                },
            },
            Err(fault) => {
                // The link may have been dropped.
                let _ = events.send(Err(fault.to_string()));
                return;
            }
        };
        if passed.is_err() {
            return;
        }
    }
}

fn of_interest(event: Event) -> Option<LinkEvent> {
    match event {
        Event::Incoming(Packet::ConnAck(answer)) => Some(LinkEvent::Connected {
            knows_session: answer.session_present,
        }),
        Event::Incoming(Packet::SubAck(answer)) => {
            let is_taken = |code: &SubscribeReasonCode| *code != SubscribeReasonCode::Failure;
            Some(LinkEvent::Subscribed(
                answer.return_codes.iter().all(is_taken),
            ))
        }
        Event::Incoming(Packet::Publish(message)) => Some(LinkEvent::Message(message)),
        Event::Incoming(Packet::PubAck(answer)) => Some(LinkEvent::Acknowledged(answer.pkid)),
        Event::Outgoing(Outgoing::Publish(number)) => Some(LinkEvent::Sent(number)),
        _ => None,
    }
}
