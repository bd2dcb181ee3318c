//! The root that everything begins with: a small Debian, made once for a data folder.

use std::io;
use std::process::Stdio;

use camino::Utf8Path;
use sha2::{Digest as _, Sha256};

use super::layers::Layers;

/// The release.
const SUITE: &str = "bookworm";

/// What clients of E2B expect to be there: a shell and its tools, sudo, Python, and what ready commands ask with.
const PACKAGES: &str = "bash,ca-certificates,curl,git,iproute2,less,passwd,procps,python-is-python3,python3,python3-pip,\
                        python3-venv,sudo,tar,xz-utils";

/// Makes a plain root one for sandboxes: the user `user`, who may do everything without a password. Serves images of registries too,
/// which may lack any of these programs.
pub(crate) const PROVISION: &str = r"
set -e
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
if ! grep -q '^user:' /etc/passwd; then
    if command -v useradd >/dev/null; then
        useradd --create-home --shell /bin/bash user
    else
        mkdir -p /home/user
        echo 'user:x:1000:1000::/home/user:/bin/bash' >>/etc/passwd
        echo 'user:x:1000:' >>/etc/group
        chown 1000:1000 /home/user
    fi
fi
if [ -d /etc/sudoers.d ]; then
    echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/sandbox-user
    chmod 0440 /etc/sudoers.d/sandbox-user
fi
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb
";

/// Why there is no root.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BaseFailure {
    #[error("cannot start `{program}`")]
    Start {
        program: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("`{program}` ended with {status}: {said}")]
    Failed { program: &'static str, status: std::process::ExitStatus, said: String },
    #[error("cannot keep the root")]
    Keep(#[source] io::Error),
    #[error("cannot make an image of the root")]
    Image(#[source] crate::containers::ImageFailure),
}

/// The layer's name: the recipe decides it, so that a newer program makes a newer root.
fn name() -> String {
    let digest = Sha256::digest([SUITE, PACKAGES, PROVISION].concat());
    format!("base-{SUITE}-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3])
}

/// Whether a layer is such a root, or of an image of a registry: these are kept though no template stands on them.
pub(crate) fn is_root(layer: &str) -> bool {
    layer == name() || super::docker::was_image(layer)
}

/// The layer, which is made if it is not there. That takes a minute and needs Debian's mirror.
pub(crate) async fn make_base(layers: &Layers) -> Result<String, BaseFailure> {
    let name = name();
    if layers.has(&name) {
        return Ok(name);
    }
    tracing::info!(suite = SUITE, "making the root of the template `base` with debootstrap, once; this takes a minute");
    let folder = layers.begin().map_err(BaseFailure::Keep)?;
    let include = format!("--include={}", PACKAGES.replace(char::is_whitespace, ""));
    // A mount namespace of its own: what debootstrap mounts goes with it, also when it is cut off.
    run("unshare", &["--mount", "debootstrap", "--variant=minbase", &include, SUITE, folder.as_str()]).await?;
    provision(&folder).await?;
    layers.finish(&folder, &name).map_err(BaseFailure::Keep)?;
    Ok(name)
}

/// Makes the root in this folder one for sandboxes.
pub(super) async fn provision(root: &Utf8Path) -> Result<(), BaseFailure> {
    run("chroot", &[root.as_str(), "/bin/sh", "-c", PROVISION]).await
}

/// Runs a program of the host to its end.
pub(super) async fn run(program: &'static str, words: &[&str]) -> Result<(), BaseFailure> {
    output(program, words).await.map(drop)
}

/// The same, and gives what it printed.
pub(super) async fn output(program: &'static str, words: &[&str]) -> Result<Vec<u8>, BaseFailure> {
    #[expect(clippy::disallowed_methods, reason = "the system's own tools for making roots")]
    let mut command = tokio::process::Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let ended = command.output().await.map_err(|source| BaseFailure::Start { program, source })?;
    if ended.status.success() {
        return Ok(ended.stdout);
    }
    let said = if ended.stderr.is_empty() { &ended.stdout } else { &ended.stderr };
    let said = String::from_utf8_lossy(said);
    let tail: Vec<_> = said.lines().rev().take(5).collect();
    let said = tail.into_iter().rev().collect::<Vec<_>>().join(" / ");
    Err(BaseFailure::Failed { program, status: ended.status, said })
}
