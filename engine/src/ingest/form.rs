//! Reading `multipart/form-data` piece by piece, in constant memory.
//!
//! Pieces of a part are handed on as they came off the socket, without a copy. What is no data (preamble, headers) is
//! bounded, so a body that never comes to the point costs nothing. A body that ends before its last delimiter is told
//! from a whole one.

use std::time::Duration;

use axum::body::BodyDataStream;
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use memchr::memmem::Finder;

/// Headers of one part, and whatever stands before the first one.
const OVERHEAD_BYTES: usize = 16 << 10;

/// How long the next bytes may take to come.
const PATIENCE: Duration = Duration::from_mins(2);

/// Why a form could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FormError {
    /// It is no form.
    #[error("the body is no multipart form: {0}")]
    Malformed(&'static str),
    /// It ends before its end.
    #[error("the upload was cut off before its end; send it again")]
    CutOff,
    /// Nothing came for a long time.
    #[error("the upload stood still for {} seconds; send it again", PATIENCE.as_secs())]
    StoodStill,
}

/// The head of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartHead {
    /// The field's name.
    pub name: String,
    /// The file name as sent; a file may come without one.
    pub filename: Option<String>,
    /// The content type as sent.
    pub content_type: Option<String>,
}

impl PartHead {
    /// Whether this part is a file. Some clients send one without a file name.
    pub fn is_file(&self) -> bool {
        let typed = self.content_type.as_deref().is_some_and(|kind| !kind.to_ascii_lowercase().starts_with("text/"));
        self.filename.is_some() || self.name == "file" || typed
    }
}

/// A form that is being read.
#[derive(Debug)]
pub struct Form {
    chunks: BodyDataStream,
    /// Read and not handed on yet.
    held: Bytes,
    finder: Finder<'static>,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the first delimiter.
    Start,
    /// Inside a part.
    Data,
    /// Behind the delimiter that ended a part.
    Between,
    /// Behind the last delimiter.
    End,
}

impl Form {
    /// Reads `body` with the boundary of its content type.
    ///
    /// # Errors
    /// When the content type is not that of a form.
    pub fn new(content_type: Option<&str>, chunks: BodyDataStream) -> Result<Self, FormError> {
        let boundary = boundary(content_type.unwrap_or_default())
            .ok_or(FormError::Malformed("its content type is not `multipart/form-data` with a boundary"))?;
        let delimiter = format!("\r\n--{boundary}");
        // The first delimiter may stand at the very beginning, without a line before it.
        Ok(Self {
            chunks,
            held: Bytes::from_static(b"\r\n"),
            finder: Finder::new(delimiter.as_bytes()).into_owned(),
            at: At::Start,
        })
    }

    /// Goes on to the next part, past what is left of this one. `None` behind the last.
    ///
    /// # Errors
    /// When the body is no form, or is cut off.
    pub async fn next_part(&mut self) -> Result<Option<PartHead>, FormError> {
        match self.at {
            At::End => return Ok(None),
            At::Start => {
                let mut skipped = 0;
                while let Some(piece) = self.piece().await? {
                    skipped += piece.len();
                    if skipped > OVERHEAD_BYTES {
                        return Err(FormError::Malformed("its boundary does not come"));
                    }
                }
            }
            At::Data => while self.piece().await?.is_some() {},
            At::Between => {}
        }
        self.at = At::Between;
        self.hold(2).await?;
        if self.held.starts_with(b"--") {
            self.at = At::End;
            return Ok(None);
        }
        let head = self.head().await?;
        self.at = At::Data;
        Ok(Some(head))
    }

    /// More of the part. `None` at its end.
    ///
    /// # Errors
    /// When the body is cut off.
    pub async fn data(&mut self) -> Result<Option<Bytes>, FormError> {
        if self.at != At::Data {
            return Ok(None);
        }
        let piece = self.piece().await?;
        if piece.is_none() {
            self.at = At::Between;
        }
        Ok(piece)
    }

    /// Bytes before the next delimiter; `None` once that was reached, and it is passed.
    async fn piece(&mut self) -> Result<Option<Bytes>, FormError> {
        loop {
            if let Some(end) = self.finder.find(&self.held) {
                if end > 0 {
                    return Ok(Some(self.held.split_to(end)));
                }
                self.held.advance(self.finder.needle().len());
                return Ok(None);
            }
            // The delimiter may have begun at the very end.
            let safe = self.held.len() - self.begun();
            if safe > 0 {
                return Ok(Some(self.held.split_to(safe)));
            }
            self.fill().await?;
        }
    }

    /// How many bytes at the end of what is held may belong to a delimiter.
    fn begun(&self) -> usize {
        let needle = self.finder.needle();
        let longest = self.held.len().min(needle.len() - 1);
        (1..=longest).rev().find(|length| self.held.ends_with(&needle[..*length])).unwrap_or(0)
    }

    async fn hold(&mut self, count: usize) -> Result<(), FormError> {
        while self.held.len() < count {
            self.fill().await?;
        }
        Ok(())
    }

    /// Reads the headers of a part, behind the rest of the delimiter's line.
    async fn head(&mut self) -> Result<PartHead, FormError> {
        let end = loop {
            if let Some(end) = memchr::memmem::find(&self.held, b"\r\n\r\n") {
                break end;
            }
            if self.held.len() > OVERHEAD_BYTES {
                return Err(FormError::Malformed("the headers of a part do not end"));
            }
            self.fill().await?;
        };
        if end > OVERHEAD_BYTES {
            return Err(FormError::Malformed("the headers of a part are too long"));
        }
        let lines = self.held.split_to(end);
        self.held.advance(4);
        let mut lines = lines.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        if lines.next().is_some_and(|padding| !padding.is_empty()) {
            return Err(FormError::Malformed("a delimiter is followed by other text"));
        }
        let mut head = PartHead::default();
        for line in lines {
            let text = String::from_utf8_lossy(line);
            let Some((name, value)) = text.split_once(':') else { continue };
            match name.trim().to_ascii_lowercase().as_str() {
                "content-disposition" => disposition(value, &mut head),
                "content-type" => head.content_type = Some(value.trim().to_owned()),
                _ => {}
            }
        }
        Ok(head)
    }

    async fn fill(&mut self) -> Result<(), FormError> {
        let next = tokio::time::timeout(PATIENCE, self.chunks.next());
        let Some(Ok(chunk)) = next.await.map_err(|_elapsed| FormError::StoodStill)? else {
            return Err(FormError::CutOff);
        };
        if self.held.is_empty() {
            self.held = chunk;
        } else {
            let mut joined = BytesMut::with_capacity(self.held.len() + chunk.len());
            joined.extend_from_slice(&self.held);
            joined.extend_from_slice(&chunk);
            self.held = joined.freeze();
        }
        Ok(())
    }
}

/// The boundary in `multipart/form-data; boundary=…`.
fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = parameter(parameters, "boundary")?;
    // RFC 2046: 1 to 70 characters, printable.
    let is_good = !value.is_empty() && value.len() <= 70 && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    is_good.then_some(value)
}

fn disposition(value: &str, head: &mut PartHead) {
    let Some((_form_data, parameters)) = value.split_once(';') else { return };
    head.name = parameter(parameters, "name").unwrap_or_default();
    let extended = parameter(parameters, "filename*").and_then(|value| {
        let encoded = value.split_once('\'')?.1.split_once('\'')?.1.to_owned();
        Some(percent_encoding::percent_decode_str(&encoded).decode_utf8_lossy().into_owned())
    });
    // Clients write a quote in a name as `%22`.
    head.filename = extended.or_else(|| parameter(parameters, "filename").map(|name| name.replace("%22", "\"")));
}

/// The value of a parameter, quoted or not, in `; name="value"; …`.
fn parameter(text: &str, wanted: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (name, behind) = rest.split_once('=')?;
        let (value, next) = value(behind);
        if name.trim().eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = next;
    }
}

/// A parameter's value, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[index + 1..]),
            // Only these two are escapes: a Windows path has backslashes of its own.
            '\\' if quoted[index + 1..].starts_with(['"', '\\']) => {
                value.extend(characters.next().map(|(_, next)| next));
            }
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use proptest::prelude::*;

    /// The parts of a body that comes in chunks of this size.
    async fn parts(body: &[u8], chunk: usize) -> Result<Vec<(PartHead, Vec<u8>)>, FormError> {
        let chunks: Vec<Result<Bytes, std::io::Error>> =
            body.chunks(chunk.max(1)).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let body = Body::from_stream(futures::stream::iter(chunks)).into_data_stream();
        let mut form = Form::new(Some("multipart/form-data; boundary=x"), body)?;
        let mut parts = Vec::new();
        while let Some(head) = form.next_part().await? {
            let mut data = Vec::new();
            while let Some(piece) = form.data().await? {
                data.extend_from_slice(&piece);
            }
            parts.push((head, data));
        }
        Ok(parts)
    }

    fn body(data: &[u8]) -> Vec<u8> {
        [
            b"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x  \r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.mp4\"\r\ncontent-type: video/mp4\r\n\r\n".as_slice(),
            data,
            b"\r\n--x--\r\n",
        ]
        .concat()
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    proptest! {
        #[test]
        fn data_comes_back_whatever_it_is_and_however_it_is_cut(
            data in prop::collection::vec(prop::sample::select(b"\r\n-xy".to_vec()), 0..60),
            chunk in 1_usize..70,
        ) {
            prop_assume!(memchr::memmem::find(&[b"\r\n", data.as_slice(), b"\r\n"].concat(), b"\r\n--x").is_none());
            let parts = block_on(parts(&body(&data), chunk)).unwrap();
            prop_assert_eq!(parts.len(), 2);
            prop_assert_eq!(&parts[0].1, b"1");
            prop_assert_eq!(&parts[1].1, &data);
            prop_assert_eq!(parts[1].0.filename.as_deref(), Some("f.mp4"));
        }

        #[test]
        fn a_form_that_is_cut_anywhere_is_not_taken_for_whole(length in 0_usize..190, chunk in 1_usize..70) {
            let whole = body(b"some data\r\n-- and more");
            prop_assume!(length < whole.len() - 4);
            prop_assert_eq!(block_on(parts(&whole[..length], chunk)).unwrap_err(), FormError::CutOff);
        }

        #[test]
        fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..300), chunk in 1_usize..70) {
            let _either = block_on(parts(&bytes, chunk));
            let _either = block_on(parts(&[b"--x\r\n".as_slice(), &bytes, b"\r\n--x--"].concat(), chunk));
        }
    }

    #[test]
    fn what_never_comes_to_the_point_is_refused_early() {
        let endless = vec![b'a'; OVERHEAD_BYTES * 4];
        assert!(matches!(block_on(parts(&endless, 1000)), Err(FormError::Malformed(_))));
        let headers = [b"--x\r\n".as_slice(), &endless].concat();
        assert!(matches!(block_on(parts(&headers, 1000)), Err(FormError::Malformed(_))));
    }

    #[test]
    fn names_are_read_as_clients_write_them() {
        for (text, name) in [
            (r#"form-data; name="file"; filename="clip.mp4""#, Some("clip.mp4")),
            (r#"form-data; name="file"; filename="žluťoučký kůň.mp4""#, Some("žluťoučký kůň.mp4")),
            (r#"form-data; name="file"; filename="a%22b.mp4""#, Some("a\"b.mp4")),
            (r#"form-data; name="file"; filename="a\"b.mp4""#, Some("a\"b.mp4")),
            (r#"form-data; name="file"; filename="C:\dir\a.mp4""#, Some(r"C:\dir\a.mp4")),
            (r#"form-data; name="fi;le"; filename="a;b.mp4""#, Some("a;b.mp4")),
            ("form-data; name=file; filename=a.mp4", Some("a.mp4")),
            (r#"form-data; name="file"; filename="x.mp4"; filename*=UTF-8''%C5%BE.mp4"#, Some("ž.mp4")),
            (r#"form-data; name="file"; filename="""#, Some("")),
            (r#"form-data; name="file""#, None),
            ("form-data", None),
        ] {
            let mut head = PartHead::default();
            disposition(text, &mut head);
            assert_eq!(head.filename.as_deref(), name, "{text}");
        }
    }

    #[test]
    fn only_forms_with_a_boundary_are_forms() {
        for (text, expected) in [
            ("multipart/form-data; boundary=abc", Some("abc")),
            ("Multipart/Form-Data; charset=utf-8; boundary=\"a b\"", Some("a b")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(boundary(text).as_deref(), expected, "{text}");
        }
    }
}
