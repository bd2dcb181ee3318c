//! Makes test videos with ffmpeg, and looks at what came out of the crate with ffmpeg and ffprobe.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use ambient_media::{Clip, Media, MediaConfig, Source};
use anyhow::{Context, Result, ensure};
use camino::{Utf8Path, Utf8PathBuf};
use image::RgbImage;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::pattern::{self, Reading};

pub(crate) const SAMPLE_RATE: u32 = 16_000;
/// Clips are listened to at this rate.
const HEARD_RATE: u32 = 8000;
const FIRST_TONE: u32 = 300;
const TONE_STEP: u32 = 25;
const TONES: u32 = 60;

/// A folder of one test, and the crate working in it.
pub(crate) struct Room {
    pub(crate) folder: Utf8PathBuf,
    pub(crate) media: Media,
    pub(crate) stop: CancellationToken,
    _held: TempDir,
}

impl Room {
    pub(crate) fn new() -> Result<Self> {
        Self::with(|_config| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut MediaConfig)) -> Result<Self> {
        let held = tempfile::tempdir()?;
        let folder = Utf8PathBuf::from_path_buf(held.path().canonicalize()?)
            .ok()
            .context("the temporary folder is not UTF-8")?;
        let mut config = MediaConfig::in_folder(folder.join("out"));
        change(&mut config);
        Ok(Self { media: Media::new(config), stop: CancellationToken::new(), folder, _held: held })
    }

    pub(crate) fn source(&self, name: &str) -> Source {
        Source::File(self.folder.join(name))
    }

    /// What stands in the work folder now; empty when it was never made.
    pub(crate) fn outputs(&self) -> Result<Vec<String>> {
        let folder = self.folder.join("out");
        if !folder.exists() {
            return Ok(Vec::new());
        }
        folder.read_dir_utf8()?.map(|entry| Ok(entry?.file_name().to_owned())).collect()
    }
}

/// A room whose ffmpeg is a script, which finds the real one as `$FFMPEG` and the room's folder as `$ROOM`.
pub(crate) fn with_script(script: &str, change: impl FnOnce(&mut MediaConfig)) -> Result<Room> {
    let scripts = Utf8PathBuf::from_path_buf(tempfile::tempdir()?.keep()).ok().context("UTF-8")?;
    let program = scripts.join("ffmpeg");
    let room = Room::with(|config| {
        config.ffmpeg.clone_from(&program);
        change(config);
    })?;
    // Children have no environment to look it up in.
    let real = std::env::split_paths(&std::env::var_os("PATH").context("PATH")?)
        .map(|folder| folder.join("ffmpeg"))
        .find(|path| path.exists())
        .context("there is no ffmpeg")?;
    std::fs::write(&program, format!("#!/bin/sh\nROOM='{}'\nFFMPEG='{}'\n{script}\n", room.folder, real.display()))?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700))?;
    Ok(room)
}

/// A video to make. Every picture shows its own code, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Film {
    pub(crate) file: u8,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The rate at which pictures are fed, as ffmpeg takes it.
    pub(crate) rate: &'static str,
    pub(crate) codes: Vec<u32>,
    /// How much sound, in seconds; none if 0.
    pub(crate) sound_seconds: u32,
    pub(crate) white: u8,
    /// Arguments after the inputs: filters, encoders, muxer options.
    pub(crate) args: Vec<&'static str>,
    /// Written through a pipe, so that the muxer cannot go back.
    pub(crate) piped: bool,
}

impl Film {
    /// `count` pictures at `rate` a second, with sound of the same length.
    pub(crate) fn new(file: u8, rate: &'static str, count: u32) -> Self {
        let (numerator, denominator) = rate.split_once('/').unwrap_or((rate, "1"));
        let (numerator, denominator): (u64, u64) =
            (numerator.parse().expect("a rate"), denominator.parse().expect("a rate"));
        let code = |number: u32| ((u64::from(number) * 1000 * denominator + numerator / 2) / numerator) as u32;
        let codes: Vec<u32> = (0..count).map(code).collect();
        Self {
            file,
            width: 160,
            height: 120,
            rate,
            sound_seconds: code(count).div_ceil(1000),
            codes,
            white: 255,
            args: Vec::new(),
            piped: false,
        }
    }

    pub(crate) fn h264(self, args: &[&'static str]) -> Self {
        self.coded(
            &["-c:v", "libx264", "-preset", "ultrafast", "-bf", "2", "-crf", "24", "-pix_fmt", "yuv420p"],
            &["-c:a", "aac", "-b:a", "32k"],
            args,
        )
    }

    pub(crate) fn coded(mut self, video: &[&'static str], audio: &[&'static str], args: &[&'static str]) -> Self {
        let audio = if self.sound_seconds > 0 { audio } else { &[] };
        self.args = [video, audio, args].concat();
        self
    }

    pub(crate) const fn sized(mut self, width: u32, height: u32) -> Self {
        self.width = width;
        self.height = height;
        self
    }

    pub(crate) const fn sound(mut self, seconds: u32) -> Self {
        self.sound_seconds = seconds;
        self
    }

    /// Makes the file. Its name decides the muxer unless the arguments do.
    pub(crate) fn make(&self, path: &Utf8Path) -> Result<()> {
        let mut args: Vec<String> =
            ["-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "rgb24"].map(str::to_owned).to_vec();
        args.extend([
            "-s".to_owned(),
            format!("{}x{}", self.width, self.height),
            "-r".to_owned(),
            self.rate.to_owned(),
        ]);
        args.extend(["-i", "pipe:0"].map(str::to_owned));
        let tones = path.with_extension("pcm");
        if self.sound_seconds > 0 {
            std::fs::write(&tones, (0..self.sound_seconds).flat_map(tone).collect::<Vec<u8>>())?;
            args.extend(
                ["-f", "s16le", "-ar", &SAMPLE_RATE.to_string(), "-ac", "1", "-i", tones.as_str()].map(str::to_owned),
            );
        }
        args.extend(self.args.iter().map(|&word| word.to_owned()));
        args.extend(["-threads", "1"].map(str::to_owned));
        args.push(if self.piped { "pipe:1".to_owned() } else { format!("file:{path}") });
        let pictures =
            self.codes.iter().flat_map(|&code| pattern::render(self.width, self.height, code, self.file, self.white));
        let made = run("ffmpeg", &args, pictures.collect())?;
        if self.piped {
            std::fs::write(path, made.stdout)?;
        }
        if self.sound_seconds > 0 {
            std::fs::remove_file(tones)?;
        }
        Ok(())
    }
}

/// One second of sound; each second of a film has its own pitch.
fn tone(second: u32) -> Vec<u8> {
    let pitch = f64::from(FIRST_TONE + TONE_STEP * (second % TONES));
    let sample = |number: u32| {
        (9000.0 * (std::f64::consts::TAU * pitch * f64::from(number) / f64::from(SAMPLE_RATE)).sin()) as i16
    };
    (0..SAMPLE_RATE).flat_map(|number| sample(number).to_le_bytes()).collect()
}

/// Runs a program to its end and gives its output; a failure carries its complaint.
#[expect(
    clippy::disallowed_methods,
    reason = "tests make their files and check results with ffmpeg itself, not with the crate under test"
)]
pub(crate) fn run(program: &str, args: &[String], input: Vec<u8>) -> Result<Output> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{program} did not start"))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output()?;
    let fed = feeder.join().expect("the feeder does not panic");
    ensure!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    fed.or_else(|error| if error.kind() == std::io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
    Ok(output)
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A picture of a video: when it is shown, in milliseconds, and what it says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) shown_millis: f64,
    pub(crate) reading: Option<Reading>,
}

/// A finished clip, decoded once.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) pictures: Vec<Seen>,
    /// `pix_fmt`, range, matrix, transfer and primaries of the pictures.
    pub(crate) video: Vec<String>,
    /// The codec of the sound; empty where there is none.
    pub(crate) audio: String,
    sound: Vec<f64>,
}

/// Decodes a clip with ffmpeg itself.
pub(crate) fn watch(clip: &Clip) -> Result<Watched> {
    let path = &clip.path;
    let input = format!("file:{path}");
    let (stamps, sound) = (path.with_extension("stamps"), path.with_extension("pcm"));
    let mut args = words(&["-v", "error", "-y", "-i", &input, "-map", "0:v:0", "-fps_mode", "passthrough"]);
    args.extend(words(&["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"]));
    args.extend(words(&["-map", "0:v:0", "-fps_mode", "passthrough", "-enc_time_base", "1/1000000"]));
    args.extend(words(&["-c:v", "wrapped_avframe", "-f", "framecrc", stamps.as_str()]));
    if clip.has_audio {
        let rate = HEARD_RATE.to_string();
        args.extend(words(&["-map", "0:a:0", "-ac", "1", "-ar", &rate, "-f", "s16le", sound.as_str()]));
    }
    let raw = run("ffmpeg", &args, Vec::new())?.stdout;
    let times: Vec<f64> = std::fs::read_to_string(stamps)?
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(',').nth(2)?.trim().parse::<f64>().ok())
        .map(|micros| micros / 1000.0)
        .collect();
    let readings: Vec<Option<Reading>> = raw
        .chunks_exact((clip.width * clip.height * 3) as usize)
        .map(|bytes| {
            RgbImage::from_raw(clip.width, clip.height, bytes.to_vec()).and_then(|picture| pattern::read(&picture))
        })
        .collect();
    ensure!(times.len() == readings.len(), "{} times for {} pictures", times.len(), readings.len());

    let entries = "stream=codec_type,codec_name,pix_fmt,color_range,color_space,color_transfer,color_primaries";
    let listing =
        run("ffprobe", &words(&["-v", "error", "-show_entries", entries, "-of", "json", &input]), Vec::new())?;
    let listing: serde_json::Value = serde_json::from_slice(&listing.stdout)?;
    let stream = |kind: &str| {
        let streams = listing["streams"].as_array().into_iter().flatten();
        streams.into_iter().find(|stream| stream["codec_type"] == kind).cloned().unwrap_or_default()
    };
    let video = stream("video");
    let fact = |name: &str| video[name].as_str().unwrap_or_default().to_owned();
    let heard = if clip.has_audio { std::fs::read(sound)? } else { Vec::new() };
    Ok(Watched {
        pictures: times
            .into_iter()
            .zip(readings)
            .map(|(shown_millis, reading)| Seen { shown_millis, reading })
            .collect(),
        video: ["pix_fmt", "color_range", "color_space", "color_transfer", "color_primaries"].map(fact).to_vec(),
        audio: stream("audio")["codec_name"].as_str().unwrap_or_default().to_owned(),
        sound: heard.chunks_exact(2).map(|pair| f64::from(i16::from_le_bytes([pair[0], pair[1]]))).collect(),
    })
}

impl Watched {
    /// What the pictures say, in their order; unreadable ones are left out.
    pub(crate) fn codes(&self) -> Vec<u32> {
        self.pictures.iter().filter_map(|seen| Some(seen.reading?.millis)).collect()
    }

    /// Which second of the film is heard around `at` seconds of the clip.
    pub(crate) fn heard(&self, at: f64) -> Option<u32> {
        let from = ((at - 0.15).max(0.0) * f64::from(HEARD_RATE)) as usize;
        let samples: Vec<f64> = self.sound.iter().skip(from).take(HEARD_RATE as usize * 3 / 10).copied().collect();
        let energy: f64 = samples.iter().map(|sample| sample * sample).sum();
        let strength = |second: u32| {
            let step = std::f64::consts::TAU * f64::from(FIRST_TONE + TONE_STEP * second) / f64::from(HEARD_RATE);
            let (mut before, mut now) = (0.0, 0.0); // Goertzel's filter for one pitch
            for sample in &samples {
                (before, now) = (now, sample + 2.0 * step.cos() * now - before);
            }
            let power = now * now + before * before - 2.0 * step.cos() * now * before;
            2.0 * power / (energy * samples.len() as f64)
        };
        let best = (0..TONES).max_by(|one, two| strength(*one).total_cmp(&strength(*two)));
        best.filter(|&second| energy > 0.0 && strength(second) > 0.4)
    }

    /// How much the sound differs from another clip's of the same beginning, as a part of its energy, from `from` to `to` seconds of the clips.
    pub(crate) fn difference(&self, other: &Self, from: f64, to: f64) -> f64 {
        let place = |at: f64| (at * f64::from(HEARD_RATE)) as usize;
        let (from, count) = (place(from), place(to) - place(from));
        let pairs = self.sound.iter().zip(&other.sound).skip(from).take(count);
        let (apart, energy) = pairs.fold((0.0, 0.0), |(apart, energy), (one, other)| {
            (apart + (one - other) * (one - other), energy + other * other)
        });
        apart / energy
    }
}
