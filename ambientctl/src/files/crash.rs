//! Writers that are killed at every step, and writers at the same time: real processes, which run this test binary again.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::dotenv::{Wish, edited, value_of};
use super::{Edit, EditedFile, Folder};

/// The folder in which the child writes, and the key that it sets there; then, where it dies: the how-manieth step.
const FOLDER: &str = "AMBIENT_TEST_WRITER_FOLDER";
const KEY: &str = "AMBIENT_TEST_WRITER_KEY";
const DIES_AT: &str = "AMBIENT_TEST_WRITER_DIES_AT";

/// Steps of a write of both files: six each.
const STEPS: usize = 12;

fn variable(name: &str) -> Option<String> {
    std::env::vars().find(|(found, _)| found == name).map(|(_, value)| value)
}

/// Sets one key in both files as `config set` does, and dies on the way if it is to.
fn write_both(folder: &Path, key: &str, dies_at: Option<usize>) {
    let folder = Folder::open(folder).unwrap();
    let _lock = folder.lock(|| ()).unwrap();
    let mut edits = Vec::new();
    for file in [EditedFile::Env, EditedFile::Override] {
        let old = folder.read(file).unwrap();
        let new = edited(old.as_deref().unwrap_or_default(), &[(key, Wish::Set(&"new".repeat(5_000)))]).unwrap();
        edits.push(Edit { file, old, new });
    }
    let mut step = 0;
    folder
        .write_watched(&edits, &mut |_| {
            step += 1;
            if Some(step) == dies_at {
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap();
            }
        })
        .unwrap();
    assert_eq!(step, STEPS);
}

/// What the other tests run as a process of its own; by itself it writes into a folder of its own and does not die.
#[test]
fn a_writer_reaches_its_end() {
    let own = tempfile::tempdir().unwrap();
    let folder = variable(FOLDER).unwrap_or_else(|| own.path().to_str().unwrap().to_owned());
    let key = variable(KEY).unwrap_or_else(|| "ALONE".to_owned());
    write_both(Path::new(&folder), &key, variable(DIES_AT).map(|step| step.parse().unwrap()));
    let written = fs::read_to_string(Path::new(&folder).join(".env")).unwrap();
    assert_eq!(value_of(&written, &key).unwrap(), Some("new".repeat(5_000)));
}

#[expect(clippy::disallowed_methods, reason = "a test of processes that are killed needs processes")]
fn writer(folder: &Path, key: &str, dies_at: Option<usize>) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command
        .args(["--exact", "files::crash::a_writer_reaches_its_end"])
        .env(FOLDER, folder)
        .env(KEY, key)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(step) = dies_at {
        command.env(DIES_AT, step.to_string());
    }
    command.spawn().expect("this program can be started")
}

#[test]
fn a_writer_killed_at_any_step_leaves_old_or_new_and_the_next_one_heals() {
    let old = "# mine\nA=old\n";
    for step in 1..=STEPS {
        let home = tempfile::tempdir().unwrap();
        for file in [EditedFile::Env, EditedFile::Override] {
            fs::write(home.path().join(file.name()), old).unwrap();
        }
        let status = writer(home.path(), "A", Some(step)).wait().unwrap();
        assert_eq!(status.signal(), Some(9), "step {step}");
        for file in [EditedFile::Env, EditedFile::Override] {
            let text = fs::read_to_string(home.path().join(file.name())).unwrap();
            let new = edited(old, &[("A", Wish::Set(&"new".repeat(5_000)))]).unwrap();
            assert!(text == old || text == new, "step {step}: half a file");
        }
        assert!(writer(home.path(), "B", None).wait().unwrap().success(), "step {step}");
        let mut left: Vec<_> =
            fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, [".ambientctl.lock", ".env", "backups", "docker-compose.override.yml"], "step {step}");
    }
}

#[test]
fn twenty_writers_at_once_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..20).map(|number| format!("KEY_{number}")).collect();
    let writers: Vec<Child> = keys.iter().map(|key| writer(home.path(), key, None)).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let text = fs::read_to_string(home.path().join(".env")).unwrap();
    for key in &keys {
        assert!(value_of(&text, key).unwrap().is_some(), "{key}");
    }
    assert_eq!(text.lines().count(), 20);
}
