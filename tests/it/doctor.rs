//! `ambientctl doctor` and `ambientctl verify`, with the shipped engine and a model server that always says the same.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::binary::{Serving, ambientctl, told};

/// What the model says.
const ANSWER: &str = "A test picture with a moving counter.";

/// Serves answers of the model on a port of the loopback, as long as this process lives; gives its base URL.
fn model() -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(client));
        }
    });
    Ok(url)
}

/// Reads a request whole, and answers it.
fn answer(mut client: TcpStream) -> io::Result<()> {
    let (mut request, mut byte) = (Vec::new(), [0]);
    while !request.ends_with(b"\r\n\r\n") && client.read(&mut byte)? == 1 {
        request.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&request).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next()?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body)?;
    let (kind, text) = if head.starts_with("get ") {
        ("application/json", r#"{"data":[{"id":"test-model"}]}"#.to_owned())
    } else if String::from_utf8_lossy(&body).contains("\"stream\":true") {
        let piece = serde_json::json!({ "choices": [{ "index": 0, "delta": { "content": ANSWER } }] });
        let end = serde_json::json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
        ("text/event-stream", format!("data: {piece}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
    } else {
        let whole = serde_json::json!({ "choices": [{ "index": 0, "message": { "role": "assistant", "content": ANSWER }, "finish_reason": "stop" }] });
        ("application/json", whole.to_string())
    };
    write!(
        client,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}

fn serve(home: &tempfile::TempDir, settings: &[(&str, &str)]) -> io::Result<Serving> {
    let mut command = ambientctl(home.path());
    command.args(["serve", "--port", "0"]).envs(settings.iter().copied());
    Serving::start(&mut command)
}

fn words(home: &tempfile::TempDir, words: &[&str]) -> Command {
    let mut command = ambientctl(home.path());
    command.args(words);
    command
}

#[test]
fn a_running_engine_is_verified_step_by_step() {
    let home = tempfile::tempdir().unwrap();
    let model = model().unwrap();
    let settings = [("LLM_BASE_URL", model.as_str()), ("LLM_MODEL", "test-model"), ("AGENT_MODEL", "test-model")];
    let serving = serve(&home, &settings).unwrap();
    let output = words(&home, &["verify", "--url", &serving.url, "--quiet"]).output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 0\n"), "{text}");
    let steps: Vec<&str> = text.lines().skip(2).filter_map(|line| line.split_once(':').map(|(step, _)| step)).collect();
    assert_eq!(steps, ["health", "upload", "session", "sandbox", "question", "answer", "end"], "{text}");
    assert!(text.contains(&format!("answer:     {ANSWER}")) && text.contains("everything works"), "{text}");
    assert!(text.contains(r#"sandbox:    {"backend":"inprocess""#), "{text}");

    let output = words(&home, &["verify", "--url", &serving.url, "--json"]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["ok"], true, "{document:#}");
    assert_eq!(document["answer"], ANSWER);
    assert_eq!(document["session"]["status"], "idle");
}

#[test]
fn what_keeps_an_engine_from_answering_is_told_by_doctor() {
    let home = tempfile::tempdir().unwrap();
    let serving = serve(&home, &[]).unwrap();
    let output = words(&home, &["verify", "--url", &serving.url]).output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 1\n"), "{text}");
    assert!(text.contains("failed: session ses_"), "{text}");
    assert!(text.contains("`LLM_BASE_URL` is not set"), "{text}");
    assert!(text.contains("export LLM_BASE_URL=https://openrouter.ai/api/v1"), "{text}");
    assert!(text.contains("is ended"), "the session is left: {text}");
}

#[test]
fn another_key_and_nobody_at_all_are_told() {
    let home = tempfile::tempdir().unwrap();
    let serving = serve(&home, &[]).unwrap();
    let mut command = words(&home, &["verify", "--url", &serving.url, "--api-key", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"canary-of-another-key\n").unwrap();
    let text = told(home.path(), &child.wait_with_output().unwrap());
    assert!(text.starts_with("exit: 1\n") && text.contains("failed: the engine refused: "), "{text}");
    assert!(!text.contains("canary-of-another-key"), "{text}");

    let output = words(&home, &["verify", "--url", "http://127.0.0.1:1"]).output().unwrap();
    let text = told(home.path(), &output);
    assert!(
        text.starts_with("exit: 3\n") && text.contains("failed: no engine answers at `http://127.0.0.1:1`"),
        "{text}"
    );
}

#[test]
fn doctor_looks_at_the_environment_at_a_file_and_mends_it() {
    let home = tempfile::tempdir().unwrap();
    let model = model().unwrap();
    let look = |more: &[&str]| {
        let mut command = words(&home, &[&["doctor", "--json"], more].concat());
        // Nobody listens there.
        command.env("SERVER_PORT", "1").env("DOCKER_HOST", "unix:///no/such/docker.sock");
        let output = command.output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), document)
    };
    let (code, document) = look(&[]);
    // These tests may run in a container themselves.
    let is_container = ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| fs::exists(mark).unwrap());
    let what = if is_container { "container" } else { "process" };
    let subject = format!("the environment of this {what}");
    assert_eq!((code, &document["subject"]), (Some(1), &subject.into()), "{document:#}");

    let file = home.path().join(".env");
    fs::write(&file, format!("LLM_BASE_URL={model}\nLLM_MODEL=test-model\nAGENT_MODEL=test-model\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, document) = look(&[]);
    let failures: Vec<&Value> =
        document["findings"].as_array().unwrap().iter().filter(|finding| finding["level"] == "failure").collect();
    assert_eq!(code, Some(1));
    assert_eq!(failures.len(), 1, "{failures:#?}");
    assert_eq!(failures[0]["id"], "env-file.mode");

    let began = Instant::now();
    let (code, document) = look(&["--fix"]);
    assert_eq!((code, &document["clean"]), (Some(0), &true.into()), "{document:#}");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn words_that_are_wrong_end_with_2() {
    let home = tempfile::tempdir().unwrap();
    for (given, said) in [
        (&["doctor", "--only", "buckt"][..], "there is no check `buckt`; did you mean `bucket`?"),
        (&["doctor", "--env-file", "none"], "there is no file `none`, which `--env-file` names"),
        (&["doctor", "--timeout", "0"], "0 is not in 1..=600"),
    ] {
        let output = words(&home, given).output().unwrap();
        let text = told(home.path(), &output);
        assert!(text.starts_with("exit: 2\n") && text.contains(said), "{text}");
    }
}

#[test]
fn no_secret_is_shown_however_much_is_logged() {
    let home = tempfile::tempdir().unwrap();
    let model = model().unwrap();
    let server = model.trim_end_matches("/v1");
    let secrets = [
        ("E2B_API_KEY", "e2b_canary1canary1canary1canary1canary1ca"),
        ("AWS_SECRET_ACCESS_KEY", "canary2-of-the-bucket"),
        ("LLM_API_KEY", "canary3-of-the-model"),
        ("API_KEY", "canary4-of-the-engine"),
        ("DATABASE_URL", "postgres://ann:canary5-of-the-database@127.0.0.1:1/films"),
        ("REDIS_URL", "redis://:canary6-of-redis@127.0.0.1:1/0"),
    ];
    let plain = [
        ("SANDBOX_BACKEND", "e2b"),
        ("E2B_API_URL", server),
        ("S3_ENDPOINT", server),
        ("S3_BUCKET", "films"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("LLM_BASE_URL", model.as_str()),
        ("LLM_MODEL", "test-model"),
        ("AGENT_MODEL", "test-model"),
        ("SERVER_PORT", "1"),
    ];
    let lines: String =
        secrets.iter().chain(&plain).fold(String::new(), |text, (name, value)| text + name + "=" + value + "\n");
    fs::write(home.path().join(".env"), lines).unwrap();
    for given in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["doctor", "--quiet"],
        &["doctor", "--deep", "--timeout", "2", "--only", "llm,e2b-key,e2b-boot,bucket,store,redis"],
        &["verify", "--url", "http://127.0.0.1:1"],
        &["verify", "--json", "--url", server],
    ] {
        let mut command = words(&home, given);
        command.env("RUST_LOG", "trace").env("RUST_BACKTRACE", "1").env("DOCKER_HOST", "unix:///no/such/docker.sock");
        let text = told(home.path(), &command.output().unwrap());
        assert!(!text.starts_with("exit: 0"), "{given:?}: {text}");
        for canary in ["canary1", "canary2", "canary3", "canary4", "canary5", "canary6"] {
            assert!(!text.contains(canary), "{given:?} shows {canary}: {text}");
        }
    }
}
