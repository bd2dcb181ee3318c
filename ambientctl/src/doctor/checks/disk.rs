//! Room for videos.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use crate::docker::engine_facts;
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::quoted_path;

/// Below this much room, uploads fail soon.
const LEAST_BYTES: u64 = 1 << 30;
/// Below this much, there is room for a few long videos.
const FEW_BYTES: u64 = 10 << 30;
/// Why it matters.
const WHY: &str = "uploads, clips and frames are written there, and fail on a full disk";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    if !target.is_install() {
        let folder = target.settings.media.video_folder.as_std_path();
        let there = existing(folder);
        if is_writable(&there) {
            room("`VIDEO_FOLDER`", &there, sink);
        } else {
            sink.put(Finding::failure(
                "disk.rights",
                format!(
                    "`VIDEO_FOLDER` `{}` cannot be written: `{}` is not this user's",
                    folder.display(),
                    there.display()
                ),
                WHY,
                Remedy::run(format!("sudo chown -R \"$(id -un)\" {}", quoted_path(&there))),
            ));
        }
        return;
    }
    sink.step("the Docker engine, for where its volumes are".to_owned());
    let root = match context.docker().await {
        Ok(connection) if connection.address.url.starts_with("unix://") => {
            engine_facts(&connection).await.ok().and_then(|facts| facts.root)
        }
        _ => None,
    };
    match root.map(PathBuf::from).filter(|root| root.exists()) {
        Some(root) => room("Docker's folder of volumes", &root, sink),
        None => sink.put(Finding::skipped(
            "disk.inside",
            "the videos are in a volume of a Docker engine whose disk is not this machine's",
        )),
    }
}

/// The path, or the nearest folder above it that is there.
pub(super) fn existing(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_no_working_folder| path.to_owned());
    path.ancestors().find(|folder| folder.exists()).map_or_else(|| PathBuf::from("/"), Path::to_owned)
}

/// Whether this user may write there.
pub(super) fn is_writable(path: &Path) -> bool {
    access(path, AccessFlags::W_OK).is_ok()
}

fn room(what: &str, folder: &Path, sink: &Sink) {
    let free = match statvfs(folder) {
        Ok(found) => {
            #[expect(clippy::useless_conversion, reason = "the fields are narrower on other systems")]
            let (blocks, size) = (u64::from(found.blocks_available()), u64::from(found.fragment_size()));
            blocks.saturating_mul(size)
        }
        Err(error) => {
            sink.put(Finding::skipped(
                "disk.room",
                format!("how full `{}` is cannot be told: {error}", folder.display()),
            ));
            return;
        }
    };
    sink.put(judged(what, folder, free));
}

fn judged(what: &str, folder: &Path, free: u64) -> Finding {
    let shown = format!("{what} (`{}`) has {} free", folder.display(), size(free));
    let remedy = || Remedy::run(format!("du -xh --max-depth=2 {} | sort -h | tail", quoted_path(folder)));
    if free < LEAST_BYTES {
        Finding::failure("disk.room", shown, WHY, remedy())
    } else if free < FEW_BYTES {
        Finding::warning("disk.room", shown, format!("{WHY}; long videos take gigabytes"), remedy())
    } else {
        Finding::ok("disk.room", shown)
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    const GIBIBYTE: u64 = 1 << 30;
    if bytes >= GIBIBYTE { format!("{} GiB", bytes / GIBIBYTE) } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn little_room_is_a_warning_and_hardly_any_a_failure() {
        let check = |free: u64, level: Level, words: &str| {
            let finding = judged("`VIDEO_FOLDER`", Path::new("/data"), free);
            assert_eq!((finding.level, finding.seen.as_str()), (level, words));
        };
        check(500 << 20, Level::Failure, "`VIDEO_FOLDER` (`/data`) has 500 MiB free");
        check(5 << 30, Level::Warning, "`VIDEO_FOLDER` (`/data`) has 5 GiB free");
        check(50 << 30, Level::Ok, "`VIDEO_FOLDER` (`/data`) has 50 GiB free");
    }

    #[test]
    fn the_folder_above_counts_while_a_folder_is_not_there() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(existing(&home.path().join("a/b/c")), home.path());
    }
}
