//! What can go wrong with a run. Every one of these ends it: a bench does not measure around a failure.

use std::io;

use highwater_engine::batch::BuildError;
use highwater_replication::wire::{ApiKey, DecodeError, EncodeError, ErrorCode, FrameError, RequestError};

/// Why a run ended without figures.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("a batch cannot be built: {0}")]
    Build(#[from] BuildError),
    #[error("a request cannot be encoded: {0}")]
    Encode(#[from] EncodeError),
    #[error("an answer cannot be decoded: {0}")]
    Decode(#[from] DecodeError),
    #[error("a request cannot be decoded: {0}")]
    Request(#[from] RequestError),
    #[error("not a stream of frames: {0}")]
    Frame(#[from] FrameError),
    #[error("asked {asked}, something else was answered")]
    SomethingElse { asked: ApiKey },
    #[error("{what}: {code}{}", detail.as_deref().map(|detail| format!(" ({detail})")).unwrap_or_default())]
    Refused { what: String, code: ErrorCode, detail: Option<String> },
    #[error("{what}: not within {seconds} s{}", last.as_deref().map(|last| format!("; last: {last}")).unwrap_or_default())]
    TooLate { what: String, seconds: u64, last: Option<String> },
    #[error("{program} ended with {status}: {said}")]
    Ended { program: String, status: String, said: String },
    #[error("{program}: {said}")]
    Program { program: String, said: String },
    #[error("{topic}: the log is not what was acknowledged: {why}")]
    LogWrong { topic: String, why: String },
    #[error("a batch in the log: {0}")]
    Batch(String),
    #[error("the engine: {0}")]
    Engine(String),
}

impl BenchError {
    /// For `map_err` on what the system refused.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// For `map_err` on what the engine refused.
    pub(crate) fn engine(error: impl std::error::Error) -> Self {
        Self::Engine(error.to_string())
    }

    /// An error code, unless it is none.
    pub(crate) fn check(what: &str, code: ErrorCode, detail: Option<&str>) -> Result<(), Self> {
        if code.is_none() {
            return Ok(());
        }
        Err(Self::Refused { what: what.to_owned(), code, detail: detail.map(ToOwned::to_owned) })
    }
}

/// What most of the bench answers.
pub(crate) type Result<T, E = BenchError> = std::result::Result<T, E>;
