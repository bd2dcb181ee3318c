//! `ambientctl ask` and `chat` against a model server that says what a test wants. Everything else is real.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

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

/// A program in place of yt-dlp whose downloads give the film of these tests.
fn downloader(home: &Path) -> PathBuf {
    let folder = home.join("downloader");
    std::fs::create_dir(&folder).expect("the home is empty");
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/engine/media/tests/data/youtube");
    for name in ["yt-dlp", "info.json", "progress.txt"] {
        std::fs::copy(format!("{data}/{name}"), folder.join(name)).expect("the tests' data is there");
    }
    std::fs::copy(&FILM.1, folder.join("video")).expect("there is room for the film");
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(folder.join("yt-dlp"), private).expect("the file is ours");
    folder
}

const ADDRESS: &str = "https://www.youtube.com/watch?v=dQw4w9WgXcQ";

fn asking_over_an_address(home: &Path, model: &Model, downloader: &Path) -> Output {
    let mut asking = ambientctl(home);
    asking.args(["ask", ADDRESS, "What is shown?"]).env("YTDLP_PATH", downloader.join("yt-dlp"));
    asking.env("LLM_BASE_URL", &model.url).env("LLM_API_KEY", "sk-hidden").env("AGENT_MODEL", "planner");
    asking.env("LLM_MODEL", "watcher").output().expect("it starts")
}

#[test]
fn an_address_is_fetched_by_yt_dlp_and_then_asked_about() {
    let home = tempfile::tempdir().unwrap();
    let downloader = downloader(home.path());
    let model = looks_then_says("A bridge.");
    let output = asking_over_an_address(home.path(), &model, &downloader);
    let text = told(home.path(), &output);
    assert!(text.starts_with("exit: 0\n--- stdout\nA bridge.\n--- stderr\n"), "{text}");
    assert!(text.contains("grab_frames(start_time=0, end_time=2)\n"), "{text}");
    let calls = std::fs::read_to_string(downloader.join("calls")).unwrap();
    assert!(calls.lines().any(|word| word == ADDRESS), "{calls}");
    // What the tool saw of it is a picture, so what was fetched is a video.
    let asked = model.asked();
    assert!(asked.last().unwrap().to_string().contains("data:image/"), "no picture in {} requests", asked.len());
    assert_eq!(left_behind(home.path()), Vec::<PathBuf>::new());
}

#[test]
fn an_address_that_yt_dlp_cannot_fetch_is_told_in_its_words() {
    let home = tempfile::tempdir().unwrap();
    let downloader = downloader(home.path());
    std::fs::write(downloader.join("refusal"), "ERROR: [youtube] dQw4w9WgXcQ: Private video. Sign in\n").unwrap();
    let model = looks_then_says("never");
    let text = told(home.path(), &asking_over_an_address(home.path(), &model, &downloader));
    assert!(text.starts_with("exit: 1\n--- stdout\n--- stderr\n"), "{text}");
    assert!(text.to_lowercase().contains("private video"), "{text}");
    assert_eq!(left_behind(home.path()), Vec::<PathBuf>::new());
}

/// `chat` on a terminal of its own: what a person sees and types.
struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    screen: Arc<Mutex<String>>,
}

impl Terminal {
    fn open(home: &Path, model: &Model) -> Self {
        let plain = asking(home, model, "chat");
        // A shell that stayed would be interrupted too.
        let words = ["exec".into(), plain.get_program().to_string_lossy(), "chat".into(), FILM.1.to_string_lossy()];
        let mut on_terminal = terminal();
        on_terminal.args(["-qefc", &words.join(" "), "/dev/null"]).current_dir(home).env_clear().env("TERM", "xterm");
        for (name, value) in plain.get_envs() {
            on_terminal.env(name, value.unwrap_or_default());
        }
        let mut child = on_terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("`script` is there");
        let keys = child.stdin.take();
        let mut shown = child.stdout.take().expect("it is piped");
        let screen = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = shown.read(&mut piece) {
                let text = String::from_utf8_lossy(&piece[..count]).into_owned();
                seen.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        Self { child, keys, screen }
    }

    fn screen(&self) -> String {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the screen shows this so often.
    fn shows(&self, text: &str, times: usize) {
        let seen = eventually(text, || (self.screen().matches(text).count() >= times).then_some(()));
        seen.unwrap_or_else(|error| panic!("{error}; the screen: {:?}", self.screen()));
    }

    fn types(&mut self, keys: &str) {
        let line = self.keys.as_mut().expect("the terminal is open");
        line.write_all(keys.as_bytes()).and_then(|()| line.flush()).expect("the terminal takes keys");
    }

    /// Fails unless it ends by itself, with this exit code.
    fn ends(mut self, expected: i32) {
        let code = eventually("the end of the chat", || self.child.try_wait().expect("it is our child")?.code());
        assert_eq!(code.ok(), Some(expected), "the screen: {:?}", self.screen());
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "gives a program a terminal")]
fn terminal() -> Command {
    Command::new("script")
}

#[test]
fn a_chat_on_a_terminal_prompts_renders_and_goes_on_after_an_interrupt() {
    let home = tempfile::tempdir().unwrap();
    let script = |request: &Value| {
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let newest = json!({ "messages": [messages.iter().rfind(|message| message["role"] == "user")] });
        let text = text_of(&newest);
        if text.contains("for ever") { Reply::Nothing } else { Reply::Text("A **bold** door.".to_owned()) }
    };
    let model = Model::start(script).unwrap();
    let mut terminal = Terminal::open(home.path(), &model);
    terminal.shows("> ", 1);
    terminal.types("Where is the door?\n");
    terminal.shows("door.", 1);
    assert!(!terminal.screen().contains("**"), "Markdown is shown as it is written: {:?}", terminal.screen());
    assert!(terminal.screen().contains("\u{1b}["), "nothing is set off: {:?}", terminal.screen());

    terminal.types("Look for ever\n");
    eventually("the model is asked", || (model.asked().len() >= 2).then_some(())).unwrap();
    terminal.types("\u{3}");
    terminal.shows("interrupted", 1);
    terminal.types("And now?\n");
    terminal.shows("door.", 2);

    // The prompt after each of the three questions, and the first one.
    terminal.shows("> ", 4);
    terminal.types("\u{3}");
    terminal.shows("once more leaves, as does /exit", 1);
    terminal.types("/exit\n");
    // Whoever watched was told of what failed.
    terminal.ends(0);
    assert_eq!(left_behind(home.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_second_interrupt_leaves_a_chat() {
    let home = tempfile::tempdir().unwrap();
    let model = says("never");
    let mut terminal = Terminal::open(home.path(), &model);
    terminal.shows("> ", 1);
    terminal.types("\u{3}");
    terminal.shows("once more leaves", 1);
    terminal.types("\u{3}");
    terminal.ends(130);
    assert_eq!(left_behind(home.path()), Vec::<PathBuf>::new());
}
