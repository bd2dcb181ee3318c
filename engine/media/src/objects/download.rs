//! A whole object onto the disk, over as many connections as it takes.

use std::sync::atomic::{AtomicU64, Ordering};

use camino::Utf8Path;
use futures::stream::TryStreamExt;
use tokio::io::AsyncWriteExt;

use super::body::length_of;
use super::error::{ObjectError, Operation};
use super::key::ObjectKey;
use super::store::{ObjectFacts, ObjectStore};

/// How often a download may break without having got any further.
const FRUITLESS_ATTEMPTS: u32 = 4;

const WRITE: &str = "write the downloaded file";

impl ObjectStore {
    /// Writes the object to `path`, which must not be in use, and says what it was. A connection that breaks is taken up again where it broke,
    /// as long as the object is still the same. What a failed call leaves at `path` is of no use.
    ///
    /// # Errors
    ///
    /// When there is no such object, it is replaced meanwhile, or the bucket refuses, cannot be reached or stops going on.
    pub async fn download(&self, key: &ObjectKey, path: &Utf8Path) -> Result<ObjectFacts, ObjectError> {
        let mut file = fs_err::tokio::File::create(path).await.map_err(ObjectError::file(WRITE))?;
        let written = AtomicU64::new(0);
        let mut facts: Option<ObjectFacts> = None;
        let mut fruitless = 0;
        loop {
            let before = written.load(Ordering::Relaxed);
            match self.append(key, &mut file, &written, &mut facts).await {
                Ok(whole) => {
                    file.flush().await.map_err(ObjectError::file(WRITE))?;
                    return Ok(whole);
                }
                Err(error) if error.is_passing() => {
                    let got_further = written.load(Ordering::Relaxed) > before;
                    fruitless = if got_further { 0 } else { fruitless + 1 };
                    if fruitless == FRUITLESS_ATTEMPTS {
                        return Err(error);
                    }
                    tracing::debug!(object.key = %key, %error, "a download broke and goes on");
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn append(
        &self,
        key: &ObjectKey,
        file: &mut fs_err::tokio::File,
        written: &AtomicU64,
        facts: &mut Option<ObjectFacts>,
    ) -> Result<ObjectFacts, ObjectError> {
        let from = written.load(Ordering::Relaxed);
        let attempt = self.attempt(Operation::Get, key.as_str());
        let reader = match facts {
            Some(known) if from == known.size_bytes => return Ok(known.clone()),
            Some(known) if from > 0 => self.get_range(key, from..known.size_bytes).await?,
            Some(_) | None => self.get(key).await?,
        };
        let known = facts.get_or_insert_with(|| reader.facts.clone()).clone();
        if (&reader.facts.mark, reader.facts.size_bytes) != (&known.mark, known.size_bytes) {
            return Err(ObjectError::Replaced { bucket: self.bucket().to_owned(), key: key.to_string() });
        }
        // A server without ranges begins at the beginning again.
        let mut to_skip = from.saturating_sub(reader.range.start);
        let mut pieces = Box::pin(reader.into_stream());
        while let Some(mut piece) = pieces.try_next().await? {
            let skipped = to_skip.min(length_of(&piece));
            let _known_already = piece.split_to(usize::try_from(skipped).expect("no longer than the piece"));
            to_skip -= skipped;
            file.write_all(&piece).await.map_err(ObjectError::file(WRITE))?;
            written.fetch_add(length_of(&piece), Ordering::Relaxed);
        }
        if written.load(Ordering::Relaxed) == known.size_bytes {
            Ok(known)
        } else {
            Err(attempt.unreachable("the answer ended early".into()))
        }
    }
}
