//! An object as a stream that takes up broken connections, and a whole object onto the disk.

use std::ops::Range;
use std::pin::Pin;

use bytes::Bytes;
use camino::Utf8Path;
use futures::stream::{Stream, TryStreamExt};
use tokio::io::AsyncWriteExt;

use super::body::length_of;
use super::error::{ObjectError, Operation};
use super::key::ObjectKey;
use super::store::{ObjectFacts, ObjectReader, ObjectStore};

/// How often a transfer may break in a row without having got any further.
const FRUITLESS_ATTEMPTS: u32 = 4;

const WRITE: &str = "write the downloaded file";

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, ObjectError>> + Send>>;

/// A transfer under way.
struct Transfer {
    store: ObjectStore,
    key: ObjectKey,
    facts: ObjectFacts,
    /// What is still to come.
    left: Range<u64>,
    /// What comes now, and how much of it is known already.
    pieces: Option<(Pieces, u64)>,
    fruitless: u32,
}

impl ObjectStore {
    /// The bytes of an object, or of a range that is cut to what is there. A connection that breaks is taken up again where it broke, as long as
    /// the object is still the same.
    ///
    /// # Errors
    ///
    /// When there is no such object or the bucket refuses. Later, in the stream: when the object is replaced meanwhile, or the bucket cannot be
    /// reached any more.
    pub async fn stream(
        &self,
        key: &ObjectKey,
        range: Option<Range<u64>>,
    ) -> Result<(ObjectFacts, impl Stream<Item = Result<Bytes, ObjectError>> + Send + use<>), ObjectError> {
        let reader = match range.clone() {
            Some(range) => self.get_range(key, range).await?,
            None => self.get(key).await?,
        };
        let facts = reader.facts.clone();
        let wanted = range.unwrap_or(0..facts.size_bytes);
        let left = wanted.start..wanted.end.min(facts.size_bytes);
        let pieces = Some(from(reader, left.start));
        let transfer =
            Transfer { store: self.clone(), key: key.clone(), facts: facts.clone(), left, pieces, fruitless: 0 };
        Ok((facts, futures::stream::try_unfold(transfer, Transfer::next)))
    }

    /// Writes the object to `path`, which nobody else may use, and says what it was. What a failed call leaves there is of no use.
    ///
    /// # Errors
    ///
    /// When there is no such object, it is replaced meanwhile, or the bucket refuses, cannot be reached or stops going on.
    pub async fn download(&self, key: &ObjectKey, path: &Utf8Path) -> Result<ObjectFacts, ObjectError> {
        let mut options = fs_err::tokio::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(false).open(path).await.map_err(ObjectError::file(WRITE))?;
        let (facts, pieces) = self.stream(key, None).await?;
        let mut pieces = Box::pin(pieces);
        while let Some(piece) = pieces.try_next().await? {
            file.write_all(&piece).await.map_err(ObjectError::file(WRITE))?;
        }
        file.flush().await.map_err(ObjectError::file(WRITE))?;
        file.set_len(facts.size_bytes).await.map_err(ObjectError::file(WRITE))?;
        Ok(facts)
    }
}

impl Transfer {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, ObjectError> {
        while !self.left.is_empty() {
            match self.piece().await {
                Ok(piece) => {
                    self.fruitless = 0;
                    self.left.start += length_of(&piece);
                    return Ok(Some((piece, self)));
                }
                Err(error) if error.is_passing() && self.fruitless < FRUITLESS_ATTEMPTS => {
                    tracing::debug!(object.key = %self.key, %error, "a transfer from the bucket broke and goes on");
                    self.fruitless += 1;
                    self.pieces = None;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The next bytes that are wanted, never none.
    async fn piece(&mut self) -> Result<Bytes, ObjectError> {
        if self.pieces.is_none() {
            let reader = self.store.get_range(&self.key, self.left.clone()).await?;
            if (&reader.facts.mark, reader.facts.size_bytes) != (&self.facts.mark, self.facts.size_bytes) {
                let (bucket, key) = (self.store.bucket().to_owned(), self.key.to_string());
                return Err(ObjectError::Replaced { bucket, key });
            }
            self.pieces = Some(from(reader, self.left.start));
        }
        let (pieces, to_skip) = self.pieces.as_mut().expect("it was just put there");
        loop {
            let attempt = self.store.attempt(Operation::Get, self.key.as_str());
            let Some(mut piece) = pieces.try_next().await? else {
                return Err(attempt.unreachable("the answer ended early".into()));
            };
            let skipped = length_of(&piece).min(*to_skip);
            *to_skip -= skipped;
            let _known_already = piece.split_to(usize::try_from(skipped).expect("no longer than the piece"));
            piece.truncate(usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX));
            if !piece.is_empty() {
                return Ok(piece);
            }
        }
    }
}

/// A server without ranges begins at the beginning, so some of what comes may not be wanted.
fn from(reader: ObjectReader, start: u64) -> (Pieces, u64) {
    let to_skip = start.saturating_sub(reader.range.start);
    (Box::pin(reader.into_stream()), to_skip)
}
