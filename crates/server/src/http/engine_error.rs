//! Maps the engine's errors to HTTP statuses. Errors that a client can cause are 4xx and carry the
//! engine's own sentence; 5xx is for faults that only the operator can mend.

use crate::http::error::ApiError;
use axum::http::StatusCode;
use somersault::{EngineError, LimitKind};

/// Seconds that a source should wait that has reached its stream's budget, or for which there was
/// no room.
const BUDGET_PAUSE_S: u32 = 1;
/// Seconds that a query should wait for others to end.
const QUERIES_PAUSE_S: u32 = 1;
/// Seconds that a client should wait while the server's disk is full.
const DISK_PAUSE_S: u32 = 30;
/// Seconds that a client should wait while the server has to be restarted.
const RESTART_PAUSE_S: u32 = 30;

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> ApiError {
        let sentence = error.to_string();
        let client = |status: StatusCode, code| ApiError::new(status, code, sentence.clone());
        match error {
            EngineError::Parse { line, column, .. } => {
                client(StatusCode::BAD_REQUEST, "syntax").at(line, column)
            }
            // Syntaxes that have no lines report line 0.
            EngineError::Data {
                line: 0, message, ..
            } => ApiError::bad_request("bad_rdf", message),
            EngineError::Data { line, column, .. } => {
                client(StatusCode::BAD_REQUEST, "bad_rdf").at(line, column)
            }
            EngineError::NotSupported(_) => client(StatusCode::BAD_REQUEST, "not_supported"),
            EngineError::Invalid(_) => client(StatusCode::BAD_REQUEST, "invalid"),
            EngineError::Late(_) => client(StatusCode::BAD_REQUEST, "late"),
            EngineError::NotFound(_) => client(StatusCode::NOT_FOUND, "not_found"),
            EngineError::Forbidden { right, .. } => {
                client(StatusCode::FORBIDDEN, "forbidden").detail("right", right)
            }
            EngineError::Conflict(_) | EngineError::UnderWay(_) => {
                client(StatusCode::CONFLICT, "conflict")
            }
            EngineError::Evaluation(_) => client(StatusCode::UNPROCESSABLE_ENTITY, "evaluation"),
            EngineError::Limit { which, .. } => limit(which, &sentence),
            EngineError::DiskFull(_) => {
                client(StatusCode::INSUFFICIENT_STORAGE, "disk_full").retry_after(DISK_PAUSE_S)
            }
            EngineError::DiskFailed(_) => {
                client(StatusCode::SERVICE_UNAVAILABLE, "disk_failed").retry_after(DISK_PAUSE_S)
            }
            EngineError::Failed(_) => {
                tracing::error!("a request was refused: {sentence}");
                client(StatusCode::SERVICE_UNAVAILABLE, "failed").retry_after(RESTART_PAUSE_S)
            }
            // The client is gone, so this answer is never read.
            EngineError::Cancelled => ApiError::busy(sentence, 1),
            EngineError::Stopped => ApiError::busy(
                "The server is stopping. Send the request again when it is back.",
                5,
            ),
            other => ApiError::internal(other),
        }
    }
}

/// Most limits are reached because of the request itself, so the status is 4xx. The sentence names
/// the limit and how to raise it; `limit` carries the limit's name.
fn limit(which: LimitKind, sentence: &str) -> ApiError {
    let (status, code) = match which {
        LimitKind::QueryTime => (StatusCode::UNPROCESSABLE_ENTITY, "query_time"),
        LimitKind::ResultRows => (StatusCode::UNPROCESSABLE_ENTITY, "result_rows"),
        LimitKind::QueryMemory => (StatusCode::UNPROCESSABLE_ENTITY, "query_memory"),
        LimitKind::SupersededBytes => (StatusCode::UNPROCESSABLE_ENTITY, "superseded_bytes"),
        LimitKind::Body => (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large"),
        LimitKind::QueryText => (StatusCode::PAYLOAD_TOO_LARGE, "text_too_large"),
        LimitKind::PushStatements => (StatusCode::PAYLOAD_TOO_LARGE, "push_statements"),
        LimitKind::StreamBudget => {
            return ApiError::new(StatusCode::TOO_MANY_REQUESTS, "stream_budget", sentence)
                .detail("limit", "stream_budget")
                .retry_after(BUDGET_PAUSE_S);
        }
        LimitKind::InflightBytes => {
            return ApiError::new(StatusCode::TOO_MANY_REQUESTS, "inflight_bytes", sentence)
                .detail("limit", "inflight_bytes")
                .retry_after(BUDGET_PAUSE_S);
        }
        LimitKind::UnreadAnswers => (StatusCode::TOO_MANY_REQUESTS, "unread_answers"),
        LimitKind::WaitingCalls => (StatusCode::TOO_MANY_REQUESTS, "waiting_calls"),
        LimitKind::NativeBody => (StatusCode::SERVICE_UNAVAILABLE, "no_body"),
        // Caused by other requests.
        LimitKind::ConcurrentQueries => {
            return ApiError::busy(sentence, QUERIES_PAUSE_S).detail("limit", "concurrent_queries");
        }
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "limit"),
    };
    ApiError::new(status, code, sentence).detail("limit", code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_places() {
        let cases = [
            (
                EngineError::Parse {
                    line: 2,
                    column: 5,
                    message: "x".into(),
                },
                400,
                "syntax",
            ),
            (
                EngineError::Data {
                    line: 0,
                    column: 0,
                    message: "x".into(),
                },
                400,
                "bad_rdf",
            ),
            (EngineError::Invalid("x".into()), 400, "invalid"),
            (EngineError::Late("x".into()), 400, "late"),
            (EngineError::NotFound("x".into()), 404, "not_found"),
            (EngineError::Conflict("x".into()), 409, "conflict"),
            (EngineError::UnderWay("x".into()), 409, "conflict"),
            (
                EngineError::Limit {
                    which: LimitKind::StreamBudget,
                    message: "x".into(),
                },
                429,
                "stream_budget",
            ),
            (
                EngineError::Limit {
                    which: LimitKind::QueryTime,
                    message: "x".into(),
                },
                422,
                "query_time",
            ),
            (
                EngineError::Limit {
                    which: LimitKind::ConcurrentQueries,
                    message: "x".into(),
                },
                503,
                "busy",
            ),
            (
                EngineError::Limit {
                    which: LimitKind::InflightBytes,
                    message: "x".into(),
                },
                429,
                "inflight_bytes",
            ),
            (EngineError::Failed("x".into()), 503, "failed"),
            (EngineError::DiskFull("x".into()), 507, "disk_full"),
            (EngineError::DiskFailed("x".into()), 503, "disk_failed"),
            (EngineError::Internal("x".into()), 500, "internal"),
        ];
        for (error, status, code) in cases {
            let answer = ApiError::from(error);
            assert_eq!(answer.status(), status);
            assert_eq!(answer.to_json()["code"], code);
        }
        let json = ApiError::from(EngineError::Parse {
            line: 2,
            column: 5,
            message: "x".into(),
        })
        .to_json();
        assert_eq!(
            (json["line"].as_u64(), json["column"].as_u64()),
            (Some(2), Some(5))
        );
    }
}
