//! `ambientctl uninstall`: containers and networks go; with `--purge` data and files too.
//!
//! Only what an installation is known to consist of is removed, never a folder as a whole: `--dir` and `AMBIENT_DIR` may
//! name any.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::lifecycle::halt;
use super::place::{Place, docker_failure, lock};
use super::stack::{Texts, wanted};
use crate::docker::{containers_of, networks_of, remove, remove_network, remove_volume, volumes_of};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl uninstall`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Remove volumes with all data, and the installation's files, too
    #[arg(long)]
    purge: bool,
    /// Ask nothing
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    place: Place,
}

/// What an installation consists of.
const FILES: [&str; 6] =
    [".env", "docker-compose.yml", "docker-compose.override.yml", ".generated", "bin/ambientctl", ".ambientctl.lock"];

/// Folders of an installation, each with nothing in it but ours.
const FOLDERS: [&str; 2] = ["backups", "bin"];

/// What has to be typed before data goes.
const WORD: &str = "delete";

#[derive(Debug, thiserror::Error)]
enum UninstallError {
    #[error("`{}` is no installation: it has no `docker-compose.yml` with a service `engine`", .0.display())]
    Stranger(PathBuf),
    #[error("nobody is there to confirm it")]
    Nobody,
    #[error("not confirmed, so nothing was removed")]
    NotConfirmed,
    #[error("could not remove `{}`", path.display())]
    Remove {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Shows what goes, asks, and removes it.
///
/// # Errors
/// When it is not confirmed, the engine does not answer, or something cannot be removed.
pub async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.place.dir.folder(environment)?;
    let held = lock(&folder, printer)?;
    let wanted = wanted(folder.path(), &Texts::new(), environment, printer.quietly())?;
    if wanted.service("engine").is_none() {
        return Err(Failure::new(Exit::Usage, UninstallError::Stranger(folder.path().to_owned()))
            .hint("name the installation's folder with `--dir DIR`"));
    }
    let connection = args.place.engine.connect(environment).await.map_err(docker_failure)?;
    let containers = containers_of(&connection, &wanted.project).await.map_err(docker_failure)?;
    let networks = networks_of(&connection, &wanted.project).await.map_err(docker_failure)?;
    let volumes = volumes_of(&connection, &wanted.project).await.map_err(docker_failure)?;
    let files = if args.purge { present(folder.path()) } else { Vec::new() };

    for container in &containers {
        printer.note(&format!("container {}", container.name));
    }
    for network in &networks {
        printer.note(&format!("network {network}"));
    }
    if args.purge {
        for volume in &volumes {
            printer.note(&format!("volume {volume}, with all data"));
        }
        for file in &files {
            printer.note(&format!("file {}", file.display()));
        }
    }
    if args.purge && !args.yes {
        confirm()?;
    }

    let services: Vec<String> = wanted.services.iter().map(|service| service.name.clone()).collect();
    halt(&connection, &wanted, &services, printer).await?;
    for container in &containers {
        remove(&connection, &container.id).await.map_err(docker_failure)?;
    }
    for network in &networks {
        remove_network(&connection, network).await.map_err(docker_failure)?;
    }
    let mut gone_volumes = Vec::new();
    if args.purge {
        for volume in volumes {
            remove_volume(&connection, &volume).await.map_err(docker_failure)?;
            gone_volumes.push(volume);
        }
        unlink(folder.path(), environment);
        remove_files(folder.path(), &files)?;
    }
    drop(held);
    if printer.json {
        let names: Vec<&String> = containers.iter().map(|container| &container.name).collect();
        printer.data(
            &json!({ "containers": names, "networks": networks, "volumes": gone_volumes, "purged": args.purge })
                .to_string(),
        );
    } else if args.purge {
        printer.data("removed, with all data");
    } else {
        printer.data(&format!(
            "removed; data and settings are kept: `ambientctl start --dir {}` brings it back, `uninstall --purge` removes them too",
            folder.path().display()
        ));
    }
    Ok(Exit::Ok)
}

fn confirm() -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new(Exit::Usage, UninstallError::Nobody).hint("`--yes` removes without asking"));
    }
    let typed: Result<String, _> = dialoguer::Input::new()
        .with_prompt(format!("Type `{WORD}` to remove all of this"))
        .allow_empty(true)
        .interact_text();
    match typed {
        Ok(word) if word == WORD => Ok(()),
        _ => Err(Failure::new(Exit::Usage, UninstallError::NotConfirmed)),
    }
}

fn present(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        FILES.iter().map(|name| folder.join(name)).filter(|path| fs::symlink_metadata(path).is_ok()).collect();
    if let Ok(backups) = fs::read_dir(folder.join("backups")) {
        let is_ours =
            |name: &str| FILES.iter().any(|file| name.strip_prefix(file).is_some_and(|rest| rest.starts_with('.')));
        let mut kept: Vec<PathBuf> = backups
            .flatten()
            .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
            .map(|entry| entry.path())
            .collect();
        kept.sort();
        files.extend(kept);
    }
    files
}

/// Files first, then the folders that are empty by then; what somebody else put there stays.
fn remove_files(folder: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    for path in files {
        fs::remove_file(path).map_err(|source| {
            Failure::new(Exit::Unhealthy, UninstallError::Remove { path: path.clone(), source })
                .hint("check who may write there, and run it again")
        })?;
    }
    for name in FOLDERS {
        let _not_empty = fs::remove_dir(folder.join(name));
    }
    let _not_empty = fs::remove_dir(folder);
    Ok(())
}

/// Our link where shells look, if it is ours.
fn unlink(folder: &Path, environment: &Environment) {
    let Some(home) = environment.variable("HOME").filter(|home| !home.is_empty()) else { return };
    let link = Path::new(&home).join(".local/bin/ambientctl");
    let folder = fs::canonicalize(folder).unwrap_or_else(|_gone| folder.to_owned());
    if fs::read_link(&link).is_ok_and(|target| target.starts_with(&folder)) {
        let _gone_already = fs::remove_file(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_ours_goes() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a");
        fs::create_dir_all(folder.join("backups")).unwrap();
        fs::create_dir_all(folder.join("bin")).unwrap();
        for file in
            [".env", "docker-compose.yml", "bin/ambientctl", "backups/.env.000001", "backups/mine", "letter.txt"]
        {
            fs::write(folder.join(file), "x").unwrap();
        }
        let environment = Environment { variables: vec![("HOME".into(), home.path().into())], env_file: None };
        fs::create_dir_all(home.path().join(".local/bin")).unwrap();
        let link = home.path().join(".local/bin/ambientctl");
        std::os::unix::fs::symlink(fs::canonicalize(folder.join("bin/ambientctl")).unwrap(), &link).unwrap();
        unlink(&folder, &environment);
        assert!(fs::symlink_metadata(&link).is_err());
        remove_files(&folder, &present(&folder)).unwrap();
        let mut left: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["backups", "letter.txt"]);
        assert!(folder.join("backups/mine").exists());
    }
}
