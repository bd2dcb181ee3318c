//! The commands on real folders: what they leave in the files, and how they end.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use clap::Parser;

use super::change::{Scope, change, check};
use super::{Args, diff, run};
use crate::compose::{Loader, SHIPPED};
use crate::environment::Environment;
use crate::files::Folder;
use crate::files::dotenv::{Wish, value_of};
use crate::output::{Exit, Failure, Printer};

#[derive(clap::Parser)]
struct Words {
    #[command(flatten)]
    args: Args,
}

/// `ambientctl config WORDS… --dir FOLDER`.
fn config(folder: &Path, words: &[&str]) -> Result<Exit, Failure> {
    let dir = folder.to_str().expect("a temporary folder has a plain name");
    let words = ["config"].into_iter().chain(words.iter().copied()).chain(["--dir", dir]);
    let words = Words::try_parse_from(words).expect("the words of a test are right");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(run(&words.args, &no_docker(), &Printer { json: false, quiet: true }))
}

/// An environment in which there is no Docker, whatever the machine has.
fn no_docker() -> Environment {
    let variables = vec![("DOCKER_HOST".into(), "unix:///nowhere/docker.sock".into())];
    Environment { variables, env_file: None }
}

fn installation(env: &str, over: Option<&str>) -> std::io::Result<tempfile::TempDir> {
    let home = tempfile::tempdir()?;
    fs::write(home.path().join("docker-compose.yml"), SHIPPED)?;
    fs::write(home.path().join(".env"), format!("POSTGRES_PASSWORD=pw\nENGINE_API_KEY=key\n{env}"))?;
    if let Some(over) = over {
        fs::write(home.path().join("docker-compose.override.yml"), over)?;
    }
    Ok(home)
}

fn text(home: &tempfile::TempDir, file: &str) -> Option<String> {
    fs::read_to_string(home.path().join(file)).ok()
}

/// What the engine's container would get.
fn engine_gets(home: &tempfile::TempDir, key: &str) -> Option<String> {
    let loader = Loader::new(home.path(), &[]);
    let model = loader.load().ok()?.project.model().ok()?;
    model["services"]["engine"]["environment"][key].as_str().map(str::to_owned)
}

#[test]
fn without_docker_a_stack_is_not_changed_and_a_dry_run_is_none_the_less() {
    let home = installation("A=1\n", None).unwrap();
    let before = text(&home, ".env");
    for words in [&["set", "A", "2"][..], &["unset", "A"]] {
        let failure = config(home.path(), words).unwrap_err();
        assert_eq!(failure.exit(), Exit::Unreachable);
        let said = failure.text();
        assert!(said.contains("docker is missing: there is nothing at `unix:///nowhere/docker.sock`"), "{said}");
        assert!(said.contains("nothing was written; `--no-apply`"), "{said}");
    }
    assert_eq!(config(home.path(), &["set", "A", "2", "--dry-run"]).unwrap(), Exit::Ok);
    assert_eq!(config(home.path(), &["set", "A", "1"]).unwrap(), Exit::Ok);
    assert_eq!(text(&home, ".env"), before);
    assert!(!home.path().join("backups").exists());
}

#[test]
fn where_no_stack_is_there_is_nothing_to_apply() {
    let home = tempfile::tempdir().unwrap();
    config(home.path(), &["set", "LLM_MODEL", "m"]).unwrap();
    assert_eq!(text(&home, ".env").as_deref(), Some("LLM_MODEL=m\n"));
}

#[test]
fn what_gives_no_stack_is_not_written() {
    let home = installation("", Some("services: {engine: {mem_limit: '${MINE}'}}\n")).unwrap();
    let before = text(&home, ".env");
    let failure = config(home.path(), &["set", "MINE=plenty"]).unwrap_err();
    assert!(failure.text().contains("services.engine.mem_limit"), "{}", failure.text());
    assert_eq!(text(&home, ".env"), before);
}

#[test]
fn values_reach_the_container_byte_for_byte() {
    let pem = "-----BEGIN KEY-----\nMII=\n+/a\n-----END KEY-----\n";
    for value in [
        "x\nINJECTED=1",
        "pa$w0rd",
        "a$$b",
        "x${Y}z",
        "end$",
        "C:\\dir\\",
        "it's \\' ok",
        "a\\nb",
        "a #b",
        pem,
        "\"'",
        "%q{x}",
        "é😀",
    ] {
        let home = installation("", None).unwrap();
        config(home.path(), &["set", &format!("LLM_MODEL={value}"), "--no-apply", "--force"]).unwrap();
        let env = text(&home, ".env").unwrap();
        assert_eq!(value_of(&env, "LLM_MODEL").unwrap().as_deref(), Some(value));
        let folder = Folder::open(home.path()).unwrap();
        assert_eq!(super::get::value(&folder, "LLM_MODEL", &Environment::default()).unwrap().as_deref(), Some(value));
        // Nothing of a value became a key of its own.
        let keys = ambient_settings::dotenv::Document::parse(&env).unwrap();
        let keys: Vec<&str> = keys.statements().iter().map(|statement| statement.name.as_str()).collect();
        assert_eq!(keys, ["POSTGRES_PASSWORD", "ENGINE_API_KEY", "LLM_MODEL"], "{env}");
        assert_eq!(engine_gets(&home, "LLM_MODEL").as_deref(), Some(value), "{env}");
    }
}

#[test]
fn engine_settings_that_nothing_passes_on_are_added_to_the_override() {
    let home = installation("", None).unwrap();
    config(home.path(), &["set", "E2B_API_KEY", "e2b_x$y", "S3_BUCKET=b", "LLM_API_KEY=k", "--no-apply"]).unwrap();
    assert_eq!(
        text(&home, "docker-compose.override.yml").unwrap(),
        "services:\n  engine:\n    environment:\n      E2B_API_KEY: ${E2B_API_KEY}\n      S3_BUCKET: ${S3_BUCKET}\n"
    );
    assert_eq!(engine_gets(&home, "E2B_API_KEY").as_deref(), Some("e2b_x$y"));
    assert_eq!(engine_gets(&home, "LLM_API_KEY").as_deref(), Some("k"));
    config(home.path(), &["unset", "S3_BUCKET", "--no-apply"]).unwrap();
    assert_eq!(value_of(&text(&home, ".env").unwrap(), "S3_BUCKET").unwrap(), None);
}

#[test]
fn literals_of_an_override_are_changed_where_they_stand() {
    let seed = "# mine\nservices:\n  engine:\n    environment:\n      SANDBOX_BACKEND: e2b # for the team\n      E2B_API_KEY: e2b_old\n";
    let home = installation("", Some(seed)).unwrap();
    config(home.path(), &["set", "SANDBOX_BACKEND=inprocess", "--no-apply"]).unwrap();
    assert_eq!(text(&home, "docker-compose.override.yml").unwrap(), seed.replace(": e2b #", ": inprocess #"));
    assert_eq!(engine_gets(&home, "SANDBOX_BACKEND").as_deref(), Some("inprocess"));
    // A secret never stands there.
    config(home.path(), &["set", "E2B_API_KEY=e2b_new", "--no-apply"]).unwrap();
    let over = text(&home, "docker-compose.override.yml").unwrap();
    assert!(over.contains("E2B_API_KEY: ${E2B_API_KEY}\n") && !over.contains("e2b_new"), "{over}");
    assert_eq!(engine_gets(&home, "E2B_API_KEY").as_deref(), Some("e2b_new"));
}

#[test]
fn a_literal_of_the_shipped_file_is_overridden() {
    let home = installation("", None).unwrap();
    config(home.path(), &["set", "SANDBOX_BACKEND", "e2b", "--no-apply"]).unwrap();
    assert_eq!(engine_gets(&home, "SANDBOX_BACKEND").as_deref(), Some("e2b"));
    assert_eq!(text(&home, "docker-compose.yml").as_deref(), Some(SHIPPED));
}

#[test]
fn only_one_line_changes_and_the_old_text_is_kept() {
    let env = "\n# comment\nexport X=1\nA=   # note\nB=x #y\nC=\"x\" # note\nX=2";
    let home = installation(env, None).unwrap();
    fs::set_permissions(home.path().join(".env"), fs::Permissions::from_mode(0o644)).unwrap();
    let before = text(&home, ".env").unwrap();
    config(home.path(), &["set", "D", "1", "--no-apply"]).unwrap();
    assert_eq!(text(&home, ".env").unwrap(), format!("{before}\nD=1\n"));
    assert_eq!(text(&home, "backups/.env.000001").unwrap(), before);
    for file in [".env", "backups/.env.000001", ".ambientctl.lock"] {
        assert_eq!(fs::metadata(home.path().join(file)).unwrap().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_file_of_another_system_is_read_clean_and_keeps_its_ways() {
    let home = installation("", None).unwrap();
    let before = "\u{feff}A=1\r\nPOSTGRES_PASSWORD=pw\r\nENGINE_API_KEY=key\r\nLLM_MODEL=m # why\r\n";
    fs::write(home.path().join(".env"), before).unwrap();
    let folder = Folder::open(home.path()).unwrap();
    let got = |key| super::get::value(&folder, key, &Environment::default()).unwrap();
    assert_eq!((got("A").as_deref(), got("LLM_MODEL").as_deref()), (Some("1"), Some("m")));
    assert_eq!(engine_gets(&home, "LLM_MODEL").as_deref(), Some("m"));
    config(home.path(), &["set", "A=2", "LLM_API_KEY=k", "--no-apply"]).unwrap();
    let expected = format!("{}LLM_API_KEY=k\r\n", before.replace("A=1", "A=2"));
    assert_eq!(text(&home, ".env").unwrap(), expected);
    assert_eq!(engine_gets(&home, "LLM_API_KEY").as_deref(), Some("k"));
}

#[test]
fn keys_and_values_are_checked_unless_forced() {
    let message = |key: &str, value: &str| check(key, value).unwrap_err().text();
    assert!(message("SANDBOX_BACKENT", "e2b").contains("did you mean `SANDBOX_BACKEND`?"));
    assert!(message("s3_bucket", "b").contains("it is `S3_BUCKET`"));
    assert!(message("SERVER_PORT", "99999").contains("is outside the range; it takes a whole number from 0 to 65535"));
    assert!(message("AMBIENT_ENGINE_PORT", "99999").contains("is no port"));
    assert!(message("S3_ENDPOINT", "canary").contains("takes") && !message("S3_ENDPOINT", "canary").contains("canary"));
    for (key, value) in
        [("AMBIENT_ENGINE_PORT", "8081"), ("LLM_API_KEY", "x"), ("SOMEBODYS_OWN", "x"), ("SERVER_PORT", "")]
    {
        check(key, value).unwrap();
    }
    let home = installation("", None).unwrap();
    assert_eq!(config(home.path(), &["set", "SANDBOX_BACKENT=x", "--no-apply"]).unwrap_err().exit(), Exit::Usage);
    config(home.path(), &["set", "SANDBOX_BACKENT=x", "--no-apply", "--force"]).unwrap();
    assert!(text(&home, ".env").unwrap().ends_with("SANDBOX_BACKENT=x\n"));
}

#[test]
fn of_several_keys_all_are_set_or_none() {
    let home = installation("A=1\n", None).unwrap();
    let before = text(&home, ".env");
    assert!(config(home.path(), &["set", "A=2", "SERVER_PORT=x", "--no-apply"]).is_err());
    assert!(config(home.path(), &["set", "A=2", "B=`'", "--no-apply"]).is_err());
    assert_eq!(text(&home, ".env"), before);
}

#[test]
fn a_file_that_cannot_be_read_or_edited_stays_and_the_message_mends_it() {
    let home = installation("A='open\n", None).unwrap();
    let failure = config(home.path(), &["set", "B=1", "--no-apply"]).unwrap_err().text();
    assert!(failure.contains(".env` line 3: unterminated quoted value"), "{failure}");
    let home = installation("", Some("x: &e {A: 1}\nservices:\n  engine:\n    environment: *e\n")).unwrap();
    let failure = config(home.path(), &["set", "S3_BUCKET=b", "--no-apply"]).unwrap_err().text();
    assert!(failure.contains("by hand") && failure.contains("      S3_BUCKET: ${S3_BUCKET}"), "{failure}");
    assert!(!text(&home, ".env").unwrap().contains("S3_BUCKET"));
    config(home.path(), &["set", "S3_BUCKET=b", "--no-apply", "--no-override"]).unwrap();
    assert!(text(&home, ".env").unwrap().contains("S3_BUCKET=b"));
}

#[test]
fn no_secret_is_shown() {
    let over = "services:\n  engine:\n    environment:\n      E2B_API_KEY: canary-old\n";
    let home =
        installation("LLM_API_KEY=canary-env\nDATABASE_URL=postgres://a:canary@h/d\nMY_TOKEN=canary\n", Some(over))
            .unwrap();
    let folder = Folder::open(home.path()).unwrap();
    let wishes =
        [("E2B_API_KEY", Wish::Set("canary-new")), ("LLM_API_KEY", Wish::Set("canary-2")), ("MY_TOKEN", Wish::Unset)];
    let changed = change(&folder, &wishes, Scope { no_override: false }).unwrap();
    let lines = diff::lines(&changed.edits, &["E2B_API_KEY", "LLM_API_KEY", "MY_TOKEN"]).join("\n");
    assert!(!lines.contains("canary"), "{lines}");
    assert!(lines.contains("+ E2B_API_KEY=[redacted]") && lines.contains("- MY_TOKEN=[redacted]"), "{lines}");
    assert!(lines.contains("+ services.engine.environment.E2B_API_KEY: ${E2B_API_KEY}"), "{lines}");
    let shown = format!("{:?} {:?}", super::show::rows(&folder, true, &Environment::default()).unwrap(), changed);
    assert!(!shown.contains("canary"), "{shown}");
}

#[test]
fn values_are_got_from_env_and_else_from_the_compose_files() {
    let home =
        installation("A='x y'\nB=$A\n", Some("services:\n  engine:\n    environment:\n      SANDBOX_BACKEND: e2b\n"))
            .unwrap();
    let folder = Folder::open(home.path()).unwrap();
    let got = |key| super::get::value(&folder, key, &Environment::default()).unwrap();
    assert_eq!(got("A").as_deref(), Some("x y"));
    assert_eq!(got("B").as_deref(), Some("x y"));
    assert_eq!(got("SANDBOX_BACKEND").as_deref(), Some("e2b"));
    assert_eq!(got("REDIS_URL").as_deref(), Some("redis://redis:6379/0"));
    assert_eq!(got("NOBODY"), None);
    assert_eq!(config(home.path(), &["get", "NOBODY"]).unwrap_err().exit(), Exit::Unhealthy);
    assert_eq!(config(home.path(), &["get", "A"]).unwrap(), Exit::Ok);
}

#[test]
fn origins_say_what_counts() {
    let home = installation("SANDBOX_BACKEND=e2b\nLLM_MODEL=m\n", None).unwrap();
    let folder = Folder::open(home.path()).unwrap();
    let shell = Environment { variables: vec![("LLM_MODEL".into(), "other".into())], env_file: None };
    let rows = super::show::rows(&folder, false, &shell).unwrap();
    let origin = |key: &str| {
        rows.iter().find(|row| row.key == key).map(|row| format!("{} ({})", row.value, row.origin)).unwrap()
    };
    assert_eq!(origin("SANDBOX_BACKEND"), "inprocess (`docker-compose.yml`, which hides `.env` line 3)");
    assert_eq!(origin("LLM_MODEL"), "other (this shell, which hides `.env` line 4)");
    assert_eq!(origin("POSTGRES_PASSWORD"), "[redacted] (`.env` line 1)");
    assert_eq!(origin("SERVER_HOST"), "0.0.0.0 (`docker-compose.yml`)");
}

#[test]
fn the_folder_comes_from_the_words_the_environment_or_home() {
    let dir = |dir: Option<&str>, variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let environment = Environment { variables, env_file: None };
        super::Dir { dir: dir.map(Into::into) }.path(&environment).map(|path| path.display().to_string()).ok()
    };
    let both = [("AMBIENT_DIR", "/srv/a"), ("HOME", "/home/ann")];
    assert_eq!(dir(Some("/x"), &both).as_deref(), Some("/x"));
    assert_eq!(dir(None, &both).as_deref(), Some("/srv/a"));
    assert_eq!(dir(None, &[("AMBIENT_DIR", ""), ("HOME", "/home/ann")]).as_deref(), Some("/home/ann/.ambient"));
    assert_eq!(dir(None, &[]), None);
}
