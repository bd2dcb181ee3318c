//! Mounts in their short form: `[SOURCE:]TARGET[:OPTIONS]`.

/// A mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mount {
    /// A volume's name, or a path of the host; nothing for an anonymous volume.
    pub(super) source: Option<String>,
    /// The path in the container.
    pub(super) target: String,
    pub(super) read_only: bool,
    pub(super) no_copy: bool,
    pub(super) selinux: Option<String>,
    pub(super) propagation: Option<String>,
}

impl Mount {
    /// Whether the source is a path of the host.
    pub(super) fn is_bind(&self) -> bool {
        self.source.as_deref().is_some_and(is_path)
    }
}

/// Whether a source is a path and no volume's name.
pub(super) fn is_path(source: &str) -> bool {
    source.starts_with(['.', '/', '~'])
}

/// Takes a short form apart.
pub(super) fn parse(text: &str) -> Result<Mount, String> {
    let parts: Vec<&str> = text.split(':').collect();
    let mut mount = Mount::default();
    let options = match parts.as_slice() {
        [target] => {
            mount.target = clean(target);
            ""
        }
        [source, target] => {
            mount.source = Some((*source).to_owned());
            mount.target = clean(target);
            ""
        }
        [source, target, options] => {
            mount.source = Some((*source).to_owned());
            mount.target = clean(target);
            options
        }
        _ => return Err(format!("`{text}` has too many colons; write it in the long form")),
    };
    if mount.target.is_empty() || mount.source.as_deref() == Some("") {
        return Err(format!("`{text}` has an empty part"));
    }
    if let Some(source) = &mount.source
        && source.len() == 1
        && source.starts_with(|letter: char| letter.is_ascii_alphabetic())
    {
        return Err(format!(
            "`{text}` begins like a Windows drive to Compose; give the volume a name of two letters or more"
        ));
    }
    for option in options.split(',').filter(|option| !option.is_empty()) {
        match option {
            "rw" => mount.read_only = false,
            "ro" => mount.read_only = true,
            "nocopy" => mount.no_copy = true,
            "z" | "Z" => mount.selinux = Some(option.to_owned()),
            "rprivate" | "private" | "rshared" | "shared" | "rslave" | "slave" => {
                mount.propagation = Some(option.to_owned());
            }
            // Said for Docker Desktop once, and dropped by Compose.
            "cached" | "delegated" | "consistent" => {}
            _ => return Err(format!("`{text}` has the option `{option}`, which is not understood")),
        }
    }
    Ok(mount)
}

/// Where a short form ends up in the container.
pub(super) fn target_of(text: &str) -> Option<String> {
    parse(text).ok().map(|mount| mount.target)
}

/// A path of a container without double slashes, `.`, `..` and a slash at its end.
pub(super) fn clean(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            _ => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_taken_apart() {
        let mount = parse("./a:/b/:ro,z").unwrap();
        assert!(mount.is_bind() && mount.read_only);
        assert_eq!((mount.target.as_str(), mount.selinux.as_deref()), ("/b", Some("z")));
        assert!(!parse("data:/d:nocopy").unwrap().is_bind());
        assert_eq!(parse("/only").unwrap().source, None);
        for text in ["", ":/x", "a:b:c:d", "v:/data", "data:/d:fast", "data:"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_are_cleaned() {
        for (path, expected) in
            [("/a//b/./c/", "/a/b/c"), ("/a/../b", "/b"), ("/", "/"), ("/../x", "/x"), ("a/..", "."), ("../a", "../a")]
        {
            assert_eq!(clean(path), expected);
        }
    }
}
