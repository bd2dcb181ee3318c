//! What E2B's Python SDK 2.63.0 makes of Dockerfiles and folders, we make too: else a file that one has uploaded would be uploaded again by the other, and a
//! Dockerfile would give two templates.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use ambient_e2b::Template;
use serde::Deserialize;

#[derive(Deserialize)]
struct Dockerfile {
    #[serde(rename = "dockerfile")]
    text: String,
    #[serde(default)]
    fault: bool,
    image: Option<String>,
    #[serde(default)]
    steps: Vec<serde_json::Value>,
    start: Option<String>,
    ready: Option<String>,
}

#[test]
fn dockerfiles_become_the_same_steps() {
    let cases: Vec<Dockerfile> = serde_json::from_str(include_str!("data/dockerfiles.json")).unwrap();
    for case in cases {
        let text = &case.text;
        let template = match Template::from_dockerfile(text) {
            Ok(template) => template,
            Err(error) => {
                assert!(case.fault, "{text}\n{error}");
                continue;
            }
        };
        assert!(!case.fault, "a fault was taken:\n{text}");
        assert_eq!(template.image(), case.image.as_deref(), "{text}");
        let startup = template.startup().map(|(start, ready)| (start.to_owned(), ready.to_owned()));
        assert_eq!(startup, case.start.zip(case.ready), "{text}");
        let steps: Vec<_> =
            template.steps().iter().map(|step| serde_json::json!({"type": step.kind, "args": step.args})).collect();
        assert_eq!(steps, case.steps, "{text}");
    }
}

#[derive(Deserialize)]
struct Folder {
    files: Vec<File>,
    folders: Vec<String>,
    links: Vec<(String, String)>,
    copies: Vec<Copy>,
}

#[derive(Deserialize)]
struct File {
    path: String,
    content: String,
    mode: u32,
}

#[derive(Deserialize)]
struct Copy {
    source: String,
    dest: String,
    #[serde(default)]
    follows_links: bool,
    hash: Option<String>,
}

#[test]
fn files_get_the_same_hashes() {
    let golden: Folder = serde_json::from_str(include_str!("data/copies.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for file in &golden.files {
        let path = root.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &file.content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(file.mode)).unwrap();
    }
    for name in &golden.folders {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    for (link, target) in &golden.links {
        symlink(target, root.join(link)).unwrap();
    }
    open_folders(root);
    for copy in golden.copies {
        let (begun, source, dest) = (Template::from_image("x"), &copy.source, &copy.dest);
        let copied = if copy.follows_links {
            begun.copy_following_links(source, dest, None, None)
        } else {
            begun.copy(source, dest, None, None)
        };
        let template = copied.unwrap().context(root);
        let hash = template.start_request().ok().and_then(|request| request.steps[0].files_hash.clone());
        assert_eq!(hash, copy.hash, "COPY {} {}", copy.source, copy.dest);
    }
}

/// Gives every folder the mode that the hashes were made with, whatever the umask is here.
fn open_folders(folder: &Path) {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let entry = entry.expect("the folder can be read");
        if entry.file_type().expect("its kind is known").is_dir() {
            open_folders(&entry.path());
        }
    }
}
