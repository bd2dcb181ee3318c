//! Loading as the engine meets it: where values come from, and what they become.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use ambient_settings::{
    DatabaseUrl, Kind, Loaded, LogFormat, Origin, Preset, SandboxBackend, Settings, catalogue, dotenv_exports, find,
};
use secrecy::ExposeSecret;
use tempfile::TempDir;

const HOME: (&str, &str) = ("HOME", "/home/ann");

fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

fn load(pairs: &[(&str, &str)]) -> Settings {
    let mut all = vec![HOME];
    all.extend(pairs);
    Settings::load(environment(&all), None).expect("these values have no fault").settings
}

/// A folder with a `.env` of this text.
fn folder_with(dotenv: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    fs::write(folder.path().join(".env"), dotenv).expect("a file can be written into it");
    folder
}

fn load_both(pairs: &[(&str, &str)], dotenv: &str) -> Loaded {
    let folder = folder_with(dotenv);
    let mut all = vec![HOME];
    all.extend(pairs);
    Settings::load(environment(&all), Some(&folder.path().join(".env"))).expect("these values have no fault")
}

#[test]
fn a_fresh_machine_gets_the_defaults() {
    let loaded = Settings::load(environment(&[HOME]), None).unwrap();
    assert_eq!(loaded.warnings, []);
    let settings = loaded.settings;
    assert_eq!(settings.home, "/home/ann/.ambient");
    assert_eq!(settings.media.video_folder, "/home/ann/.ambient/videos");
    assert_eq!(settings.bash.working_directory, settings.media.video_folder);
    assert!(matches!(&settings.store.database, DatabaseUrl::Sqlite(file) if file == "/home/ann/.ambient/ambient.db"));
    assert!(settings.store.redis_url.is_none());
    assert_eq!((settings.server.host.as_str(), settings.server.port), ("127.0.0.1", 8080));
    assert_eq!(settings.server.api_key.expose_secret(), "dev-token");
    assert_eq!(settings.server.max_upload_bytes, 10 << 30);
    assert_eq!(settings.server.shutdown_grace, Duration::from_secs(30));
    assert_eq!(settings.sandbox.backend, SandboxBackend::InProcess);
    assert_eq!(settings.sandbox.wall, Duration::from_mins(30));
    assert!(settings.sandbox.recreate);
    assert_eq!(settings.media.memory_limit_bytes, 4096 << 20);
    assert!(settings.llm.endpoint.is_none() && settings.agent.endpoint.is_none());
    assert_eq!(settings.description.model, settings.llm.model);
    assert_eq!(settings.e2b.api_url.to_string(), "https://api.e2b.app/");
    assert_eq!(settings.s3.region, "us-east-1");
    assert_eq!(settings.agent.max_turns_per_run, 20);
    assert_eq!(settings.logs.format, LogFormat::Text);
    assert_eq!(settings.ingest.wait_poll, Duration::from_millis(1500));
    assert_eq!(settings.media.ffmpeg, "ffmpeg");
}

#[test]
fn the_process_environment_beats_the_file_and_each_value_knows_its_place() {
    let loaded = load_both(
        &[("SERVER_PORT", "9001")],
        "# a comment\nSERVER_PORT=9002\nSERVER_HOST='127.0.0.2'\n\nSANDBOX_WALL_SECONDS=60\nSANDBOX_WALL_SECONDS=90\n",
    );
    let settings = loaded.settings;
    assert_eq!(settings.server.port, 9001);
    assert_eq!(settings.server.host, "127.0.0.2");
    assert_eq!(settings.sandbox.wall, Duration::from_secs(90));
    assert_eq!(settings.origin("SERVER_PORT"), Origin::Environment);
    assert_eq!(settings.origin("SERVER_HOST"), Origin::Dotenv { line: 3 });
    assert_eq!(settings.origin("SANDBOX_WALL_SECONDS"), Origin::Dotenv { line: 6 });
    assert_eq!(settings.origin("LOG_FORMAT"), Origin::Default);
}

#[test]
fn names_count_in_any_case_and_the_exact_spelling_first() {
    assert_eq!(load(&[("server_port", "9001")]).server.port, 9001);
    assert_eq!(load(&[("server_port", "9001"), ("SERVER_PORT", "9002")]).server.port, 9002);
    let loaded = load_both(&[("Server_Port", "9001")], "SERVER_PORT=9002\n");
    assert_eq!(loaded.settings.server.port, 9001);
}

#[test]
fn an_empty_value_is_not_set_but_hides_the_file() {
    let loaded = load_both(&[("S3_BUCKET", ""), ("SERVER_PORT", " ")], "S3_BUCKET=from-file\nSERVER_PORT=9002\n");
    assert_eq!(loaded.settings.s3.bucket, None);
    assert_eq!(loaded.settings.server.port, 8080);
    assert_eq!(loaded.settings.origin("S3_BUCKET"), Origin::Default);
}

#[test]
fn two_settings_are_switched_off_by_an_empty_value() {
    let settings = load(&[("MODEL_CATALOGUE_URL", ""), ("DEFAULT_AGENT_SYSTEM", "")]);
    assert!(settings.llm.catalogue_url.is_none());
    assert_eq!(settings.agent.default_system, "");
    assert_eq!(settings.origin("MODEL_CATALOGUE_URL"), Origin::Environment);
    assert!(load(&[]).llm.catalogue_url.is_some());
}

#[test]
fn a_missing_file_is_no_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".env");
    assert!(Settings::load(environment(&[HOME]), Some(&path)).is_ok());
    assert_eq!(dotenv_exports(environment(&[]), &path).unwrap(), []);
}

#[test]
fn the_file_may_refer_to_the_process_environment() {
    let loaded = load_both(&[("DATA", "/srv")], "VIDEO_FOLDER=${DATA}/videos\nBASH_CWD=$VIDEO_FOLDER\n");
    assert_eq!(loaded.settings.media.video_folder, "/srv/videos");
    assert_eq!(loaded.settings.bash.working_directory, "/srv/videos");
}

#[test]
fn exports_are_what_the_process_environment_lacks() {
    let folder = folder_with("E2B_API_KEY=e2b_1\nOTHER='x y'\nSERVER_PORT=1\nEMPTY=\nBARE");
    let mut exports = dotenv_exports(environment(&[("SERVER_PORT", "")]), &folder.path().join(".env")).unwrap();
    exports.sort();
    let expected = [("E2B_API_KEY", "e2b_1"), ("EMPTY", ""), ("OTHER", "x y")];
    assert_eq!(exports, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn relative_paths_and_the_home_sign_become_whole_paths() {
    let here = std::env::current_dir().unwrap();
    let settings = load(&[
        ("VIDEO_FOLDER", "~/clips"),
        ("AMBIENT_HOME", "data"),
        ("EXTERNAL_VIDEO_ALLOWED_ROOTS", "/a, ~, sub"),
        ("FFMPEG_PATH", "./bin/ffmpeg"),
        ("FFPROBE_PATH", "~/bin/ffprobe"),
    ]);
    let here = |name: &str| here.join(name).to_string_lossy().into_owned();
    assert_eq!(settings.media.video_folder, "/home/ann/clips");
    assert_eq!(settings.home, here("data"));
    assert_eq!(settings.media.allowed_roots, ["/a".to_owned(), "/home/ann/".to_owned(), here("sub")]);
    assert_eq!(settings.media.ffmpeg, here("bin/ffmpeg"));
    assert_eq!(settings.media.ffprobe, "/home/ann/bin/ffprobe");
}

#[test]
fn a_database_is_a_file_or_postgres() {
    let file = |url: &str| match load(&[("DATABASE_URL", url)]).store.database {
        DatabaseUrl::Sqlite(file) => file.into_string(),
        DatabaseUrl::Postgres(_) => panic!("{url} is no Postgres"),
    };
    let here = std::env::current_dir().unwrap();
    assert_eq!(file("sqlite:///srv/ambient.db"), "/srv/ambient.db");
    assert_eq!(file("sqlite:/srv/ambient.db"), "/srv/ambient.db");
    assert_eq!(file("sqlite:///srv/My%20Files/a.db"), "/srv/My Files/a.db");
    assert_eq!(file("sqlite://~/ambient.db"), "/home/ann/ambient.db");
    assert_eq!(file("sqlite://data/ambient.db"), here.join("data/ambient.db").to_string_lossy());
    for url in ["postgres://ann:pw@db:5432/ambient?sslmode=require", "postgresql:///ambient?host=/run/postgresql"] {
        let settings = load(&[("DATABASE_URL", url)]);
        assert!(
            matches!(&settings.store.database, DatabaseUrl::Postgres(kept) if kept.expose_secret() == url),
            "{url}"
        );
    }
}

#[test]
fn the_agent_falls_back_to_the_video_models_server_and_key() {
    let endpoint = |pairs: &[(&str, &str)]| {
        let endpoint = load(pairs).agent.endpoint.expect("an address is set");
        (endpoint.base_url.to_string(), endpoint.api_key.map(|key| key.expose_secret().to_owned()))
    };
    let llm = [("LLM_BASE_URL", "https://llm.example/v1"), ("LLM_API_KEY", "llm-key")];
    let key = |text: &str| Some(text.to_owned());
    assert_eq!(endpoint(&llm), ("https://llm.example/v1".to_owned(), key("llm-key")));
    let with_key = [llm[0], llm[1], ("AGENT_API_KEY", "agent-key")];
    assert_eq!(endpoint(&with_key), ("https://llm.example/v1".to_owned(), key("agent-key")));
    let alone = [("AGENT_BASE_URL", "http://127.0.0.1:11434/v1")];
    assert_eq!(endpoint(&alone), ("http://127.0.0.1:11434/v1".to_owned(), None));
}

#[test]
fn only_the_exact_word_selects_e2b() {
    let backend = |word: &str| load(&[("SANDBOX_BACKEND", word)]).sandbox.backend;
    assert_eq!(backend("e2b"), SandboxBackend::E2b);
    for word in ["E2B", "e2b ", " e2b", "e2b\n", "host", "inprocess", "", "docker"] {
        assert_eq!(backend(word), SandboxBackend::InProcess, "{word:?}");
    }
}

#[test]
fn the_bucket_address_and_region_are_cleaned() {
    let s3 = |endpoint: &str| load(&[("S3_ENDPOINT", endpoint)]).s3;
    assert_eq!(s3("http://127.0.0.1:9000/").endpoint.as_deref(), Some("http://127.0.0.1:9000"));
    assert_eq!(s3("https://s3.eu-west-1.amazonaws.com").region, "eu-west-1");
    assert_eq!(s3("https://s3.us-west-004.backblazeb2.com").region, "us-west-004");
    assert_eq!(s3("https://account.r2.cloudflarestorage.com").region, "us-east-1");
    assert_eq!(s3("https://s3.amazonaws.com").region, "us-east-1");
    assert_eq!(load(&[("AWS_DEFAULT_REGION", "eu-1")]).s3.region, "eu-1");
    assert_eq!(load(&[("AWS_DEFAULT_REGION", "eu-1"), ("AWS_REGION", "eu-2")]).s3.region, "eu-2");
    assert_eq!(load(&[("S3_VIDEO_BASE_KEY", "/team/videos/")]).s3.video_base_key, "team/videos");
}

#[test]
fn e2b_is_reached_where_domain_debug_and_url_say() {
    let url = |pairs: &[(&str, &str)]| load(pairs).e2b.api_url.to_string();
    assert_eq!(url(&[("E2B_DOMAIN", "e2b.example")]), "https://api.e2b.example/");
    assert_eq!(url(&[("E2B_DEBUG", "TRUE")]), "http://localhost:3000/");
    assert_eq!(url(&[("E2B_DEBUG", "true"), ("E2B_API_URL", "http://127.0.0.1:4000")]), "http://127.0.0.1:4000/");
}

#[test]
fn zero_turns_limits_off() {
    let settings =
        load(&[("SESSION_IDLE_TTL_SECONDS", "0"), ("SESSION_HARD_TTL_SECONDS", "0"), ("YOUTUBE_MAX_HEIGHT", "0")]);
    assert_eq!((settings.sessions.idle_ttl, settings.sessions.hard_ttl), (None, None));
    assert_eq!(settings.youtube.max_height, None);
}

#[test]
fn every_setting_is_read_and_takes_the_ends_of_its_range() {
    for setting in catalogue() {
        let ends = match setting.kind {
            Kind::Whole { least, most } | Kind::Seconds { least, most } | Kind::Bytes { least, most } => {
                [least.to_string(), most.to_string()]
            }
            Kind::Decimal { least, most } | Kind::PartSeconds { least, most } => [least.to_string(), most.to_string()],
            Kind::Switch => ["true", "false"].map(str::to_owned),
            Kind::OneOf(words) | Kind::Open(words) => [words[0].to_owned(), words[words.len() - 1].to_owned()],
            Kind::Url { schemes } => ["host", "host/path"].map(|rest| format!("{}://{rest}", schemes[0])),
            Kind::ServerUrl => ["http://host", "https://host:1"].map(str::to_owned),
            Kind::Text | Kind::Word | Kind::Path | Kind::Program | Kind::Paths => ["localhost", "x"].map(str::to_owned),
        };
        for value in ends {
            let mut pairs = vec![HOME, ("ALLOW_DEV_TOKEN", "true"), (setting.name, value.as_str())];
            // A key and its secret belong together.
            match setting.name {
                "AWS_ACCESS_KEY_ID" => pairs.push(("AWS_SECRET_ACCESS_KEY", "x")),
                "AWS_SECRET_ACCESS_KEY" => pairs.push(("AWS_ACCESS_KEY_ID", "x")),
                _ => {}
            }
            let loaded = Settings::load(environment(&pairs), None);
            let settings = loaded.unwrap_or_else(|faults| panic!("{} = {value}: {faults}", setting.name)).settings;
            assert_eq!(settings.origin(setting.name), Origin::Environment, "{} is not read", setting.name);
        }
    }
}

#[test]
fn values_are_shown_as_written_and_secrets_are_not() {
    let settings = load(&[
        ("SERVER_PORT", "9001"),
        ("LLM_API_KEY", "canary-key"),
        ("LLM_BASE_URL", "https://ann:canary-password@models.example/v1"),
    ]);
    let shown = |name: &str| settings.shown(find(name).expect("it is a setting"));
    assert_eq!(shown("SERVER_PORT"), "9001");
    assert_eq!(shown("SERVER_HOST"), "`127.0.0.1`");
    assert_eq!(shown("VIDEO_FOLDER"), "`<AMBIENT_HOME>/videos`");
    assert_eq!(shown("LLM_API_KEY"), "(secret)");
    assert_eq!(shown("E2B_API_KEY"), "not set");
    assert_eq!(shown("LLM_BASE_URL"), "https://[redacted]@models.example/v1");
    let debug = format!("{settings:#?}");
    assert!(!debug.contains("canary"), "{debug}");
}

#[test]
fn test_settings_look_at_nothing_outside() {
    let settings = Settings::for_tests("/tmp/home".into());
    assert_eq!(settings.home, "/tmp/home");
    assert_eq!(settings.server.port, 0);
    assert_eq!(settings.media.video_folder, "/tmp/home/videos");
    assert!(settings.llm.catalogue_url.is_none());
    assert_eq!(settings.origin("VIDEO_FOLDER"), Origin::Default);
}

#[test]
fn bytes_that_are_no_text_are_a_fault_only_of_a_setting() {
    let broken = || OsString::from_vec(vec![b'a', 0xff]);
    let with = |name: &str| Settings::load([(HOME.0.into(), HOME.1.into()), (OsString::from(name), broken())], None);
    assert!(with("SOMEBODY_ELSES").is_ok());
    let faults = with("SERVER_HOST").unwrap_err();
    assert_eq!(
        faults.to_string(),
        "the configuration has a fault: `SERVER_HOST` (environment): the value is not UTF-8 text; accepted: text without blanks"
    );
    assert!(find("SERVER_HOST").is_some_and(|setting| setting.preset == Preset::Is("127.0.0.1")));
}
