//! Text out of bytes that were cut anywhere.

/// Decodes UTF-8 that comes in pieces. A character that is cut between two pieces comes whole with the second; only bytes that are really broken become U+FFFD.
#[derive(Clone, Debug, Default)]
pub struct Utf8Decoder {
    /// Beginning of a character, at most three bytes.
    pending: Vec<u8>,
}

impl Utf8Decoder {
    /// A decoder at the beginning of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of all characters that are whole with this piece.
    pub fn push(&mut self, piece: &[u8]) -> String {
        let mut text = String::with_capacity(piece.len());
        let joined;
        let mut rest = if self.pending.is_empty() {
            piece
        } else {
            self.pending.extend_from_slice(piece);
            joined = std::mem::take(&mut self.pending);
            &joined
        };
        loop {
            match std::str::from_utf8(rest) {
                Ok(good) => {
                    text.push_str(good);
                    return text;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(good));
                    let Some(length) = error.error_len() else {
                        self.pending = bad.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                }
            }
        }
    }

    /// What is left at the end: U+FFFD if the text broke off within a character.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.pending).is_empty() { "" } else { "\u{FFFD}" }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, proptest};

    use super::Utf8Decoder;

    fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut decoder = Utf8Decoder::new();
        let mut text: String = pieces.into_iter().map(|piece| decoder.push(piece)).collect();
        text.push_str(decoder.finish());
        text
    }

    #[test]
    fn a_cut_character_comes_whole() {
        let text = "a猫é😀";
        for cut in 0..=text.len() {
            let (left, right) = text.as_bytes().split_at(cut);
            assert_eq!(decode([left, right]), text, "cut at {cut}");
        }
        assert_eq!(decode(text.as_bytes().chunks(1)), text);
    }

    #[test]
    fn broken_bytes_become_one_sign_each() {
        assert_eq!(decode([&b"a\xff"[..], b"b\xe7\x8c"]), "a\u{FFFD}b\u{FFFD}");
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(bytes in prop::collection::vec(any::<u8>(), 0..60), piece in 1_usize..5) {
            assert_eq!(decode(bytes.chunks(piece)), String::from_utf8_lossy(&bytes));
        }
    }
}
