//! Packed bodies, unpacked: a body in memory, and one that is read while it comes.
//!
//! The one thing to know before changing it: the limit on a body holds for its unpacked bytes, and
//! unpacking ends there. A few kilobytes can unpack to any length.

use crate::http::coding::Coding;
use crate::http::error::{ApiError, ApiResult};
use crate::http::feed::BodyFeed;
use flate2::read::MultiGzDecoder;
use std::io::{self, BufReader, Read};

/// Bytes that are unpacked at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Unpacks a body of this coding, and hands on the pieces.
///
/// # Errors
/// 400 if it is not packed so, and those of `take`, which ends it.
pub(crate) fn unpack(
    packed: &[u8],
    coding: Coding,
    mut take: impl FnMut(&[u8]) -> ApiResult<()>,
) -> ApiResult<()> {
    let mut reader: Box<dyn Read + '_> = match coding {
        Coding::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Coding::Zstd => Box::new(zstd::stream::read::Decoder::new(packed).map_err(malformed)?),
    };
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match reader.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(length) => take(&piece[..length])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(malformed(error)),
        }
    }
}

fn malformed(error: io::Error) -> ApiError {
    ApiError::bad_request(
        "bad_encoding",
        format!(
            "The body is not packed as its Content-Encoding says ({error}). Pack it so, or leave the header out."
        ),
    )
}

/// The reader of a body that may be packed, while it comes.
pub(crate) struct UnpackedFeed {
    source: PackedSource,
    /// The bytes that may still be unpacked; `None` for a body that is not packed.
    left: Option<u64>,
    /// The refusal of a body that unpacks to more than the limit.
    too_large: fn(u64, Option<u64>) -> ApiError,
    limit: u64,
    failure: Option<ApiError>,
}

enum PackedSource {
    Plain(BodyFeed),
    /// Nothing has been read: a decoder of gzip reads as soon as it is made, and that may block.
    Unread(Option<BodyFeed>),
    Gzip(Box<MultiGzDecoder<BodyFeed>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, BufReader<BodyFeed>>>),
}

impl UnpackedFeed {
    /// A reader of this body, which unpacks to `limit` bytes at most if it is packed.
    ///
    /// # Errors
    /// 500 if there is no memory for unpacking.
    pub(crate) fn new(
        feed: BodyFeed,
        coding: Option<Coding>,
        limit: u64,
        too_large: fn(u64, Option<u64>) -> ApiError,
    ) -> ApiResult<UnpackedFeed> {
        let source = match coding {
            None => PackedSource::Plain(feed),
            Some(Coding::Gzip) => PackedSource::Unread(Some(feed)),
            Some(Coding::Zstd) => {
                let decoder = zstd::stream::read::Decoder::new(feed);
                PackedSource::Zstd(Box::new(decoder.map_err(ApiError::internal)?))
            }
        };
        Ok(UnpackedFeed {
            source,
            left: coding.map(|_| limit),
            too_large,
            limit,
            failure: None,
        })
    }

    /// Why the body could not be read on, if it could not.
    pub(crate) fn take_failure(&mut self) -> Option<ApiError> {
        let of_feed = match &mut self.source {
            PackedSource::Plain(feed) => feed.take_failure(),
            PackedSource::Unread(feed) => feed.as_mut().and_then(BodyFeed::take_failure),
            PackedSource::Gzip(decoder) => decoder.get_mut().take_failure(),
            PackedSource::Zstd(decoder) => decoder.get_mut().get_mut().take_failure(),
        };
        of_feed.or_else(|| self.failure.take())
    }

    fn failed(&mut self, failure: ApiError) -> io::Error {
        let error = io::Error::other(failure.to_string());
        self.failure = Some(failure);
        error
    }
}

impl Read for UnpackedFeed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let PackedSource::Unread(feed) = &mut self.source
            && let Some(feed) = feed.take()
        {
            self.source = PackedSource::Gzip(Box::new(MultiGzDecoder::new(feed)));
        }
        let read = match &mut self.source {
            PackedSource::Unread(_) => return Ok(0),
            PackedSource::Plain(feed) => return feed.read(buffer),
            PackedSource::Gzip(decoder) => decoder.read(buffer),
            PackedSource::Zstd(decoder) => decoder.read(buffer),
        };
        let length = match read {
            Ok(length) => length,
            Err(error) => {
                // The feed's own failure says more, if it has one.
                let kind = error.kind();
                if kind != io::ErrorKind::Interrupted && kind != io::ErrorKind::ConnectionAborted {
                    self.failure = Some(malformed(io::Error::new(kind, error.to_string())));
                }
                return Err(error);
            }
        };
        let left = self.left.unwrap_or(u64::MAX).checked_sub(length as u64);
        match left {
            Some(left) => self.left = Some(left),
            None => {
                let refused = (self.too_large)(self.limit, None);
                return Err(self.failed(refused));
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::feed::{FeedPart, body_feed};
    use axum::body::Bytes;
    use axum::http::StatusCode;
    use proptest::prelude::*;
    use std::io::Write;

    fn packed(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        match coding {
            Coding::Gzip => {
                let level = flate2::Compression::default();
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(bytes).expect("memory");
                encoder.finish().expect("memory")
            }
            Coding::Zstd => zstd::stream::encode_all(bytes, 3).expect("memory"),
        }
    }

    fn unpacked(coding: Coding, bytes: &[u8]) -> ApiResult<Vec<u8>> {
        let mut all = Vec::new();
        unpack(bytes, coding, |piece| {
            all.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(all)
    }

    fn read(coding: Coding, bytes: &[u8], limit: u64) -> Result<Vec<u8>, ApiError> {
        let refuse = |_: u64, _: Option<u64>| {
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "")
        };
        let (sender, feed) = body_feed();
        let bytes = Bytes::copy_from_slice(bytes);
        assert!(sender.try_send(FeedPart::Bytes(bytes)).is_ok());
        assert!(sender.try_send(FeedPart::End).is_ok());
        let mut feed = UnpackedFeed::new(feed, Some(coding), limit, refuse).expect("memory");
        let mut all = Vec::new();
        match feed.read_to_end(&mut all) {
            Ok(_) => Ok(all),
            Err(_) => Err(feed.take_failure().expect("it says why")),
        }
    }

    const CODINGS: [Coding; 2] = [Coding::Gzip, Coding::Zstd];

    #[test]
    fn a_bomb_is_refused_where_the_limit_is() {
        let bomb = vec![b' '; 50 << 20];
        for coding in CODINGS {
            let packed = packed(coding, &bomb);
            assert!(packed.len() < 100_000);
            let mut seen = 0;
            let ended = unpack(&packed, coding, |piece| {
                seen += piece.len();
                match seen > 1 << 20 {
                    true => Err(ApiError::new(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "body_too_large",
                        "",
                    )),
                    false => Ok(()),
                }
            });
            assert_eq!(ended.expect_err("too large").status(), 413);
            assert!(seen <= (1 << 20) + PIECE_BYTES);
            assert_eq!(
                read(coding, &packed, 1 << 20)
                    .expect_err("too large")
                    .status(),
                413
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(bytes in prop::collection::vec(any::<u8>(), 0..5_000), cut in 0usize..100) {
            for coding in CODINGS {
                let packed = packed(coding, &bytes);
                prop_assert_eq!(unpacked(coding, &packed).ok(), Some(bytes.clone()));
                prop_assert_eq!(read(coding, &packed, 1 << 20).ok(), Some(bytes.clone()));
                let cut = &packed[..packed.len().saturating_sub(1 + cut)];
                if !cut.is_empty() {
                    prop_assert!(unpacked(coding, cut).is_err());
                    prop_assert_eq!(read(coding, cut, 1 << 20).expect_err("cut").status(), 400);
                }
            }
        }

        #[test]
        fn any_bytes_are_unpacked_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for coding in CODINGS {
                let _ = unpacked(coding, &bytes);
                let _ = read(coding, &bytes, 1 << 20);
            }
        }
    }
}
