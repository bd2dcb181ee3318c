//! Media work through the shipped binary, and the same work by plain ffmpeg beside it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::command;
use crate::{BenchError, RunArgs};

/// The id under which the film stands in `VIDEO_FOLDER`.
pub(crate) const VIDEO: &str = "vid_0123456789abcdef";
/// So much of a film is made; longer ones repeat it.
const PIECE_SECONDS: u32 = 30;
const FENCE: &str = "===AMBIENT_RESULT===";
/// How often the memory of a family of processes is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A folder with a film of 1080p30 H.264, and the binary working in it.
#[derive(Debug)]
pub(crate) struct Studio {
    binary: PathBuf,
    home: TempDir,
}

/// A piece of work that is over.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) took: f64,
    pub(crate) peak_bytes: u64,
    pub(crate) data: Value,
}

impl Studio {
    pub(crate) async fn new(args: &RunArgs, seconds: u32) -> Result<Self, BenchError> {
        let studio = Self { binary: args.binary.clone(), home: tempfile::tempdir()? };
        std::fs::create_dir(studio.videos())?;
        let piece = studio.path("piece.mp4");
        let length = format!("d={PIECE_SECONDS}");
        let video = format!("testsrc2=s=1920x1080:r=30:{length}");
        let sound = format!("sine=f=300:{length}");
        let inputs = ["-f", "lavfi", "-i", &video, "-f", "lavfi", "-i", &sound];
        let encoders = ["-c:v", "libx264", "-preset", "medium", "-pix_fmt", "yuv420p", "-c:a", "aac"];
        studio.plain(&[&inputs[..], &encoders[..], &["-shortest", &piece]].concat()).await?;
        let times = (seconds / PIECE_SECONDS).saturating_sub(1).to_string();
        let film = studio.film();
        studio.plain(&["-stream_loop", &times, "-i", &piece, "-c", "copy", &film]).await?;
        Ok(studio)
    }

    fn videos(&self) -> PathBuf {
        self.home.path().join("videos")
    }

    /// The path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.home.path().join(name).to_string_lossy().into_owned()
    }

    pub(crate) fn film(&self) -> String {
        self.videos().join(format!("{VIDEO}.mp4")).to_string_lossy().into_owned()
    }

    /// Runs ffmpeg, and says how many seconds it took.
    pub(crate) async fn plain(&self, words: &[&str]) -> Result<f64, BenchError> {
        let mut ffmpeg = command(Path::new("ffmpeg"));
        ffmpeg.args(["-v", "error", "-nostdin", "-y"]).args(words).current_dir(self.home.path());
        let began = Instant::now();
        let output = ffmpeg.output().await?;
        let took = began.elapsed().as_secs_f64();
        if output.status.success() {
            return Ok(took);
        }
        Err(BenchError::Unexpected(format!("ffmpeg: {}", String::from_utf8_lossy(&output.stderr))))
    }

    /// Runs `ambientctl media …`.
    pub(crate) async fn ours(&self, words: &[&str]) -> Result<Done, BenchError> {
        let mut media = command(&self.binary);
        media.arg("media").args(words).current_dir(self.home.path()).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            media.env("PATH", path);
        }
        media.envs([("HOME", self.path("")), ("AMBIENT_HOME", self.path("ambient")), ("TMPDIR", self.path(""))]);
        media.env("VIDEO_FOLDER", self.videos()).env("RUST_LOG", "warn");
        media.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let began = Instant::now();
        let child = media.spawn()?;
        let id = child.id().unwrap_or_default();
        let working = child.wait_with_output();
        tokio::pin!(working);
        let mut peak_bytes = 0;
        let output = loop {
            tokio::select! {
                output = &mut working => break output?,
                () = tokio::time::sleep(LOOK_EVERY) => peak_bytes = peak_bytes.max(resident(id)),
            }
        };
        let took = began.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let answer: Value = said
            .split(FENCE)
            .nth(1)
            .and_then(|json| serde_json::from_str(json).ok())
            .ok_or_else(|| BenchError::Unexpected(format!("no answer in `{said}`")))?;
        if answer["ok"] != true {
            return Err(BenchError::Unexpected(format!("{words:?}: {answer}")));
        }
        Ok(Done { took, peak_bytes, data: answer["data"].clone() })
    }
}

/// What a process and all that it started hold in memory now, in bytes.
fn resident(root: u32) -> u64 {
    let mut family = vec![root];
    let mut total = 0;
    let parents: Vec<(u32, u32)> =
        std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| parent(&entry)).collect();
    while let Some(id) = family.pop() {
        let pages = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
        let pages: u64 = pages.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        total += pages * 4096;
        family.extend(parents.iter().filter(|(_child, parent)| *parent == id).map(|(child, _parent)| *child));
    }
    total
}

fn parent(entry: &std::fs::DirEntry) -> Option<(u32, u32)> {
    let id: u32 = entry.file_name().to_str()?.parse().ok()?;
    let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
    let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
    Some((id, parent))
}
