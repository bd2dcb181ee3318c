//! Settings as an operator gives them: faults all at once, `.env`, words of the command line.

use nix::sys::signal::Signal;

use crate::binary::{Serving, ambientctl, told};

#[test]
fn all_faults_are_told_at_once() {
    let home = tempfile::tempdir().unwrap();
    let output = ambientctl(home.path())
        .arg("serve")
        .env("SERVER_PORT", "eighty")
        .env("SERVER_WORKERS", "0")
        .env("DATABASE_URL", "mysql://nowhere/x")
        .output()
        .unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 2\n--- stdout\n--- stderr\nerror: the configuration has 3 faults:\n"), "{text}");
    for name in ["`SERVER_PORT` (environment)", "`SERVER_WORKERS` (environment)", "`DATABASE_URL` (environment)"] {
        assert!(text.contains(name), "{name} is not named in\n{text}");
    }
    assert!(text.contains("hint: "), "{text}");
    assert!(!home.path().join("ambient").exists(), "a start that was refused left something behind");
}

#[test]
fn the_default_key_is_refused_on_an_open_address() {
    let home = tempfile::tempdir().unwrap();
    let output = ambientctl(home.path()).args(["serve", "--host", "0.0.0.0", "--port", "0"]).output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 2"), "{text}");
    assert!(text.contains("`API_KEY`") && text.contains("ALLOW_DEV_TOKEN"), "{text}");
}

#[test]
fn dotenv_is_read_and_the_command_line_counts_before_it() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".env"), "SERVER_PORT=1\nAPI_KEY='key-from-the-file'\n").unwrap();
    let serving = Serving::start(ambientctl(home.path()).args(["serve", "--port", "0"])).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{}/v1/agents", serving.url);
    for (key, expected) in [("key-from-the-file", 200), ("dev-token", 401)] {
        let answer = runtime.block_on(client.get(&url).header("x-api-key", key).send()).unwrap();
        assert_eq!(answer.status().as_u16(), expected, "with the key `{key}`");
    }
    serving.signal(Signal::SIGINT).unwrap();
    assert!(serving.end().unwrap().0.success());
}

#[test]
fn a_broken_dotenv_is_a_fault_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".env"), "LLM_MODEL=m\nLLM_API_KEY=\"never closed\n").unwrap();
    let output = ambientctl(home.path()).arg("serve").output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 2"), "{text}");
    assert!(text.contains("`.env` line 2"), "{text}");
    assert!(!text.contains("never closed"), "a value is shown:\n{text}");
}

#[test]
fn a_named_file_has_to_be_there() {
    let home = tempfile::tempdir().unwrap();
    let output = ambientctl(home.path()).args(["serve", "--env-file", "production.env"]).output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 2"), "{text}");
    assert!(text.contains("there is no file `production.env`"), "{text}");
}

#[test]
fn a_misspelt_name_gets_a_hint() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".env"), "LLM_BASE_ULR=http://127.0.0.1:1/v1\nSERVER_PORT=eighty\n").unwrap();
    let output = ambientctl(home.path()).arg("serve").output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.contains("warning: `LLM_BASE_ULR`") && text.contains("LLM_BASE_URL"), "{text}");
}
