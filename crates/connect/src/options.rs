//! The options of a connector, `name = value`: read by name and type, and refused if left over.
//!
//! The one thing to know before changing it: whoever reads options ends with [`Options::finish`].
//! An option that nothing has read is a mistake of the person who wrote it.

use somersault_lang::{ConnectorOption, Endpoint};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

/// The ends of the names of options whose values are never shown.
const SECRET: [&str; 3] = ["password", "secret", "token"];

/// The options of an endpoint. Reading one takes it out.
#[derive(Debug)]
pub(crate) struct Options {
    kind: String,
    left: RefCell<BTreeMap<String, String>>,
    /// The names that were asked for.
    known: RefCell<Vec<&'static str>>,
}

impl Options {
    pub(crate) fn of(endpoint: &Endpoint) -> Options {
        let options = endpoint.options.iter();
        Options {
            kind: endpoint.kind.clone(),
            left: RefCell::new(
                options
                    .map(|it| (it.name.clone(), it.value.clone()))
                    .collect(),
            ),
            known: RefCell::default(),
        }
    }

    /// Takes an option, if it is given.
    pub(crate) fn text(&self, name: &'static str) -> Option<String> {
        self.known.borrow_mut().push(name);
        self.left.borrow_mut().remove(name)
    }

    /// Takes an option that must be given.
    pub(crate) fn required(&self, name: &'static str) -> Result<String, String> {
        let given = self.text(name).filter(|value| !value.is_empty());
        given.ok_or_else(|| format!("{} needs the option {name}", self.kind))
    }

    /// Takes a whole number above 0.
    pub(crate) fn number(&self, name: &'static str) -> Result<Option<u64>, String> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        match value.parse().ok().filter(|number| *number > 0) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("{name} = {value}: it is a whole number above 0")),
        }
    }

    /// Takes `true` or `false`.
    pub(crate) fn flag(&self, name: &'static str) -> Result<Option<bool>, String> {
        match self.text(name).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => Err(format!("{name} = {other}: it is true or false")),
        }
    }

    /// Takes a duration: a number with ms, s, m, h or d.
    pub(crate) fn duration(&self, name: &'static str) -> Result<Option<Duration>, String> {
        let Some(value) = self.text(name) else {
            return Ok(None);
        };
        match duration(&value) {
            Some(duration) => Ok(Some(duration)),
            None => Err(format!(
                "{name} = {value}: it is a number with ms, s, m, h or d, and not 0"
            )),
        }
    }

    /// Refuses the options that nothing has taken.
    pub(crate) fn finish(self) -> Result<(), String> {
        match self.left.borrow().keys().next() {
            None => Ok(()),
            Some(name) => Err(format!(
                "{name} is no option of {}; known are {}",
                self.kind,
                self.known.borrow().join(", ")
            )),
        }
    }
}

fn duration(value: &str) -> Option<Duration> {
    let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = value.split_at(digits);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let ms = number.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    (ms > 0).then_some(Duration::from_millis(ms))
}

/// Returns the text of a declaration with `'***'` in the place of secrets.
pub(crate) fn without_secrets(text: &str, options: &[ConnectorOption]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for option in options {
        let value = (option.span.start >= at).then(|| text.get(at..option.span.start));
        if is_secret(&option.name)
            && let Some(before) = value.flatten()
        {
            shown.push_str(before);
            shown.push_str("'***'");
            at = option.span.end;
        }
    }
    shown.push_str(text.get(at..).unwrap_or_default());
    shown
}

fn is_secret(option: &str) -> bool {
    SECRET.iter().any(|end| option.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use somersault_lang::{Parser, Statement};

    fn source(options: &str) -> somersault_lang::CreateSource {
        let text = format!("CREATE SOURCE s INTO <urn:s> FROM X ({options}) FORMAT NQUADS");
        match Parser::new().parse_statement(&text) {
            Ok(Statement::CreateSource(source)) => source,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn options_have_types_and_none_is_left_over() {
        let source = source("n = 3, f = true, d = 2m, t = 'x', more = 1");
        let options = Options::of(&source.from);
        assert_eq!(options.number("n"), Ok(Some(3)));
        assert_eq!(options.flag("f"), Ok(Some(true)));
        assert_eq!(options.duration("d"), Ok(Some(Duration::from_secs(120))));
        assert_eq!(options.required("t"), Ok("x".to_owned()));
        assert_eq!(options.number("absent"), Ok(None));
        let refused = options.finish().expect_err("one is left");
        assert!(refused.contains("more is no option of X"), "{refused}");
        assert!(refused.contains("n, f, d, t, absent"), "{refused}");
    }

    #[test]
    fn wrong_values_are_named() {
        let source = source("n = 0, f = maybe, d = 10, e = 0s");
        let options = Options::of(&source.from);
        for refused in [
            options.number("n").expect_err("0"),
            options.flag("f").expect_err("maybe"),
            options.duration("d").expect_err("no unit"),
            options.duration("e").expect_err("nothing"),
            options.required("url").expect_err("absent"),
        ] {
            assert!(
                refused.contains(": it is") || refused.contains("url"),
                "{refused}"
            );
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let source = source("user = 'ann', password = \"p'w\", client-secret = x, topic = 't'");
        let shown = without_secrets(&source.text, &source.from.options);
        assert_eq!(
            shown,
            "CREATE SOURCE s INTO <urn:s> FROM X (user = 'ann', password = '***', client-secret = '***', topic = 't') FORMAT NQUADS"
        );
    }
}
