//! RDF in bodies: the parsers' errors in this server's words.

use crate::http::error::ApiError;
use oxrdfio::RdfSyntaxError;

/// Returns a 400 with the position, counted from 1 (the parsers count from 0).
pub(crate) fn syntax_error(error: &RdfSyntaxError) -> ApiError {
    let said = words(&error.to_string());
    match error.location() {
        Some(place) => {
            let (line, column) = (place.start.line + 1, place.start.column + 1);
            ApiError::bad_request(
                "bad_rdf",
                format!("line {line}, column {column} of the data: {said}"),
            )
            .at(line, column)
        }
        None => ApiError::bad_request("bad_rdf", said),
    }
}

/// Cuts off the position with which the parsers' messages begin.
fn words(message: &str) -> String {
    let said = message
        .strip_prefix("Parser error ")
        .and_then(|rest| rest.split_once(": "))
        .map_or(message, |(_place, said)| said);
    format!(
        "{}. Nothing of the body was taken.",
        said.trim_end_matches('.')
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxrdfio::{RdfFormat, RdfParser};

    #[test]
    fn the_place_is_given_once_and_counts_from_one() {
        let text =
            "<http://e/a> <http://e/b> <http://e/c> .\n<http://e/a> <http://e/b> nothing .\n";
        let error = RdfParser::from_format(RdfFormat::NTriples)
            .for_slice(text)
            .find_map(Result::err)
            .expect("the second line is malformed");
        let error = syntax_error(&error);
        assert_eq!(
            (
                error.to_json()["line"].as_u64(),
                error.to_json()["column"].as_u64()
            ),
            (Some(2), Some(27))
        );
        assert_eq!(
            error.message().matches("line ").count(),
            1,
            "{}",
            error.message()
        );
        assert!(
            !error.message().contains("Parser error"),
            "{}",
            error.message()
        );
    }
}
