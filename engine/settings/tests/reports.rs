//! What an operator reads when the configuration is wrong, or works but perhaps not as meant.

use std::ffi::OsString;
use std::fs;

use ambient_settings::{Faults, Settings, catalogue};

fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    [("HOME", "/home/ann")].iter().chain(pairs).map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn faults(pairs: &[(&str, &str)]) -> Vec<String> {
    let faults = Settings::load(environment(pairs), None).expect_err("these values have a fault");
    faults.faults.iter().map(ToString::to_string).collect()
}

fn faults_of_file(dotenv: &[u8]) -> Faults {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join(".env");
    fs::write(&path, dotenv).expect("a file can be written into it");
    Settings::load(environment(&[("SERVER_PORT", "many")]), Some(&path)).expect_err("this file has a fault")
}

fn warnings(pairs: &[(&str, &str)]) -> Vec<String> {
    let loaded = Settings::load(environment(pairs), None).expect("these values have no fault");
    loaded.warnings.iter().map(ToString::to_string).collect()
}

fn warnings_of_file(dotenv: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join(".env");
    fs::write(&path, dotenv).expect("a file can be written into it");
    let loaded = Settings::load(environment(&[]), Some(&path)).expect("this file has no fault");
    loaded.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn all_faults_come_at_once_each_with_place_reason_and_accepted_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".env");
    fs::write(&path, "# settings\nSERVER_PORT=many\nTRACK_USAGE=perhaps\nS3_ENDPOINT=https://host/bucket\n").unwrap();
    let pairs =
        environment(&[("SANDBOX_WALL_SECONDS", "0"), ("LLM_BASE_URL", "localhost:11434"), ("LOG_FORMAT", "xml")]);
    let faults = Settings::load(pairs, Some(&path)).unwrap_err();
    assert_eq!(
        faults.to_string(),
        "the configuration has 6 faults:
  `SERVER_PORT` (`.env` line 2): `many` is not a whole number; accepted: a whole number from 0 to 65535
  `LOG_FORMAT` (environment): `xml` is not one of the accepted words; accepted: `text` or `json`
  `LLM_BASE_URL` (environment): `localhost:11434` starts with `localhost:`, which is not understood here; accepted: a URL that starts with `http://` or `https://`
  `TRACK_USAGE` (`.env` line 3): `perhaps` is neither true nor false; accepted: `true` or `false`
  `S3_ENDPOINT` (`.env` line 4): `https://host/bucket` has a path, a query or a bucket behind the host; accepted: `http://HOST[:PORT]` or `https://HOST[:PORT]`, with nothing behind it
  `SANDBOX_WALL_SECONDS` (environment): `0` is outside the range; accepted: whole seconds, 1 or more"
    );
}

#[test]
fn the_value_of_a_secret_never_appears() {
    for setting in catalogue().filter(|setting| setting.is_secret()) {
        let faults = Settings::load(environment(&[(setting.name, "canary with a blank")]), None).unwrap_err();
        let text = format!("{faults} {faults:?}");
        assert!(text.contains(setting.name) && text.contains("the value (not shown)"), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn a_long_value_is_cut_and_its_line_breaks_are_marked() {
    let long = format!("a\nb{}", "x".repeat(200));
    let texts = faults(&[("SERVER_PORT", &long)]);
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("`a\\nbxxx") && texts[0].contains("x…`") && texts[0].len() < 250, "{texts:?}");
}

#[test]
fn the_default_key_stops_the_start_where_others_can_reach_the_engine() {
    for host in ["0.0.0.0", "::", "192.168.1.5", "my-server"] {
        let texts = faults(&[("SERVER_HOST", host)]);
        assert_eq!(
            texts,
            [format!(
                "`API_KEY` (default): the default key is known to everybody, and `SERVER_HOST` `{host}` is reachable from other machines; \
                 set `API_KEY` to a long random text, or `SERVER_HOST=127.0.0.1`; `ALLOW_DEV_TOKEN=true` where something else keeps strangers out"
            )]
        );
        assert_eq!(faults(&[("SERVER_HOST", host), ("API_KEY", "dev-token")]).len(), 1, "set by hand it is no better");
        for allowed in [("API_KEY", "a-real-key"), ("ALLOW_DEV_TOKEN", "true")] {
            assert!(Settings::load(environment(&[("SERVER_HOST", host), allowed]), None).is_ok());
        }
    }
    for host in ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]", "::ffff:127.0.0.1"] {
        assert!(Settings::load(environment(&[("SERVER_HOST", host)]), None).is_ok(), "{host}");
    }
}

#[test]
fn one_of_two_keys_is_told_and_starts_all_the_same() {
    for (set, other) in [("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID")]
    {
        let expected = format!("`{other}` is not set though `{set}` is, so requests to the bucket cannot be signed");
        assert_eq!(warnings(&[(set, "canary")]), [expected]);
    }
}

#[test]
fn values_with_more_in_them_than_they_should_hold_are_refused() {
    for (name, value) in [
        ("S3_BUCKET", "bucket/prefix"),
        ("S3_BUCKET", "s3://bucket"),
        ("S3_VIDEO_BASE_KEY", "../other"),
        ("S3_VIDEO_BASE_KEY", "/"),
        ("DATABASE_URL", "sqlite::memory:"),
        ("DATABASE_URL", "sqlite:///srv/ambient.db?mode=ro"),
        ("DATABASE_URL", "sqlite:///srv/"),
        ("DATABASE_URL", "sqlite://"),
        ("DATABASE_URL", "mysql://host/db"),
        ("REDIS_URL", "redis://"),
        ("E2B_DOMAIN", "e2b app"),
        ("E2B_DOMAIN", "e2b[app"),
        ("E2B_DOMAIN", "e2b.app/path"),
        ("SERVER_HOST", "http://0.0.0.0"),
        ("LLM_BASE_URL", "https://openrouter.ai/api/v1/chat/completions"),
        ("AGENT_BASE_URL", "https://host/v1/chat/completions/"),
    ] {
        let texts = faults(&[(name, value), ("ALLOW_DEV_TOKEN", "true")]);
        assert_eq!(texts.len(), 1, "{name}={value}: {texts:?}");
        assert!(texts[0].contains(name), "{texts:?}");
    }
}

#[test]
fn without_a_home_folder_the_remedy_is_named() {
    let texts = Settings::load([], None).unwrap_err().to_string();
    assert_eq!(
        texts,
        "the configuration has a fault: `AMBIENT_HOME` (default): it has no default, because `HOME` is not set; \
         set `AMBIENT_HOME` to a folder, or set `HOME`"
    );
    assert!(Settings::load([("AMBIENT_HOME".into(), "/data".into())], None).is_ok());
    let sign = Settings::load([("AMBIENT_HOME".into(), "/data".into()), ("VIDEO_FOLDER".into(), "~/v".into())], None);
    assert!(sign.unwrap_err().to_string().contains("`~` stands for nothing, because `HOME` is not set"));
}

#[test]
fn a_file_that_cannot_be_read_is_one_fault_beside_the_others() {
    for (text, line, reason) in [
        (&b"API_KEY='open\n"[..], 1, "unterminated quoted value"),
        (b"A=1\nMY NAME=1\n", 2, "a variable name cannot contain a space"),
        (b"A=1\nB=\xff\n", 2, "is not UTF-8 text"),
        (b"A=1\nB=${X:?say why}\n", 2, "required variable `X` is missing a value: say why"),
    ] {
        let faults = faults_of_file(text);
        assert_eq!(faults.faults.len(), 2, "{faults}");
        let first = faults.faults[0].to_string();
        assert!(first.ends_with(&format!(".env` line {line}: {reason}")), "{first}");
        assert!(faults.faults[1].to_string().starts_with("`SERVER_PORT`"), "{faults}");
    }
}

#[test]
fn a_folder_in_place_of_the_file_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Settings::load(environment(&[]), Some(folder.path())).unwrap_err();
    assert!(faults.to_string().contains("cannot be read: "), "{faults}");
    assert!(ambient_settings::dotenv_exports(environment(&[]), folder.path()).is_err());
}

#[test]
fn a_typo_of_the_backend_is_said_loudly() {
    for word in ["E2B", "e2b ", "docker", "in-process"] {
        let texts = warnings(&[("SANDBOX_BACKEND", word)]);
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(
            texts[0].contains(&format!("is `{word}`, which is no backend")) && texts[0].contains("did you mean `e2b`?"),
            "{texts:?}"
        );
    }
    for word in ["host", "inprocess", ""] {
        assert_eq!(warnings(&[("SANDBOX_BACKEND", word)]), Vec::<String>::new(), "{word}");
    }
}

#[test]
fn a_half_set_e2b_is_told_and_does_not_stop_the_start() {
    let texts = warnings(&[("SANDBOX_BACKEND", "e2b")]);
    let names: Vec<_> = texts.iter().filter_map(|text| text.split('`').nth(1)).collect();
    assert_eq!(names, ["E2B_API_KEY", "S3_BUCKET"], "{texts:?}");
    let whole = [
        ("SANDBOX_BACKEND", "e2b"),
        ("E2B_API_KEY", "e2b_1"),
        ("S3_BUCKET", "videos"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    assert_eq!(warnings(&whole), Vec::<String>::new());
    let tiles = warnings(&[&whole[..], &[("ANALYSIS_FPS", "4")]].concat());
    assert!(tiles.len() == 1 && tiles[0].starts_with("`TILE_FPS`"), "{tiles:?}");
}

#[test]
fn what_others_may_do_with_the_shell_is_told() {
    let open = [("SERVER_HOST", "0.0.0.0"), ("API_KEY", "a-real-key")];
    let texts = warnings(&open);
    assert!(texts.len() == 1 && texts[0].starts_with("`ENABLE_BASH_TOOL` is on"), "{texts:?}");
    assert_eq!(warnings(&[open[0], open[1], ("ENABLE_BASH_TOOL", "false")]), Vec::<String>::new());
}

#[test]
fn keys_that_go_nowhere_or_elsewhere_are_told() {
    let nowhere = warnings(&[("LLM_API_KEY", "key")]);
    assert!(nowhere.len() == 1 && nowhere[0].starts_with("`LLM_BASE_URL` is not set though"), "{nowhere:?}");
    let llm = [("LLM_API_KEY", "key"), ("LLM_BASE_URL", "https://llm.example/v1")];
    assert_eq!(warnings(&llm), Vec::<String>::new());
    let elsewhere = warnings(&[llm[0], llm[1], ("AGENT_BASE_URL", "https://agent.example/v1")]);
    assert!(elsewhere.len() == 1 && elsewhere[0].contains("`LLM_API_KEY` is sent to it"), "{elsewhere:?}");
    let same_server = [llm[0], llm[1], ("AGENT_BASE_URL", "https://llm.example/v2")];
    assert_eq!(warnings(&same_server), Vec::<String>::new());
}

#[test]
fn a_key_copied_from_an_example_is_told() {
    assert_eq!(
        warnings(&[("E2B_API_KEY", "e2b_...")]),
        ["`E2B_API_KEY` (environment) ends in `...`, as examples do; put the real value there"]
    );
}

#[test]
fn a_bucket_that_is_set_halfway_is_told() {
    let texts = warnings(&[("S3_ENDPOINT", "http://127.0.0.1:9000/")]);
    assert_eq!(
        texts,
        [
            "`S3_ENDPOINT` (environment) ends in a slash, which is left out, since signatures would not match with it",
            "`S3_BUCKET` is not set though `S3_ENDPOINT` is, so there is no bucket",
        ]
    );
    assert_eq!(
        warnings(&[("S3_BUCKET", "videos")]),
        ["`AWS_ACCESS_KEY_ID` is not set, so requests to the bucket cannot be signed"]
    );
}

#[test]
fn names_in_the_file_that_nothing_reads_are_told_with_their_line() {
    let texts = warnings_of_file(
        "\nSANDBOX_BACKENT=e2b\nSQLITE_DB_PATH=x\nSOMETHING_ELSE=1\nS3_COLOUR=1\nPOSTGRES_PASSWORD=x\nA=$NOPE\nlast",
    );
    assert_eq!(
        texts,
        [
            "`.env` line 8 is a last line without `=`, so nothing reads it",
            "`S3_COLOUR` (`.env` line 5) is no setting, so nothing reads it; the settings are in `docs/configuration.md`",
            "`SANDBOX_BACKENT` (`.env` line 2) is no setting, so nothing reads it; did you mean `SANDBOX_BACKEND`?",
            "`SQLITE_DB_PATH` (`.env` line 3) is gone; a SQLite file is chosen by `DATABASE_URL=sqlite:///FOLDER/FILE`",
            "`NOPE` (`.env` line 7) is not set, so `$NOPE` is empty there; write `$$` or single quotes for a dollar sign that is data",
        ]
    );
}

#[test]
fn a_slip_in_the_process_environment_is_told_and_strangers_are_not() {
    let texts =
        warnings(&[("SANDBOX_BACKENT", "e2b"), ("SANDBOX_COLOUR", "x"), ("OPENAI_API_KEY", "x"), ("PATH", "/bin")]);
    assert_eq!(
        texts,
        ["`SANDBOX_BACKENT` (environment) is no setting, so nothing reads it; did you mean `SANDBOX_BACKEND`?"]
    );
}

#[test]
fn a_slip_is_told_beside_the_fault_that_it_explains() {
    let pairs = environment(&[("SERVER_HOST", "0.0.0.0"), ("SERVER_WORKERZ", "2")]);
    let faults = Settings::load(pairs, None).unwrap_err();
    assert_eq!(faults.faults.len(), 1);
    assert!(faults.warnings.iter().any(|warning| warning.name == "SERVER_WORKERZ"), "{:?}", faults.warnings);
}
