//! Names of templates and tags as clients write them.

use ambient_e2b::protocol::TemplateName;

use super::catalogue::TemplateFailure;

/// The tag of builds that got none.
pub(super) const DEFAULT_TAG: &str = "default";

/// The longest name.
const LONGEST: usize = 128;

/// A name, folded.
pub(super) fn parse(text: &str) -> Result<TemplateName, TemplateFailure> {
    let bad = |why: String| TemplateFailure::BadName(why);
    if text.trim().is_empty() {
        return Err(bad("Name is required".to_owned()));
    }
    if text.len() > LONGEST {
        return Err(bad(format!("Invalid template reference: a name has at most {LONGEST} characters")));
    }
    text.parse().map_err(|error| bad(format!("Invalid template reference: {error}")))
}

/// A tag, folded. One that looks like the id of a build would be taken for it.
pub(super) fn parse_tag(text: &str) -> Result<String, TemplateFailure> {
    let tag = text.trim().to_lowercase();
    let is_plain = !tag.is_empty()
        && tag.len() <= LONGEST
        && tag.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'));
    if !is_plain || uuid::Uuid::parse_str(&tag).is_ok() {
        return Err(TemplateFailure::BadName(format!("Invalid tag: invalid tag '{text}'")));
    }
    Ok(tag)
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_tag};

    #[test]
    fn tags_are_folded_and_ids_are_none() {
        assert_eq!(parse_tag(" V1.2 ").unwrap(), "v1.2");
        assert!(parse_tag("a b").is_err());
        assert!(parse_tag("").is_err());
        assert!(parse_tag("0a6cd2a4-6f5c-4d0f-8a0b-8d4a3a6b3d11").is_err());
    }

    #[test]
    fn names_have_an_end() {
        assert!(parse(&"a".repeat(128)).is_ok());
        assert!(parse(&"a".repeat(129)).is_err());
        assert!(parse(" ").is_err());
    }
}
