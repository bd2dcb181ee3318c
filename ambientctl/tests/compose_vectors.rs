//! What Docker Compose made of these inputs, as recorded from the real program: every case, not a sample.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ambient_ctl::compose::{Loader, hash};
use serde_json::{Map, Value};

fn vectors(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name);
    let text = std::fs::read_to_string(&path).expect("the vectors are part of the project");
    serde_json::from_str(&text).expect("the vectors are JSON")
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_default()
}

/// A folder with these files, which goes away with it.
fn folder(files: &[(&str, &str)]) -> std::io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text)?;
    }
    Ok(folder)
}

fn model(folder: &Path, environment: &[(OsString, OsString)]) -> Result<Value, String> {
    let loader = Loader::new(folder, environment);
    let loaded = loader.load().map_err(|error| error.to_string())?;
    loaded.project.model().map_err(|error| error.to_string())
}

/// The form of the vectors: without what Compose fills in, and with paths as they were written.
fn without_implicit(mut model: Value, folder: &Path, case: &Value) -> Value {
    let inside = format!("{}/", folder.display());
    let declared: Value = case["expected"].clone();
    let root = model.as_object_mut().expect("a model is a mapping");
    root.retain(|key, _| key != "name" && !key.starts_with("x-"));
    for section in ["networks", "volumes"] {
        let mut kept = Map::new();
        if let Some(Value::Object(entries)) = root.shift_remove(section) {
            for (name, mut entry) in entries {
                let Some(expected) = declared[section].get(&name) else { continue };
                if let Some(map) = entry.as_object_mut() {
                    if expected.get("name").is_none() {
                        map.shift_remove("name");
                    }
                    if map.get("ipam").and_then(Value::as_object).is_some_and(Map::is_empty) {
                        map.shift_remove("ipam");
                    }
                }
                kept.insert(name, entry);
            }
        }
        // What no service uses is not in the model; the vectors show it all the same.
        for (name, entry) in declared[section].as_object().into_iter().flatten() {
            kept.entry(name.clone()).or_insert_with(|| entry.clone());
        }
        if !kept.is_empty() {
            root.insert(section.to_owned(), Value::Object(kept));
        }
    }
    for (name, service) in root["services"].as_object_mut().expect("services are a mapping") {
        let service = service.as_object_mut().expect("a service is a mapping");
        service.retain(|key, value| !(value.is_null() && matches!(key.as_str(), "command" | "entrypoint")));
        if declared["services"][name].get("networks").is_none() {
            service.shift_remove("networks");
        }
        if let Some(deploy) = service.get_mut("deploy").and_then(Value::as_object_mut) {
            deploy.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
        }
        for volume in service.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(source) = volume["source"].as_str().and_then(|source| source.strip_prefix(&inside)) {
                volume["source"] = Value::from(source);
            }
        }
    }
    model
}

#[test]
fn overrides_are_merged_as_compose_merges_them() {
    let mut wrong = Vec::new();
    for case in vectors("merge.json") {
        let files =
            [("docker-compose.yml", text(&case, "base")), ("docker-compose.override.yml", text(&case, "override"))];
        let folder = folder(&files).unwrap();
        // The vectors have all profiles on.
        let environment = [("COMPOSE_PROFILES".into(), "*".into())];
        let mut expected = case["expected"].clone();
        // The model has the variables of `env_file` and no longer the files; these have none.
        for name in [".env", "extra.env"] {
            if text(&case, "base").contains("env_file") {
                std::fs::write(folder.path().join(name), format!("{}=1\n", name.trim_matches('.').replace('.', "_")))
                    .unwrap();
            }
        }
        if let Some(files) =
            expected["services"]["engine"].as_object_mut().and_then(|engine| engine.shift_remove("env_file"))
        {
            assert_eq!(files.as_array().map(Vec::len), Some(2));
            expected["services"]["engine"]["environment"] = serde_json::json!({"env": "1", "extra_env": "1"});
        }
        match model(folder.path(), &environment) {
            Ok(found) => {
                let found = without_implicit(found, folder.path(), &case);
                if found != expected {
                    wrong.push(format!("{}:\n  {found}\n  {expected}", text(&case, "name")));
                }
            }
            Err(error) => wrong.push(format!("{}: {error}", text(&case, "name"))),
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn hashes_are_those_that_compose_puts_on_its_containers() {
    let mut wrong = Vec::new();
    for case in vectors("confighash.json") {
        let folder = folder(&[("docker-compose.yml", text(&case, "compose"))]).unwrap();
        for (name, text) in case["files"].as_object().into_iter().flatten() {
            std::fs::write(folder.path().join(name), text.as_str().unwrap()).unwrap();
        }
        let mut environment: Vec<(OsString, OsString)> = vec![("COMPOSE_PROFILES".into(), "*".into())];
        for (name, value) in case["env"].as_object().into_iter().flatten() {
            environment.push((name.into(), value.as_str().unwrap().into()));
        }
        match model(folder.path(), &environment) {
            Ok(found) => {
                let hashed = hash::hashed_text(&found["services"][text(&case, "service")]);
                if hashed != text(&case, "hashed_text") || hash::sha256(&hashed) != text(&case, "sha256") {
                    wrong.push(format!("{}:\n  {hashed}\n  {}", text(&case, "name"), text(&case, "hashed_text")));
                }
            }
            Err(error) => wrong.push(format!("{}: {error}", text(&case, "name"))),
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_not_applied_is_refused_by_name_and_line() {
    let refusal = |base: &str| {
        let folder = folder(&[("docker-compose.yml", base)]).unwrap();
        let error = model(folder.path(), &[]).unwrap_err();
        error.replace(&folder.path().display().to_string(), "DIR")
    };
    let service = |text: &str| refusal(&format!("services:\n  a:\n    image: i\n    {text}\n"));
    for (found, expected) in [
        (refusal("include: [x.yml]\nservices: {}\n"), "`DIR/docker-compose.yml` line 1: `include` is not applied"),
        (service("extends: b"), "line 4: `services.a.extends` is not applied"),
        (service("profiles: [x]"), "line 4: `services.a.profiles` is not applied"),
        (service("develop: {}"), "line 4: `services.a.develop` is not applied"),
        (service("imagge: x"), "line 4: `services.a.imagge` is not understood"),
        (service("healthcheck: {tests: x}"), "line 4: `services.a.healthcheck.tests` is not understood"),
        (service("ports: ['x:80']"), "line 4: `services.a.ports` `x:80` names no port of the host"),
        (service("volumes: ['v:/data']"), "Windows drive"),
        (service("environment: [1, {a: b}]"), "line 4: `services.a.environment` must be text"),
        (
            service("environment: {A: 2026-11-30}"),
            "`services.a.environment.A` must be text, a number, or true or false, not a date",
        ),
        (service("user: 1000"), "`services.a.user` must be text; quote it, not a number"),
        (service("stop_grace_period: 5"), "must be a duration such as `1m30s`"),
        (service("environment: {A: '${'}"), "`services.a.environment.A` invalid `$` expression"),
        (service("environment: {A: '${REQ:?say why}'}"), "required variable `REQ` is missing a value: say why"),
        (service("depends_on: [nobody]"), "service `a` depends on `nobody`, which no file declares"),
        (service("networks: [nowhere]"), "a service uses the network `nowhere`, which no file declares"),
        (refusal("services:\n"), "`services` must be a mapping, not nothing"),
        (refusal("services:\n  a:\n"), "line 2: `services.a` must be a mapping, not nothing"),
        (refusal("services:\n  a: {command: x}\n"), "service `a` has neither an image nor a build context"),
        (refusal("- a\n"), "the file must be a mapping"),
        (refusal("services:\n  a: {image: i}\n  a: {image: j}\n"), "line 3"),
        (refusal("services: {a: {image: i, depends_on: [b]}, b: {image: i, depends_on: [a]}}\n"), "waits for itself"),
    ] {
        assert!(found.contains(expected), "{found}\n  and not: {expected}");
    }
}

#[test]
fn a_folder_without_files_and_stray_files_are_told() {
    let empty = folder(&[]).unwrap();
    assert!(model(empty.path(), &[]).unwrap_err().contains("there is no `docker-compose.yml` in"));
    let base = "services: {a: {image: i, environment: {X: $NOBODY}}}\n";
    let files = [("docker-compose.yml", base), ("compose.override.yml", "{}"), ("docker-compose.override.yml", "{}")];
    let folder = folder(&files).unwrap();
    let loaded = Loader::new(folder.path(), &[]).load().unwrap();
    let names: Vec<PathBuf> = loaded.project.files().iter().map(|file| file.file_name().unwrap().into()).collect();
    assert_eq!(names, [PathBuf::from("docker-compose.yml"), PathBuf::from("compose.override.yml")]);
    assert!(loaded.warnings.iter().any(|warning| warning.starts_with("`docker-compose.override.yml` does not count")));
    assert!(loaded.warnings.iter().any(|warning| warning.starts_with("`NOBODY` is not set")));
}
