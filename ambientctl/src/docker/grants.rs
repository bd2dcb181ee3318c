//! Files that a service is granted: its secrets and its configs.
//!
//! One that is a file of the engine's machine is mounted, to be read only. One that is a text, of the compose file or of a
//! variable, is put into the container before it starts; it stands in no file outside of it.

use std::fmt::Write;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::DockerError;
use super::service::{Grant, Service};
use crate::compose::Project;
use crate::compose::hash::sha256;

/// What everybody may do with such a file: read it.
const USUAL_MODE: u32 = 0o444;

/// The unit in which an archive is written.
const BLOCK: usize = 512;

/// The last user and group that an archive can name.
const LAST_ID: u32 = 0o777_7777;

/// How long a name in an archive may be, before and behind the slash at which it is cut.
const NAME: usize = 100;
const PREFIX: usize = 155;

/// A file in a container.
#[derive(Clone, Debug)]
pub(super) struct Granted {
    /// Where it is in there, from the root on.
    pub(super) target: String,
    pub(super) from: From,
}

/// Where its contents come from.
#[derive(Clone, Debug)]
pub(super) enum From {
    /// A file of the engine's machine.
    File(String),
    /// This text.
    Text { text: SecretString, mode: u32, user: u32, group: u32 },
}

/// The files that a service is granted.
///
/// # Errors
/// Names the secret or config that is not of a kind that can be given, or whose variable is not set.
pub(super) fn granted(
    service: &str,
    typed: &Service,
    model: &Value,
    project: &Project,
) -> Result<Vec<Granted>, DockerError> {
    let mut all = Vec::new();
    for (section, grants, folder) in [("secrets", &typed.secrets, "/run/secrets/"), ("configs", &typed.configs, "/")] {
        for grant in grants {
            let wrong = |problem: String| DockerError::Value {
                service: service.to_owned(),
                key: section.to_owned(),
                problem: format!("names `{}`, {problem}", grant.source),
            };
            let target = match grant.target.as_deref() {
                None | Some("") => format!("{folder}{}", grant.source),
                Some(target) if target.starts_with('/') => target.to_owned(),
                Some(target) => format!("{folder}{target}"),
            };
            let object = &model[section][grant.source.as_str()];
            let said = |key: &str| object[key].as_str();
            let from = match (said("file"), said("environment"), said("content")) {
                (Some(file), ..) => From::File(file.to_owned()),
                (None, Some(variable), _) => {
                    let value = project.granted(variable);
                    let value = value.ok_or_else(|| wrong(format!("whose variable `{variable}` is not set")))?;
                    text(grant, value, typed, &wrong)?
                }
                (None, None, Some(content)) => text(grant, content, typed, &wrong)?,
                (None, None, None) => {
                    return Err(wrong(
                        "which is of a kind that is not applied; it can be a `file`, an `environment` or a `content`"
                            .to_owned(),
                    ));
                }
            };
            all.push(Granted { target, from });
        }
    }
    Ok(all)
}

fn text(
    grant: &Grant,
    value: &str,
    service: &Service,
    wrong: &impl Fn(String) -> DockerError,
) -> Result<From, DockerError> {
    if service.read_only {
        return Err(wrong("which cannot be put into a `read_only` container; make it a `file`".to_owned()));
    }
    let number = |what: &str, text: &Option<String>| match text.as_deref() {
        None | Some("") => Ok(0),
        Some(text) => {
            let id = text.parse::<u32>().ok().filter(|id| *id <= LAST_ID);
            id.ok_or_else(|| wrong(format!("whose `{what}` has to be a number up to {LAST_ID}")))
        }
    };
    let mode = match grant.mode.as_deref() {
        None => USUAL_MODE,
        Some(octal) => u32::from_str_radix(octal.trim_start_matches("0o"), 8)
            .map_err(|_no_mode| wrong("whose `mode` is none".to_owned()))?,
    };
    let (user, group) = (number("uid", &grant.uid)?, number("gid", &grant.gid)?);
    Ok(From::Text { text: value.to_owned().into(), mode, user, group })
}

/// What the texts among them are, as a hash that tells one from another and shows none; `None` when there is no text.
pub(super) fn fingerprint(files: &[Granted]) -> Option<String> {
    let mut all = String::new();
    for file in files {
        if let From::Text { text, mode, user, group } = &file.from {
            let text = sha256(text.expose_secret());
            writeln!(all, "{} {mode} {user} {group} {text}", file.target).expect("a String takes whatever is written");
        }
    }
    (!all.is_empty()).then(|| sha256(&all))
}

/// The texts among them as an archive to be unpacked at the root; `None` when there is no text.
///
/// # Errors
/// The path that is too long for an archive.
pub(super) fn archive(files: &[Granted]) -> Result<Option<Vec<u8>>, String> {
    let mut archive = Vec::new();
    for file in files {
        if let From::Text { text, mode, user, group } = &file.from {
            let path = file.target.trim_start_matches('/');
            let contents = text.expose_secret().as_bytes();
            let head = head(path, contents.len(), *mode, *user, *group).ok_or_else(|| file.target.clone())?;
            archive.extend_from_slice(&head);
            archive.extend_from_slice(contents);
            archive.resize(archive.len().next_multiple_of(BLOCK), 0);
        }
    }
    if archive.is_empty() {
        return Ok(None);
    }
    archive.resize(archive.len() + 2 * BLOCK, 0);
    Ok(Some(archive))
}

/// The head of a file in an archive, in the form that POSIX calls `ustar`.
fn head(path: &str, size: usize, mode: u32, user: u32, group: u32) -> Option<[u8; BLOCK]> {
    let (prefix, name) = if path.len() <= NAME {
        ("", path)
    } else {
        path.match_indices('/')
            .map(|(at, _)| (&path[..at], &path[at + 1..]))
            .find(|(prefix, name)| prefix.len() <= PREFIX && name.len() <= NAME && !name.is_empty())?
    };
    let mut head = [0; BLOCK];
    let mut put = |at: usize, text: &[u8]| head[at..at + text.len()].copy_from_slice(text);
    put(0, name.as_bytes());
    put(100, format!("{:07o}", mode & 0o7777).as_bytes());
    put(108, format!("{user:07o}").as_bytes());
    put(116, format!("{group:07o}").as_bytes());
    put(124, format!("{size:011o}").as_bytes());
    put(136, format!("{:011o}", 0).as_bytes());
    // The sum is made with blanks in its own place.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(345, prefix.as_bytes());
    let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
    head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Some(head)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(target: &str, text: &str) -> Granted {
        let from = From::Text { text: text.to_owned().into(), mode: 0o400, user: 7, group: 8 };
        Granted { target: target.to_owned(), from }
    }

    #[test]
    fn texts_become_an_archive_with_their_modes_and_owners() {
        let long = format!("/{}/{}", "d".repeat(90), "n".repeat(60));
        let archive = archive(&[secret("/run/secrets/a", "canary"), secret(&long, "")]).unwrap().unwrap();
        assert_eq!(archive.len(), BLOCK * 5);
        let field = |at: usize, length: usize| {
            let bytes = &archive[at..at + length];
            String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
        };
        assert_eq!(field(0, 100), "run/secrets/a");
        assert_eq!((field(100, 8).as_str(), field(108, 8).as_str()), ("0000400", "0000007"));
        assert_eq!(field(124, 12), "00000000006");
        assert_eq!(field(BLOCK, 6), "canary");
        assert_eq!(field(2 * BLOCK, 100), "n".repeat(60));
        assert_eq!(field(2 * BLOCK + 345, 155), "d".repeat(90));
        assert_eq!(
            super::archive(&[secret(&format!("/{}", "n".repeat(101)), "")]),
            Err(format!("/{}", "n".repeat(101)))
        );
        assert_eq!(super::archive(&[]), Ok(None));
    }

    #[test]
    fn a_fingerprint_tells_texts_apart_and_shows_none() {
        let one = fingerprint(&[secret("/a", "canary")]).unwrap();
        assert_ne!(one, fingerprint(&[secret("/a", "other")]).unwrap());
        assert_ne!(one, fingerprint(&[secret("/b", "canary")]).unwrap());
        assert!(!one.contains("canary") && !format!("{:?}", secret("/a", "canary")).contains("canary"));
        assert_eq!(fingerprint(&[]), None);
    }

    #[test]
    fn what_cannot_be_given_is_named() {
        let wrong = |problem: String| DockerError::Value { service: "e".into(), key: "secrets".into(), problem };
        let service = |value| serde_json::from_value::<Service>(value).unwrap();
        let grant = Grant { source: "s".to_owned(), uid: Some("ann".to_owned()), ..Grant::default() };
        let error = text(&grant, "canary", &service(json!({})), &wrong).unwrap_err().to_string();
        assert!(error.contains("whose `uid` has to be a number") && !error.contains("canary"), "{error}");
        let error = text(&Grant::default(), "canary", &service(json!({"read_only": true})), &wrong).unwrap_err();
        assert!(error.to_string().contains("cannot be put into a `read_only` container"), "{error}");
    }
}
