//! Names of templates.

use std::fmt;
use std::str::FromStr;

/// `alias`, `alias:tag` or `team/alias:tag`, trimmed and in lower case: the alias and the team of `a-z 0-9 _ -`, the tag of those and `.`.
///
/// The service folds case, so `My-App` and `my-app` are one template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TemplateName {
    team: Option<String>,
    alias: String,
    tag: Option<String>,
}

/// A name that no template can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no template name: it takes `alias`, `alias:tag` or `team/alias:tag` of letters, digits, `_` and `-`")]
pub struct BadName(pub String);

impl TemplateName {
    /// The team in front of the slash, if one is named.
    pub fn team(&self) -> Option<&str> {
        self.team.as_deref()
    }

    /// The name proper.
    pub fn alias(&self) -> &str {
        &self.alias
    }

    /// The tag, if one is named; a template without one means `default`.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }
}

impl FromStr for TemplateName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let bad = || BadName(text.to_owned());
        let folded = text.trim().to_lowercase();
        let (team, rest) = match folded.split_once('/') {
            Some((team, rest)) => (Some(team), rest),
            None => (None, folded.as_str()),
        };
        let (alias, tag) = match rest.split_once(':') {
            Some((alias, tag)) => (alias, Some(tag)),
            None => (rest, None),
        };
        let plain = |part: &str| !part.is_empty() && part.bytes().all(is_name_byte);
        let tag_is_good = tag.is_none_or(|tag| !tag.is_empty() && tag.bytes().all(|b| is_name_byte(b) || b == b'.'));
        if !plain(alias) || !team.is_none_or(plain) || !tag_is_good {
            return Err(bad());
        }
        Ok(Self { team: team.map(str::to_owned), alias: alias.to_owned(), tag: tag.map(str::to_owned) })
    }
}

fn is_name_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')
}

impl fmt::Display for TemplateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(team) = &self.team {
            write!(f, "{team}/")?;
        }
        f.write_str(&self.alias)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::TemplateName;

    #[test]
    fn names_are_folded_and_cut() {
        for (text, parts) in [
            ("base", (None, "base", None)),
            (" My-App ", (None, "my-app", None)),
            ("my_app:v1.2", (None, "my_app", Some("v1.2"))),
            ("team-a/app:x", (Some("team-a"), "app", Some("x"))),
        ] {
            let name: TemplateName = text.parse().unwrap();
            assert_eq!((name.team(), name.alias(), name.tag()), parts, "{text}");
            assert_eq!(name.to_string(), text.trim().to_lowercase());
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", ":", "a:", ":a", "a/b/c", "/a", "a/", "a b", "a.b", "ä", "a:b:c", "../a"] {
            assert!(text.parse::<TemplateName>().is_err(), "{text}");
        }
    }
}
