//! What a source is: read from `CREATE SOURCE`.

#[cfg(feature = "mqtt")]
use crate::mqtt::{MqttOptions, MqttSource};
use crate::options::Options;
use crate::source::Source;
use crate::spec::unknown_kind;
use crate::tail::{TailSource, TailStart};
use somersault::MessageSyntax;
use somersault_lang::CreateSource;
use std::path::PathBuf;

/// The longest name of a source, in bytes.
const LONGEST_NAME: usize = 200;

/// A source: its name, its stream, and where its messages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceSpec {
    /// Its name.
    pub name: String,
    /// The stream that it feeds, by IRI.
    pub stream: String,
    /// Where its messages come from.
    pub origin: SourceOrigin,
    /// How they are written.
    pub format: SourceFormat,
    /// The stream that is told of refused messages, by IRI.
    pub dead_letter: Option<String>,
}

/// Where the messages of a source come from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceOrigin {
    /// The lines of this file.
    File {
        /// The file.
        path: PathBuf,
        /// Where its lines begin.
        start: TailStart,
    },
    /// Topics of an MQTT broker.
    #[cfg(feature = "mqtt")]
    Mqtt(MqttOptions),
}

/// How the messages of a source are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceFormat {
    /// One message of this syntax each.
    Message(MessageSyntax),
    /// One JSON document each, which the stream maps (`MAPPED BY`, `CONTEXT`).
    Document,
    /// Lines `t_ms<TAB>statement .`, as `POST /streams/{name}` takes them.
    TimedLines,
}

/// The kinds of sources that this program has.
const KINDS: &[&str] = &[
    "FILE",
    #[cfg(feature = "mqtt")]
    "MQTT",
];

/// The words for formats.
const FORMATS: [(&str, SourceFormat); 7] = [
    ("NTRIPLES", SourceFormat::Message(MessageSyntax::NTriples)),
    ("NQUADS", SourceFormat::Message(MessageSyntax::NQuads)),
    ("TURTLE", SourceFormat::Message(MessageSyntax::Turtle)),
    ("TRIG", SourceFormat::Message(MessageSyntax::TriG)),
    ("JSONLD", SourceFormat::Message(MessageSyntax::NdJsonLd)),
    ("JSON", SourceFormat::Document),
    ("TSV", SourceFormat::TimedLines),
];

impl SourceFormat {
    /// Reads a format: a word, or a media type.
    ///
    /// # Errors
    /// A sentence that lists the formats.
    pub fn of_text(text: &str) -> Result<SourceFormat, String> {
        let word = FORMATS
            .iter()
            .find(|(word, _)| word.eq_ignore_ascii_case(text));
        let by_media_type = || {
            let name = text.split(';').next().unwrap_or_default().trim();
            match name.to_ascii_lowercase().as_str() {
                "text/tab-separated-values" => Some(SourceFormat::TimedLines),
                "application/json" => Some(SourceFormat::Document),
                _ => MessageSyntax::of_media_type(text).map(SourceFormat::Message),
            }
        };
        let found = word.map(|(_, format)| *format).or_else(by_media_type);
        found.ok_or_else(|| {
            let words: Vec<&str> = FORMATS.iter().map(|(word, _)| *word).collect();
            format!(
                "FORMAT {text}: there is no such format; known are {}, and their media types, such as '{}'",
                words.join(", "),
                MessageSyntax::NQuads.media_type()
            )
        })
    }
}

impl SourceSpec {
    /// Reads a CREATE SOURCE.
    ///
    /// # Errors
    /// A sentence that names the option, the kind or the format that cannot be.
    pub fn of(declared: &CreateSource) -> Result<SourceSpec, String> {
        let name = &declared.name;
        if name.trim().is_empty()
            || name.len() > LONGEST_NAME
            || matches!(name.as_str(), "." | "..")
        {
            return Err(format!(
                "the name of a source has 1 to {LONGEST_NAME} bytes, not only blanks, and is neither . nor .."
            ));
        }
        let stream = declared.stream.as_str();
        let dead_letter = declared.dead_letter.as_ref().map(|iri| iri.as_str());
        if dead_letter == Some(stream) {
            return Err(format!(
                "the dead letters of {name} would go into <{stream}>, where its messages go; name another stream"
            ));
        }
        let format = declared.from.format.as_deref().unwrap_or_default();
        let options = Options::of(&declared.from);
        let spec = SourceSpec {
            name: name.clone(),
            stream: stream.to_owned(),
            origin: SourceOrigin::read(name, &declared.from.kind, &options)?,
            format: SourceFormat::of_text(format)?,
            dead_letter: dead_letter.map(str::to_owned),
        };
        options.finish()?;
        Ok(spec)
    }

    /// Returns the source.
    pub fn source(&self) -> Box<dyn Source> {
        match &self.origin {
            SourceOrigin::File { path, start } => {
                Box::new(TailSource::new(&self.name, path, *start))
            }
            #[cfg(feature = "mqtt")]
            SourceOrigin::Mqtt(options) => Box::new(MqttSource::new(&self.name, options.clone())),
        }
    }
}

impl SourceOrigin {
    fn read(name: &str, kind: &str, options: &Options) -> Result<SourceOrigin, String> {
        match kind {
            "FILE" => Ok(SourceOrigin::File {
                path: options.required("path")?.into(),
                start: match options.text("from").as_deref() {
                    None | Some("begin") => TailStart::Begin,
                    Some("end") => TailStart::End,
                    Some(other) => return Err(format!("from = {other}: it is begin or end")),
                },
            }),
            #[cfg(feature = "mqtt")]
            "MQTT" => Ok(SourceOrigin::Mqtt(MqttOptions::read(
                "source", name, options,
            )?)),
            other => Err(unknown_kind(other, "sources", KINDS, name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_lang::{Parser, Statement};

    fn declared(rest: &str) -> Result<SourceSpec, String> {
        let text = format!("CREATE SOURCE s INTO <urn:s> {rest}");
        match Parser::new().parse_statement(&text) {
            Ok(Statement::CreateSource(source)) => SourceSpec::of(&source),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_file_is_followed_from_its_beginning_or_end() {
        for (options, start) in [
            ("path = '/x'", TailStart::Begin),
            ("path = '/x', from = end", TailStart::End),
        ] {
            let text = format!("FROM FILE ({options}) FORMAT nquads DEAD LETTER INTO <urn:bad>");
            let spec = declared(&text).expect("a source");
            let path = "/x".into();
            assert_eq!(spec.origin, SourceOrigin::File { path, start });
            assert_eq!(spec.dead_letter.as_deref(), Some("urn:bad"));
        }
    }

    #[test]
    fn formats_are_words_or_media_types() {
        for (word, format) in FORMATS {
            assert_eq!(SourceFormat::of_text(&word.to_lowercase()), Ok(format));
        }
        for syntax in MessageSyntax::ALL {
            let format = SourceFormat::of_text(syntax.media_type());
            assert_eq!(format, Ok(SourceFormat::Message(syntax)));
        }
        let lines = SourceFormat::of_text("text/tab-separated-values; charset=utf-8");
        assert_eq!(lines, Ok(SourceFormat::TimedLines));
        let refused =
            SourceFormat::of_text("text/turtle").expect_err("it says nothing of messages");
        assert!(refused.contains("TURTLE"), "{refused}");
    }

    #[test]
    fn a_wrong_source_is_refused_with_a_sentence() {
        for (text, said) in [
            ("FROM CARRIER (a = 1) FORMAT NQUADS", "CARRIER"),
            ("FROM FILE () FORMAT NQUADS", "needs the option path"),
            (
                "FROM FILE (path = 'x', from = middle) FORMAT NQUADS",
                "begin or end",
            ),
            (
                "FROM FILE (path = 'x', topic = 'y') FORMAT NQUADS",
                "topic is no option of FILE",
            ),
            ("FROM FILE (path = 'x') FORMAT XML", "FORMAT XML"),
            (
                "FROM FILE (path = 'x') FORMAT TSV DEAD LETTER INTO <urn:s>",
                "another stream",
            ),
        ] {
            let refused = declared(text).expect_err(text);
            assert!(refused.contains(said), "{text}: {refused}");
        }
    }
}
