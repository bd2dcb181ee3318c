//! `ambientctl ask` and `chat` against a model server that says what a test wants. Everything else is real.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::binary::{ambientctl, eventually, told};
use crate::media::film;
use crate::model::{Model, Reply, has_result, text_of};

/// One film for all tests of this file.
static FILM: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("there is room for a film");
    let path = folder.path().join("film.mp4");
    film(&path, 4);
    (folder, path)
});

fn asking(home: &Path, model: &Model, command: &str) -> Command {
    let mut asking = ambientctl(home);
    asking.arg(command).arg(&FILM.1).env("LLM_BASE_URL", &model.url).env("LLM_API_KEY", "sk-hidden");
    asking.env("AGENT_MODEL", "planner").env("LLM_MODEL", "watcher");
    asking
}

/// A model that looks at a clip once and then answers.
fn looks_then_says(answer: &'static str) -> Model {
    let script = move |request: &Value| {
        if has_result(request) {
            Reply::Text(answer.to_owned())
        } else {
            Reply::Call("grab_frames", json!({ "start_time": 0, "end_time": 2 }))
        }
    };
    Model::start(script).expect("the loopback has a free port")
}

fn says(answer: &'static str) -> Model {
    Model::start(move |_request| Reply::Text(answer.to_owned())).expect("the loopback has a free port")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Folders that commands left of their engines.
fn left_behind(home: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(home.join("ambient/private")) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[test]
fn a_pipe_gets_the_answer_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let model = looks_then_says("A **clock** at 0:01.");
    let output = asking(home.path(), &model, "ask").arg("What is shown?").output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 0\n--- stdout\nA **clock** at 0:01.\n--- stderr\n"), "{text}");
    assert!(text.contains("let me look\ngrab_frames(start_time=0, end_time=2)\n"), "{text}");
    assert_eq!(left_behind(home.path()), Vec::<PathBuf>::new());
    assert!(!home.path().join("ambient/ambient.db").exists(), "the user's own engine was touched");
}

#[test]
fn json_is_one_document() {
    let home = tempfile::tempdir().unwrap();
    let model = looks_then_says("A clock.");
    let output = asking(home.path(), &model, "ask").args(["What is shown?", "--json", "--quiet"]).output().unwrap();
    let document = document(&output);
    assert_eq!(document["answer"], "A clock.");
    assert_eq!(document["model"], "planner");
    assert!(document["video_id"].as_str().unwrap().starts_with("vid_"), "{document}");
    assert!(document["usage"]["input_tokens"].as_u64().unwrap() >= 200, "{document}");
    assert_eq!(document["tool_calls"][0]["name"], "grab_frames");
    assert_eq!(document["tool_calls"][0]["failed"], false);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_schema_makes_the_answer_fit() {
    let home = tempfile::tempdir().unwrap();
    let schema = json!({"type": "object", "properties": {"seen": {"type": "boolean"}}, "required": ["seen"]});
    std::fs::write(home.path().join("schema.json"), schema.to_string()).unwrap();
    let model = says(r#"{"seen": true}"#);
    let words = ["Is there a clock?", "--schema", "schema.json", "--json"];
    let output = asking(home.path(), &model, "ask").args(words).output().unwrap();
    assert_eq!(document(&output)["structured"], json!({"seen": true}), "{}", told(home.path(), &output));

    let model = says("a clock, I think");
    let output = asking(home.path(), &model, "ask").args(words).output().unwrap();
    assert_eq!(document(&output)["error"]["exit_code"], 1, "{}", told(home.path(), &output));
}

#[test]
fn fast_mode_asks_once_without_tools_and_subtitles_go_with_the_question() {
    let home = tempfile::tempdir().unwrap();
    let subtitles = "1\n00:00:01,000 --> 00:00:02,000\n<i>It is noon.</i>\n";
    std::fs::write(home.path().join("film.srt"), subtitles).unwrap();
    let model = says("Noon.");
    let words = ["What time is it?", "--fast", "--model", "eyes", "--subtitles", "film.srt"];
    let output = asking(home.path(), &model, "ask").args(words).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Noon.\n", "{}", told(home.path(), &output));
    let asked = model.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0]["model"], "eyes");
    assert_eq!(asked[0]["tools"], Value::Null);
    assert!(text_of(&asked[0]).contains("[00:00:01.000] It is noon."), "{}", text_of(&asked[0]));
}

#[test]
fn an_interrupt_ends_the_run_and_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let model = Model::start(|_request| Reply::Nothing).unwrap();
    let mut asking = asking(home.path(), &model, "ask");
    let mut child = asking.arg("What?").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the model is asked", || (!model.asked().is_empty()).then_some(())).unwrap();
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(stdout, "");
    assert!(stderr.contains("stopping") && stderr.ends_with("error: the answer was interrupted\n"), "{stderr}");
    assert_eq!(left_behind(home.path()), Vec::<PathBuf>::new());
}

#[test]
fn what_is_wrong_is_told_before_an_engine_starts() {
    let home = tempfile::tempdir().unwrap();
    let model = says("never");
    for (words, expected) in [
        (&["missing.mp4", "What?"][..], "the video `missing.mp4` cannot be read"),
        (&[".", "What?"], "`.` is no file"),
        (&["https://example.com/a.mp4", "What?"], "url must be a YouTube URL"),
        (&["notes.txt", " "], "the question is empty"),
        (&["notes.txt", "What?", "--schema", "notes.txt"], "the schema `notes.txt` is no JSON"),
        (&["notes.txt", "What?", "--subtitles", "missing.srt"], "the subtitles `missing.srt` cannot be read"),
        (&["notes.txt", "What?", "--max-turns", "0"], "--max-turns"),
    ] {
        std::fs::write(home.path().join("notes.txt"), "no video\n").unwrap();
        let output = ambientctl(home.path()).arg("ask").args(words).env("LLM_BASE_URL", &model.url).output().unwrap();
        let text = told(home.path(), &output);
        assert!(text.starts_with("exit: 2\n--- stdout\n--- stderr\n"), "{words:?}: {text}");
        assert!(text.contains(expected), "{words:?}: {text}");
    }
    assert_eq!(model.asked(), Vec::<Value>::new());
}

#[test]
fn a_file_that_is_no_video_is_refused_in_the_engines_words() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("notes.txt"), "no video\n".repeat(1000)).unwrap();
    let model = says("never");
    let mut command = ambientctl(home.path());
    let output = command.args(["ask", "notes.txt", "What?"]).env("LLM_BASE_URL", &model.url).output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 1\n--- stdout\n--- stderr\n"), "{text}");
    assert!(text.contains("error: the engine refused: "), "{text}");
}

#[test]
fn a_missing_model_names_what_to_set() {
    let home = tempfile::tempdir().unwrap();
    let output = ambientctl(home.path()).arg("ask").arg(&FILM.1).arg("What?").output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 2\n--- stdout\n--- stderr\nerror: no model is set that could answer\n"), "{text}");
    assert!(text.contains("LLM_BASE_URL") && text.contains("LLM_API_KEY"), "{text}");
}

#[test]
fn a_key_that_is_refused_is_told_without_being_shown() {
    let home = tempfile::tempdir().unwrap();
    let refuse = |_request: &Value| Reply::Status(401, r#"{"error": {"message": "no such key: sk-hidden"}}"#);
    let model = Model::start(refuse).unwrap();
    let output = asking(home.path(), &model, "ask").arg("What?").output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 1\n--- stdout\n--- stderr\n"), "{text}");
    assert!(text.contains("error: there is no answer: ") && !text.contains("sk-hidden"), "{text}");

    let output = asking(home.path(), &model, "ask").arg("What?").env_remove("LLM_API_KEY").output().unwrap();
    let text = told(home.path(), &output);
    assert!(text.contains("hint: no key is set") && text.contains("LLM_API_KEY"), "{text}");
}

fn chatting(home: &Path, model: &Model, words: &[&str], input: &str) -> Output {
    let mut chatting = asking(home, model, "chat");
    chatting.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = chatting.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it reads");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_chat_keeps_its_session_and_ends_with_its_input() {
    let home = tempfile::tempdir().unwrap();
    let script = |request: &Value| {
        let text = text_of(request);
        Reply::Text(format!("first {}, second {}", text.contains("red door"), text.contains("blue door")))
    };
    let model = Model::start(script).unwrap();
    let output = chatting(home.path(), &model, &[], "Where is the red door?\n\nWhere is the blue door?\n");
    let text = told(home.path(), &output);
    let answers = "first true, second false\nfirst true, second true\n";
    assert!(text.starts_with(&format!("exit: 0\n--- stdout\n{answers}--- stderr\n")), "{text}");
    assert_eq!(left_behind(home.path()), Vec::<PathBuf>::new());

    let output = chatting(home.path(), &model, &["--json", "--quiet"], "a red door?\n/exit\na blue door?\n");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert_eq!(lines[0]["answer"], "first true, second false");
}

#[test]
fn a_question_that_fails_does_not_end_a_chat() {
    let home = tempfile::tempdir().unwrap();
    let script = |request: &Value| {
        // Of the newest message alone: the first question stays in the history.
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let newest = json!({ "messages": [messages.iter().rfind(|message| message["role"] == "user")] });
        if text_of(&newest).contains("break") {
            Reply::Status(400, r#"{"error": {"message": "out of order"}}"#)
        } else {
            Reply::Text("well".to_owned())
        }
    };
    let model = Model::start(script).unwrap();
    let output = chatting(home.path(), &model, &[], "break\nand now?\n");
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 1\n--- stdout\nwell\n--- stderr\n"), "{text}");
    assert!(text.contains("out of order"), "{text}");
}
