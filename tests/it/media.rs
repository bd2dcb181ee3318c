//! `ambientctl media …` as a program meets it that reads stdout alone.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::binary::ambientctl;

const FENCE: &str = "===AMBIENT_RESULT===";
const ID: &str = "vid_0123456789abcdef";

fn media(home: &Path, words: &[&str]) -> Output {
    let command = &mut ambientctl(home);
    command.arg("media").args(words).env("VIDEO_FOLDER", home.join("videos")).output().expect("it starts")
}

/// The one line of stdout, and the exit code that goes with it.
fn answer(output: &Output) -> Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let line = stdout.strip_suffix('\n').unwrap_or_default();
    let inside = line.strip_prefix(FENCE).and_then(|line| line.strip_suffix(FENCE)).unwrap_or_default();
    assert!(!line.contains('\n') && !inside.is_empty(), "no envelope: {stdout}");
    let answer: Value = serde_json::from_str(inside).expect("JSON");
    assert_eq!(output.status.code(), Some(i32::from(answer["ok"] != true)), "{answer}");
    answer
}

#[expect(clippy::disallowed_methods, reason = "the film is made by ffmpeg itself, not by the binary under test")]
pub(crate) fn film(path: &Path, seconds: u32) {
    let made = std::process::Command::new("ffmpeg")
        .args(["-loglevel", "error", "-nostdin", "-y", "-f", "lavfi", "-i"])
        .arg(format!("testsrc=size=320x240:rate=10:duration={seconds}"))
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"])
        .arg(path)
        .status()
        .expect("ffmpeg is installed");
    assert!(made.success());
}

#[test]
fn every_media_command_has_help_with_an_example() {
    let home = tempfile::tempdir().unwrap();
    let output = media(home.path(), &["--help"]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let listed = text.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for command in [
        "probe",
        "extract-frames",
        "fetch-clip",
        "annotate-frame",
        "read-image",
        "upload-artifact",
        "upload-source",
        "ensure-source",
        "probe-youtube",
        "prepare-youtube",
        "transcode-tiles",
        "concat-tiles",
    ] {
        assert!(commands.contains(&command), "`{command}` is not in {commands:?}");
        let output = media(home.path(), &[command, "--help"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{command}");
        assert!(text.contains("Example") && text.contains(&format!("\n  ambientctl media {command} ")), "{text}");
    }
}

#[test]
fn a_film_is_probed_cut_and_looked_at() {
    let home = tempfile::tempdir().unwrap();
    let videos = home.path().join("videos");
    std::fs::create_dir(&videos).unwrap();
    let path = videos.join(format!("{ID}.mp4"));
    film(&path, 4);
    let data = answer(&media(home.path(), &["probe", "--video-id", ID]))["data"].clone();
    assert_eq!((&data["accepted"], &data["width"], &data["duration"]), (&true.into(), &320.into(), &4.0.into()));

    let words = ["fetch-clip", "--video-id", ID, "--start", "1", "--end", "2"];
    let clip = answer(&media(home.path(), &words))["data"]["clip"].clone();
    assert_eq!((&clip["start_time"], &clip["end_time"]), (&1.0.into(), &2.0.into()));
    let made = Path::new(clip["clip_file_path"].as_str().unwrap());
    assert!(made.starts_with(videos.join(ID).join("clips")) && made.is_file(), "{}", made.display());

    let words = ["extract-frames", "--source-path", path.to_str().unwrap(), "--start", "2.05", "--end", "2.05"];
    let mut command = ambientctl(home.path());
    let output = command.arg("media").args(words).env("TMPDIR", home.path()).output().unwrap();
    let frame = answer(&output)["data"]["frames"][0].clone();
    assert_eq!(frame["timestamp"], 2.0);
    assert!(Path::new(frame["frame_file_path"].as_str().unwrap()).starts_with(home.path()));
}

#[test]
fn wrong_words_end_in_an_envelope_and_tell_the_usage_on_stderr() {
    let home = tempfile::tempdir().unwrap();
    for (words, part) in [
        (&[][..], "a sub-command is missing"),
        (&["fetch-clip", "--video-id", ID], "--start"),
        (&["probe"], "--source-path"),
        (&["extract-frames", "--video-id", ID, "--fps", "fast"], "fast"),
        (&["dance"], "dance"),
    ] {
        let output = media(home.path(), words);
        let error = answer(&output)["error"].clone();
        assert_eq!(error["code"], "BadArguments");
        assert!(error["message"].as_str().unwrap().contains(part), "{words:?}: {error}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--help"), "{words:?}");
    }
}

#[test]
fn wrong_settings_end_in_an_envelope() {
    let home = tempfile::tempdir().unwrap();
    let mut command = ambientctl(home.path());
    let output = command.args(["media", "probe", "--video-id", ID]).env("MEDIA_CONCURRENCY", "many").output().unwrap();
    let error = answer(&output)["error"].clone();
    assert_eq!(error["code"], "BadSettings");
    assert!(error["message"].as_str().unwrap().contains("MEDIA_CONCURRENCY"), "{error}");
}

#[test]
fn a_video_of_youtube_is_fetched_with_progress_on_stderr() {
    let home = tempfile::tempdir().unwrap();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/engine/media/tests/data/youtube");
    let station = home.path().join("station");
    std::fs::create_dir(&station).unwrap();
    for name in ["yt-dlp", "info.json", "progress.txt"] {
        std::fs::copy(format!("{data}/{name}"), station.join(name)).unwrap();
    }
    let program = station.join("yt-dlp");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    film(&station.join("film.mp4"), 4);
    std::fs::rename(station.join("film.mp4"), station.join("video")).unwrap();

    let run = |command: &str, limit: &str| {
        let words = ["media", command, "--video-id", ID, "--url", "https://youtu.be/dQw4w9WgXcQ"];
        let mut it = ambientctl(home.path());
        it.args(words).env("YTDLP_PATH", &program).env("VIDEO_FOLDER", home.path().join("videos"));
        it.env("YOUTUBE_MAX_DURATION_SECONDS", limit).output().unwrap()
    };
    let looked = answer(&run("probe-youtube", "60"))["data"].clone();
    assert_eq!((&looked["title"], &looked["duration"]), (&"How a bridge is built".into(), &4.0.into()));
    assert_eq!((&looked["height"], &looked["extractor"]), (&240.into(), &"youtube".into()));

    let output = run("prepare-youtube", "60");
    let fetched = answer(&output)["data"].clone();
    let path = Path::new(fetched["source_file_path"].as_str().unwrap());
    assert_eq!(path, home.path().join("videos").join(ID).join(format!("{ID}.mp4")));
    assert_eq!(fetched["size_bytes"], std::fs::metadata(path).unwrap().len());
    assert_eq!((&fetched["source_kind"], &fetched["r2_key"]), (&"youtube".into(), &Value::Null));
    assert_eq!(fetched["download_info"]["format_id"], "136+140");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("AMBIENT_PROGRESS {\"phase\":\"downloading\",\"done_bytes\":25000,\"total_bytes\":90000}"),
        "{stderr}"
    );
    answer(&media(home.path(), &["probe", "--video-id", ID]));

    let error = answer(&run("prepare-youtube", "3"))["error"].clone();
    assert_eq!(error["code"], "YoutubeTooLong");
    assert_eq!(error["message"], "YouTube video duration 4s exceeds limit 3s");
}

/// The tiles that the list beside them tells, with what tells one file from another.
fn listed(folder: &Path, list: &str) -> Vec<(String, u64)> {
    let text = std::fs::read(folder.join(list)).unwrap_or_default();
    let manifest: Value = serde_json::from_slice(&text).unwrap_or_default();
    let keys = manifest["tiles"].as_array().into_iter().flatten().filter_map(|tile| tile["key"].as_str());
    keys.map(|key| (key.to_owned(), std::fs::metadata(key).expect("a tile that is listed is there").ino())).collect()
}

#[test]
fn tiles_that_a_kill_cut_off_go_on_where_they_were() {
    let home = tempfile::tempdir().unwrap();
    let videos = home.path().join("videos");
    std::fs::create_dir(&videos).unwrap();
    film(&videos.join(format!("{ID}.mp4")), 30);
    let folder = videos.join(ID).join("tiles");
    let words = ["transcode-tiles", "--video-id", ID, "--tile-seconds", "1", "--workers", "1"];
    let mut command = ambientctl(home.path());
    command.arg("media").args(words).env("VIDEO_FOLDER", &videos).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut killed = command.spawn().unwrap();
    // Each tile that is stored is told on stderr.
    let told = BufReader::new(killed.stderr.take().unwrap()).lines().map_while(Result::ok);
    let two = told.filter(|line| line.starts_with("AMBIENT_PROGRESS")).nth(2).expect("progress");
    assert_eq!(two, r#"AMBIENT_PROGRESS {"done_tiles":2,"total_tiles":30}"#);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let before = listed(&folder, "unfinished.json");
    assert!((2..30).contains(&before.len()) && !folder.join("manifest.json").exists(), "{before:?}");

    let manifest = answer(&media(home.path(), &words))["data"].clone();
    assert_eq!(manifest["tiles"].as_array().map(Vec::len), Some(30));
    let after = listed(&folder, "manifest.json");
    assert_eq!(after[..before.len()], before, "what was there was not made again");
}
