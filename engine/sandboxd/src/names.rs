//! Ids and tokens that the host makes, and the shapes of those that it is given.

use std::fmt::Write as _;

use rand::RngExt as _;

/// What ids consist of, so that they fit into names of hosts and files.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// `count` random letters and digits.
pub(crate) fn random_name(count: usize) -> String {
    let mut random = rand::rng();
    (0..count).map(|_place| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
}

/// Id of a sandbox: `i` and 20 more.
pub(crate) fn sandbox_id() -> String {
    format!("i{}", random_name(20))
}

/// Bytes as hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _never_fails = write!(text, "{byte:02x}");
        text
    })
}

/// A token: 64 hex digits.
pub(crate) fn token() -> String {
    format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>())
}

/// The id in a path or header, without the `-client` that old clients put behind it. `None` when nothing can have this id.
pub(crate) fn plain_sandbox_id(text: &str) -> Option<&str> {
    let id = text.split_once('-').map_or(text, |(id, _client)| id);
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    is_plain.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::{plain_sandbox_id, sandbox_id, token};

    #[test]
    fn what_is_made_has_the_shape_that_is_taken() {
        let id = sandbox_id();
        assert_eq!((id.len(), plain_sandbox_id(&id)), (21, Some(id.as_str())));
        assert_eq!(plain_sandbox_id(&format!("{id}-6532622b")), Some(id.as_str()));
        assert_eq!(plain_sandbox_id("UPPER"), None);
        assert_eq!(plain_sandbox_id("../x"), None);
        assert_eq!(plain_sandbox_id(""), None);
        assert_eq!(token().len(), 64);
    }
}
