//! Turns references to media into addresses that a model's server can read, at the moment of a request.
//!
//! A link from the bucket if there is one, else the bytes as a data URL, within the server's limits: pictures are made
//! smaller to fit, a video is not. What cannot be had becomes a line of text, so that a lost file never fails a run.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use image::ImageFormat;

use super::quirks::Known;
use super::wire::Piece;
use crate::backend::MediaBackend;
use crate::events::body::{ContentBlock, EventBody, MediaSource};
use crate::ids::SessionId;
use crate::store::Store;
use crate::store::records::{MediaRef, Part};

/// Bytes of one medium that are put into a request; more needs a bucket. Servers cap bodies at 20 MB and more.
pub const INLINE_LIMIT_BYTES: u64 = 20 * 1024 * 1024;
/// Bytes of all media in one request.
pub const REQUEST_MEDIA_LIMIT: usize = 64 * 1024 * 1024;
/// A picture is not made smaller than this many characters: below, nothing can be seen on it.
const LEAST_PICTURE_CHARS: usize = 4_000;
/// Nor below this many pixels on its shorter side.
const LEAST_SIDE: u32 = 48;
/// Media of one message that are read, signed or made smaller at once.
const RESOLVED_AT_ONCE: usize = 8;
/// Characters of addresses that one run keeps at hand.
const RUN_CHARS: usize = 64 * 1024 * 1024;
/// Characters of addresses that the engine keeps at hand from run to run, and of one of them.
const RECENT_CHARS: usize = 8 * 1024 * 1024;
const RECENT_EACH: usize = 1024 * 1024;

/// Resolves media for one session, or for none.
#[derive(Clone, Debug)]
pub struct Resolver {
    backend: Arc<dyn MediaBackend>,
    store: Arc<dyn Store>,
    session: Option<SessionId>,
    link_ttl: Duration,
    inline_limit: u64,
    links: bool,
    cache: Option<Arc<Mutex<Cache>>>,
    recent: RecentAddresses,
}

/// The small media that runs sent lately, as data URLs: the next turn sends them again. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RecentAddresses(Arc<Mutex<Cache>>);

/// A medium, and the characters that its address may have.
type Wanted = (MediaRef, Option<usize>);

#[derive(Debug, Default)]
struct Cache {
    known: HashMap<Wanted, (Instant, Arc<str>)>,
    characters: usize,
}

impl Cache {
    fn get(&self, wanted: &Wanted, link_ttl: Duration) -> Option<Arc<str>> {
        let (since, address) = self.known.get(wanted)?;
        // A link is renewed well before it ends; bytes do not age.
        let is_good = address.starts_with("data:") || since.elapsed() < link_ttl / 2;
        is_good.then(|| Arc::clone(address))
    }

    /// Keeps an address, forgetting all others if there is no room for it.
    fn keep(&mut self, wanted: Wanted, address: &Arc<str>, most_chars: usize) {
        if address.len() > most_chars {
            return;
        }
        if self.characters + address.len() > most_chars {
            *self = Self::default();
        }
        let before = self.known.insert(wanted, (Instant::now(), Arc::clone(address)));
        self.characters += address.len();
        self.characters -= before.map_or(0, |(_, address)| address.len());
    }
}

/// What became of a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// An address: a link or a data URL.
    Address(Arc<str>),
    /// None, and why; for the model.
    Missing(String),
}

impl Resolver {
    /// A resolver. Links live for `link_ttl`.
    pub fn new(
        backend: Arc<dyn MediaBackend>,
        store: Arc<dyn Store>,
        session: Option<SessionId>,
        link_ttl: Duration,
    ) -> Self {
        let (cache, recent) = (None, RecentAddresses::default());
        Self { backend, store, session, link_ttl, inline_limit: INLINE_LIMIT_BYTES, links: true, cache, recent }
    }

    /// The same for one run, which asks for the same media again in each turn.
    #[must_use]
    pub fn for_run(&self, backend: Arc<dyn MediaBackend>, session: SessionId) -> Self {
        Self { backend, session: Some(session), cache: Some(Arc::default()), ..self.clone() }
    }

    /// The same, with what other runs sent lately.
    #[must_use]
    pub fn with_recent(mut self, recent: RecentAddresses) -> Self {
        self.recent = recent;
        self
    }

    /// The same, sending bytes even where a link could be had.
    #[must_use]
    pub fn with_inline_media(mut self, inline: bool) -> Self {
        self.links = !inline;
        self
    }

    /// The address of a medium, at most `limit` characters long.
    pub async fn address(&self, media: &MediaRef, limit: Option<usize>) -> Resolved {
        let wanted = (media.clone(), limit);
        if let Some(known) = self.cached(&wanted) {
            return Resolved::Address(known);
        }
        match self.fresh(media, limit).await {
            Ok(address) => {
                let address: Arc<str> = address.into();
                self.keep(wanted, &address);
                Resolved::Address(address)
            }
            Err(reason) => Resolved::Missing(reason),
        }
    }

    fn cached(&self, wanted: &Wanted) -> Option<Arc<str>> {
        [self.cache.as_ref(), Some(&self.recent.0)]
            .into_iter()
            .flatten()
            .find_map(|cache| cache.lock().unwrap_or_else(PoisonError::into_inner).get(wanted, self.link_ttl))
    }

    fn keep(&self, wanted: Wanted, address: &Arc<str>) {
        let Some(cache) = &self.cache else { return };
        if address.starts_with("data:") && address.len() <= RECENT_EACH {
            let mut recent = self.recent.0.lock().unwrap_or_else(PoisonError::into_inner);
            recent.keep(wanted.clone(), address, RECENT_CHARS);
        }
        cache.lock().unwrap_or_else(PoisonError::into_inner).keep(wanted, address, RUN_CHARS);
    }

    async fn fresh(&self, media: &MediaRef, limit: Option<usize>) -> Result<String, String> {
        match media {
            MediaRef::Link { url } => Ok(url.clone()),
            MediaRef::Sent { event, block } => {
                let session = self.session.as_ref().ok_or("it belongs to no session")?;
                let stored = self.store.event(session, event).await.map_err(|failure| {
                    tracing::warn!(error = %crate::store::chain(&failure), "a sent picture could not be read");
                    "it could not be read just now"
                })?;
                match stored.map(|event| event.body) {
                    Some(EventBody::UserMessage { content }) => sent_picture(content.get(*block), limit),
                    Some(_) | None => Err("it is not there any more".to_owned()),
                }
            }
            MediaRef::Local { mime_type, .. } | MediaRef::Object { mime_type, .. } => {
                match if self.links { self.backend.link(media, self.link_ttl).await } else { Ok(None) } {
                    Ok(Some(link)) => return Ok(link),
                    Ok(None) => {}
                    Err(failure) => tracing::warn!(error = %failure, "no link to a medium; its bytes are sent instead"),
                }
                let bytes = self.backend.read(media).await.map_err(|failure| failure.to_string())?;
                if bytes.len() as u64 > self.inline_limit {
                    return Err(format!(
                        "it has {} bytes, and without a bucket at most {} can be sent",
                        bytes.len(),
                        self.inline_limit
                    ));
                }
                fitted(mime_type, bytes, limit).await
            }
        }
    }

    /// Parts of a message as the request holds them. What is missing becomes text.
    pub async fn pieces(&self, parts: &[Part], limit: Option<usize>) -> Vec<Piece> {
        // Made one by one beforehand: a closure over the borrowed parts would not be `Send` for every lifetime.
        let work: Vec<_> = parts.iter().map(|part| self.piece(part, limit)).collect();
        futures::stream::iter(work).buffered(RESOLVED_AT_ONCE).collect().await
    }

    async fn piece(&self, part: &Part, limit: Option<usize>) -> Piece {
        match part {
            Part::Text { text } => Piece::Text(text.clone()),
            Part::Image { media } => match self.address(media, limit).await {
                Resolved::Address(address) => Piece::Image(address),
                Resolved::Missing(reason) => Piece::Text(format!("[this picture cannot be shown: {reason}]")),
            },
            Part::Video { media } => match self.address(media, limit).await {
                Resolved::Address(address) => Piece::Video(address),
                Resolved::Missing(reason) => Piece::Text(format!("[this video cannot be shown: {reason}]")),
            },
        }
    }
}

/// Characters that the address of each medium may have, when `count` of them go to this server at once.
pub(crate) fn address_limit(known: &Known, count: usize) -> Option<usize> {
    // A tenth of the body is left to the text.
    let share = |total: usize| total / 10 * 9 / count.max(1);
    let by_body = known.body_limit.map(share);
    let by_size = Some(share(REQUEST_MEDIA_LIMIT)).filter(|_| count > 8);
    [known.url_limit, by_body, by_size].into_iter().flatten().min()
}

fn sent_picture(block: Option<&ContentBlock>, limit: Option<usize>) -> Result<String, String> {
    let source = match block {
        Some(ContentBlock::Image { source } | ContentBlock::Document { source, .. }) => source,
        Some(ContentBlock::Text { .. }) | None => return Err("it is not there any more".to_owned()),
    };
    match source {
        MediaSource::Base64 { media_type, data } => {
            let address = format!("data:{media_type};base64,{data}");
            match limit {
                Some(limit) if address.len() > limit => Err(too_large(address.len(), limit)),
                Some(_) | None => Ok(address),
            }
        }
        MediaSource::Url { url } => Ok(url.clone()),
        MediaSource::File { file_id } => Err(format!("the file `{file_id}` is no picture")),
        MediaSource::Text { .. } => Err("it is text".to_owned()),
    }
}

fn too_large(length: usize, limit: usize) -> String {
    format!("it takes {length} characters, and the model's server takes {limit}")
}

/// A data URL of at most `limit` characters; a picture is made smaller for it.
async fn fitted(mime_type: &str, bytes: Bytes, limit: Option<usize>) -> Result<String, String> {
    let length = data_url_length(mime_type, bytes.len());
    let Some(limit) = limit.filter(|limit| length > *limit) else { return Ok(data_url(mime_type, &bytes)) };
    if !mime_type.starts_with("image/") || limit < LEAST_PICTURE_CHARS {
        return Err(too_large(length, limit));
    }
    let smaller = tokio::task::spawn_blocking(move || smaller_picture(&bytes, limit)).await;
    smaller.ok().flatten().ok_or_else(|| too_large(length, limit))
}

fn data_url_length(mime_type: &str, bytes: usize) -> usize {
    "data:;base64,".len() + mime_type.len() + bytes.div_ceil(3) * 4
}

fn data_url(mime_type: &str, bytes: &[u8]) -> String {
    let mut url = String::with_capacity(data_url_length(mime_type, bytes.len()));
    url.push_str("data:");
    url.push_str(mime_type);
    url.push_str(";base64,");
    STANDARD.encode_string(bytes, &mut url);
    url
}

/// The picture as JPEG, made smaller until it fits.
fn smaller_picture(bytes: &[u8], limit: usize) -> Option<String> {
    let mut picture = image::load_from_memory(bytes).ok()?.to_rgb8();
    loop {
        let mut jpeg = Cursor::new(Vec::new());
        picture.write_to(&mut jpeg, ImageFormat::Jpeg).ok()?;
        let jpeg = jpeg.into_inner();
        let length = data_url_length("image/jpeg", jpeg.len());
        if length <= limit {
            return Some(data_url("image/jpeg", &jpeg));
        }
        if picture.width().min(picture.height()) < LEAST_SIDE {
            return None;
        }
        // Bytes go about with the area; a little less than that, so that one step is mostly enough.
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let scale = (limit as f64 / length as f64).sqrt().min(0.95) * 0.95;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "smaller than before, and not negative"
        )]
        let side = |side: u32| ((f64::from(side) * scale) as u32).max(1);
        picture = image::imageops::thumbnail(&picture, side(picture.width()), side(picture.height()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(side: u32) -> Vec<u8> {
        // Nothing that a JPEG can make small by itself.
        let picture = image::RgbImage::from_fn(side, side, |x, y| {
            let seed = x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)).rotate_left(7);
            let [red, green, blue, _] = seed.wrapping_mul(seed | 1).to_le_bytes();
            image::Rgb([red, green, blue])
        });
        let mut png = Cursor::new(Vec::new());
        image::DynamicImage::ImageRgb8(picture).write_to(&mut png, ImageFormat::Png).unwrap();
        png.into_inner()
    }

    #[tokio::test]
    async fn a_picture_is_made_small_enough_and_a_video_is_not_touched() {
        let png = Bytes::from(noise(256));
        let whole = fitted("image/png", png.clone(), None).await.unwrap();
        assert!(whole.starts_with("data:image/png;base64,") && whole.len() > 100_000);
        let small = fitted("image/png", png.clone(), Some(20_000)).await.unwrap();
        assert!(small.starts_with("data:image/jpeg;base64,") && small.len() <= 20_000);
        assert!(fitted("video/mp4", png.clone(), Some(20_000)).await.is_err());
        assert!(fitted("image/png", png, Some(100)).await.is_err());
    }

    #[test]
    fn the_length_is_known_before_the_url_is_made() {
        for length in 0..20 {
            let bytes = vec![7; length];
            assert_eq!(data_url("image/png", &bytes).len(), data_url_length("image/png", length));
        }
    }

    #[test]
    fn limits_are_shared_out_among_the_media() {
        let known = Known { body_limit: Some(1_000_000), ..Known::default() };
        assert_eq!(address_limit(&known, 10), Some(90_000));
        let known = Known { url_limit: Some(65_520), ..known };
        assert_eq!(address_limit(&known, 10), Some(65_520));
        assert_eq!(address_limit(&Known::default(), 1), None);
        assert!(address_limit(&Known::default(), 500).is_some());
    }
}
