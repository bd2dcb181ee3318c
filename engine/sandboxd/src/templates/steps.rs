//! What the steps of a build mean: command lines for the sandbox, and how the state of the build moves on. Decides, and does nothing.

use std::collections::BTreeMap;

use ambient_e2b::protocol::template::{Step, StepKind};
use sha2::{Digest as _, Sha256};

use super::image::Image;
use crate::config::Team;
use crate::names::hex;

/// Where a COPY step's archive lies while it is unpacked.
pub(super) const ARCHIVE: &str = "/tmp/.ambient-copy.tar";

/// Unpacks, owns, and merges into the destination. Words come as variables: no file name is ever part of the script.
const COPY: &str = r#"
set -e
home=$(getent passwd "$COPY_USER" | cut -d: -f6)
work=$(mktemp -d /tmp/.ambient-copy.XXXXXX)
trap 'rm -rf "$work" "$COPY_ARCHIVE"' EXIT
tar -xf "$COPY_ARCHIVE" -C "$work"
entry=$work/$COPY_SOURCE
if [ ! -e "$entry" ] && [ ! -L "$entry" ]; then
    echo "the archive does not hold '$COPY_SOURCE'" >&2
    exit 1
fi
case $COPY_DESTINATION in
    /*) target=$COPY_DESTINATION ;;
    *) target=${COPY_WORKDIR:-$home}/$COPY_DESTINATION ;;
esac
owner=$COPY_OWNER
[ -n "$owner" ] || owner=$COPY_USER:$(id -gn "$COPY_USER")
chown -Rh "$owner" "$entry"
[ -z "$COPY_MODE" ] || find "$entry" ! -type l -exec chmod "$COPY_MODE" {} +
if [ -d "$entry" ] && [ ! -L "$entry" ]; then
    if [ -d "$target" ]; then
        before=$(stat -c '%u:%g %a' "$target")
    else
        before=
        mkdir -p "$target"
    fi
    cp -a --remove-destination "$entry/." "$target/"
    if [ -n "$before" ]; then
        chown "${before% *}" "$target"
        chmod "${before#* }" "$target"
    fi
else
    case $target in
        */) mkdir -p "$target"; target=$target$(basename "$entry") ;;
        *) if [ -d "$target" ]; then target=$target/$(basename "$entry"); else mkdir -p "$(dirname "$target")"; fi ;;
    esac
    rm -rf "$target"
    mv "$entry" "$target"
fi
"#;

/// Makes what is missing of a folder and gives it to the user.
const WORKDIR: &str = r#"
set -e
missing=
path=$WORKDIR_PATH
while [ ! -d "$path" ]; do
    missing=$path
    path=$(dirname "$path")
done
[ -n "$missing" ] || exit 0
mkdir -p "$WORKDIR_PATH"
chown -R "$WORKDIR_USER:$(id -gn "$WORKDIR_USER")" "$missing"
"#;

/// Makes a user, and lets it do everything if that is asked for.
const USER: &str = r#"
set -e
id -u "$USER_NAME" >/dev/null 2>&1 || useradd --create-home --shell /bin/bash "$USER_NAME"
if [ -n "$USER_SUDO" ] && [ -d /etc/sudoers.d ]; then
    printf '%s ALL=(ALL:ALL) NOPASSWD: ALL\n' "$USER_NAME" >"/etc/sudoers.d/sandbox-$USER_NAME"
    chmod 0440 "/etc/sudoers.d/sandbox-$USER_NAME"
fi
"#;

/// Where a build stands between two steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) image: Image,
    /// A hash of everything so far, which names the next layer.
    key: String,
}

/// What a step asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one lives at a time, and is taken apart at once")]
pub(super) enum Action {
    /// A command whose files make a layer.
    Layer {
        line: String,
        user: String,
        variables: BTreeMap<String, String>,
        folder: Option<String>,
        /// The hash of an archive that has to be at [`ARCHIVE`].
        archive: Option<String>,
        /// How a failure of the command is told.
        failure: String,
        /// What is true when it went well.
        after: Image,
    },
    /// Values that a shell in the sandbox has to make, by name. They make no layer.
    Evaluate(Vec<(String, String)>),
}

/// A step that means nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadStep {
    #[error("{0} needs more arguments")]
    TooFewArguments(&'static str),
    #[error("COPY `{0}` without the hash of its files")]
    NoHash(String),
    #[error("COPY from `{0}`, which leaves the context")]
    LeavesContext(String),
    #[error("`{0}` is no name of a user")]
    BadUser(String),
}

impl Progress {
    /// The beginning of a build of this team. Its layers are no other team's: what a step makes may be a secret, and an archive is whatever the team
    /// that sent it says.
    pub(super) fn new(team: &Team, image: Image) -> Self {
        let workdir = image.workdir.as_deref().unwrap_or_default();
        let key = hash(&["from", team.name(), &image.layers.join(":"), &image.user, workdir]);
        Self { image, key }
    }

    /// The name of the layer that a step makes. With `salt` it is one that nobody made before.
    pub(super) fn layer_name(&self, step: &Step, salt: Option<&str>) -> String {
        format!("step-{}", &self.next_key(step, salt)[..20])
    }

    fn next_key(&self, step: &Step, salt: Option<&str>) -> String {
        let kind = word(step.kind);
        let args = serde_json::to_string(&step.args).expect("a list of texts is plain JSON");
        let hash_of_files = step.files_hash.as_deref().unwrap_or_default();
        let variables = serde_json::to_string(&self.image.variables).expect("a map of texts is plain JSON");
        hash(&[&self.key, kind, &args, hash_of_files, &variables, salt.unwrap_or_default()])
    }

    /// The state after a step that made this layer.
    pub(super) fn with_layer(&self, step: &Step, salt: Option<&str>, layer: String, after: Image) -> Self {
        let mut image = after;
        image.layers.insert(0, layer);
        Self { image, key: self.next_key(step, salt) }
    }

    /// The state after a step that set variables.
    pub(super) fn with_variables(&self, values: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut next = self.clone();
        next.image.variables.extend(values);
        next
    }

    /// What this step asks for.
    pub(super) fn action(&self, step: &Step) -> Result<Action, BadStep> {
        let argument = |place: usize| step.args.get(place).map(String::as_str).filter(|text| !text.is_empty());
        let needed = |place: usize| argument(place).ok_or(BadStep::TooFewArguments(word(step.kind)));
        let image = &self.image;
        let as_root = |line: &str, variables: BTreeMap<String, String>, failure: String, after: Image| Action::Layer {
            line: line.to_owned(),
            user: "root".to_owned(),
            variables,
            folder: Some("/".to_owned()),
            archive: None,
            failure,
            after,
        };
        match step.kind {
            StepKind::Run => {
                let line = needed(0)?.to_owned();
                Ok(Action::Layer {
                    failure: format!("failed to run command '{line}'"),
                    line,
                    user: argument(1).unwrap_or(&image.user).to_owned(),
                    variables: image.variables.clone(),
                    folder: image.workdir.clone(),
                    archive: None,
                    after: image.clone(),
                })
            }
            StepKind::Copy => {
                let (source, destination) = (needed(0)?, needed(1)?);
                let archive = step.files_hash.clone().ok_or_else(|| BadStep::NoHash(source.to_owned()))?;
                let owner = argument(2)
                    .map(|owner| if owner.contains(':') { owner.to_owned() } else { format!("{owner}:{owner}") });
                let variables = [
                    ("COPY_ARCHIVE", ARCHIVE.to_owned()),
                    ("COPY_SOURCE", inside(source)?),
                    ("COPY_DESTINATION", destination.to_owned()),
                    ("COPY_WORKDIR", image.workdir.clone().unwrap_or_default()),
                    ("COPY_USER", image.user.clone()),
                    ("COPY_OWNER", owner.unwrap_or_default()),
                    ("COPY_MODE", argument(3).unwrap_or_default().to_owned()),
                ];
                Ok(Action::Layer {
                    line: COPY.to_owned(),
                    user: "root".to_owned(),
                    variables: named(variables),
                    folder: Some("/".to_owned()),
                    archive: Some(archive),
                    failure: format!("failed to copy '{source}' to '{destination}'"),
                    after: image.clone(),
                })
            }
            StepKind::Env => {
                if step.args.len() < 2 {
                    return Err(BadStep::TooFewArguments("ENV"));
                }
                let pairs = step.args.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                Ok(Action::Evaluate(pairs.collect()))
            }
            StepKind::Workdir => {
                let path = join(image.workdir.as_deref().unwrap_or("/"), needed(0)?);
                let after = Image { workdir: Some(path.clone()), ..image.clone() };
                let failure = format!("failed to make the folder '{path}'");
                let variables = named([("WORKDIR_PATH", path), ("WORKDIR_USER", image.user.clone())]);
                Ok(as_root(WORKDIR, variables, failure, after))
            }
            StepKind::User => {
                let name = needed(0)?.to_owned();
                let is_plain = !name.starts_with('-')
                    && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
                if !is_plain {
                    return Err(BadStep::BadUser(name));
                }
                let after = Image { user: name.clone(), ..image.clone() };
                let failure = format!("failed to make the user '{name}'");
                let sudo = argument(1).filter(|word| *word == "true").unwrap_or_default().to_owned();
                Ok(as_root(USER, named([("USER_NAME", name), ("USER_SUDO", sudo)]), failure, after))
            }
        }
    }
}

/// The word of a Dockerfile.
pub(super) fn word(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Run => "RUN",
        StepKind::Copy => "COPY",
        StepKind::Env => "ENV",
        StepKind::Workdir => "WORKDIR",
        StepKind::User => "USER",
    }
}

fn named<const N: usize>(variables: [(&str, String); N]) -> BTreeMap<String, String> {
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn hash(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    hex(&digest.finalize())
}

/// What a source names in its archive: cut before its first wildcard, to the folder that this is in.
fn inside(source: &str) -> Result<String, BadStep> {
    let named = match source.find(['*', '?', '[', '{']) {
        Some(place) => source[..place].rsplit_once('/').map_or("", |(folder, _name)| folder),
        None => source,
    };
    let mut parts = Vec::new();
    for part in named.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(|| BadStep::LeavesContext(source.to_owned()))?;
            }
            part => parts.push(part),
        }
    }
    Ok(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
}

/// A path from a folder.
fn join(folder: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}

/// A command line that prints the value, as a shell understands it without running anything.
pub(super) fn evaluation(value: &str) -> Option<String> {
    if !value.contains(['$', '\\', '"', '`']) {
        return None;
    }
    let quoted = value.replace('\\', "\\\\").replace('"', "\\\"").replace('`', "\\`").replace("$(", "\\$(");
    Some(format!("printf '%s' \"{quoted}\""))
}

#[cfg(test)]
mod tests {
    use ambient_e2b::protocol::template::{Step, StepKind};
    use secrecy::SecretString;

    use super::{Action, BadStep, Progress, evaluation, inside, join};
    use crate::config::Teams;
    use crate::templates::image::Image;

    fn step(kind: StepKind, args: &[&str]) -> Step {
        Step { kind, args: args.iter().map(|&text| text.to_owned()).collect(), files_hash: None, force: false }
    }

    fn begin_as(key: &str) -> Progress {
        let team = Teams::new(&[SecretString::from(key)]).find(key).unwrap();
        Progress::new(&team, Image::of_layer("base".to_owned()))
    }

    fn begin() -> Progress {
        begin_as("e2b_0")
    }

    #[test]
    fn a_layer_is_named_by_all_that_made_it() {
        let (one, two) = (step(StepKind::Run, &["true"]), step(StepKind::Run, &["false"]));
        let start = begin();
        assert_eq!(start.layer_name(&one, None), begin().layer_name(&one, None));
        assert_ne!(start.layer_name(&one, None), begin_as("e2b_1").layer_name(&one, None));
        assert_ne!(start.layer_name(&one, None), start.layer_name(&two, None));
        assert_ne!(start.layer_name(&one, None), start.layer_name(&one, Some("salt")));
        let after_two = start.with_layer(&two, None, start.layer_name(&two, None), start.image.clone());
        assert_ne!(after_two.layer_name(&one, None), start.layer_name(&one, None));
        let with_variables = start.with_variables([("A".to_owned(), "1".to_owned())]);
        assert_ne!(with_variables.layer_name(&one, None), start.layer_name(&one, None));
        assert_eq!(after_two.image.layers.len(), 2);
        assert_eq!(after_two.image.layers[1], "base");
    }

    #[test]
    fn the_state_moves_on() {
        let Action::Layer { after, variables, .. } = begin().action(&step(StepKind::Workdir, &["app/x"])).unwrap()
        else {
            panic!("a folder makes a layer");
        };
        assert_eq!(after.workdir.as_deref(), Some("/app/x"));
        assert_eq!(variables["WORKDIR_PATH"], "/app/x");
        let Action::Layer { after, user, .. } = begin().action(&step(StepKind::User, &["ann", "true"])).unwrap() else {
            panic!("a user makes a layer");
        };
        assert_eq!((after.user.as_str(), user.as_str()), ("ann", "root"));
        let Action::Layer { user, folder, .. } = begin().action(&step(StepKind::Run, &["id", "root"])).unwrap() else {
            panic!("a command makes a layer");
        };
        assert_eq!((user.as_str(), folder), ("root", None));
    }

    #[test]
    fn steps_without_sense_are_refused() {
        assert_eq!(begin().action(&step(StepKind::Run, &[])), Err(BadStep::TooFewArguments("RUN")));
        assert_eq!(begin().action(&step(StepKind::Env, &["A"])), Err(BadStep::TooFewArguments("ENV")));
        assert!(matches!(begin().action(&step(StepKind::User, &["a;b"])), Err(BadStep::BadUser(_))));
        assert!(matches!(begin().action(&step(StepKind::User, &["-x"])), Err(BadStep::BadUser(_))));
        assert!(matches!(begin().action(&step(StepKind::Copy, &["a", "b"])), Err(BadStep::NoHash(_))));
    }

    #[test]
    fn a_source_is_cut_before_its_wildcard() {
        let check = |source: &str, wanted: &str| assert_eq!(inside(source).unwrap(), wanted, "{source}");
        check("a.txt", "a.txt");
        check("./a/b.txt", "a/b.txt");
        check("a/*.txt", "a");
        check("*.txt", ".");
        check(".", ".");
        check("a/b/../c", "a/c");
        assert!(inside("../x").is_err());
    }

    #[test]
    fn values_are_evaluated_but_nothing_in_them_runs() {
        assert_eq!(evaluation("plain value's"), None);
        assert_eq!(evaluation("$HOME/x").as_deref(), Some("printf '%s' \"$HOME/x\""));
        assert_eq!(evaluation("$(id) `id`").as_deref(), Some("printf '%s' \"\\$(id) \\`id\\`\""));
        assert_eq!(join("/", "app"), "/app");
        assert_eq!(join("/app", "/x"), "/x");
    }
}
