//! The programs that media work needs, with their versions.

use std::io;

use ambient_media::{Media, MediaError};
use camino::Utf8Path;

use super::llm::from_inside;
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::chain;

/// The program that runs the scripts by which yt-dlp gets at YouTube's formats.
const DENO: &str = "deno";
/// How old a yt-dlp may be, in days, before sites have most likely changed under it.
const STALE_DAYS: i64 = 120;

/// The findings' ids of one program.
struct Ids {
    works: &'static str,
    missing: &'static str,
    fails: &'static str,
}

pub(super) async fn ffmpeg(context: &Context, sink: &Sink) {
    let program = context.target.settings.media.ffmpeg.clone();
    let ids = Ids { works: "ffmpeg.works", missing: "ffmpeg.missing", fails: "ffmpeg.fails" };
    let why = "clips and frames are cut with it, so uploads are refused without";
    tool(context, sink, ("ffmpeg", "FFMPEG_PATH", &program), &ids, why).await;
}

pub(super) async fn ffprobe(context: &Context, sink: &Sink) {
    let program = context.target.settings.media.ffprobe.clone();
    let ids = Ids { works: "ffprobe.works", missing: "ffprobe.missing", fails: "ffprobe.fails" };
    let why = "each upload is looked at with it, so uploads are refused without";
    tool(context, sink, ("ffprobe", "FFPROBE_PATH", &program), &ids, why).await;
}

async fn tool(
    context: &Context,
    sink: &Sink,
    (name, setting, program): (&'static str, &'static str, &Utf8Path),
    ids: &Ids,
    why: &str,
) {
    if is_inside(context, ids.works, name, sink) {
        return;
    }
    sink.step(format!("`{program} -version`"));
    match Media::first_line(program, "-version").await {
        Ok(line) => match version_of(&line) {
            Some(version) => sink.put(Finding::ok(ids.works, format!("`{program}` is version {version}"))),
            None => sink.put(Finding::failure(
                ids.fails,
                format!("`{program}` does not answer as {name} does: {line}"),
                why,
                context.target.set(setting, name),
            )),
        },
        Err(error) if is_missing(&error) => {
            let remedy = if program == name {
                Remedy::run("sudo apt-get install -y ffmpeg")
            } else {
                context.target.set(setting, name)
            };
            sink.put(Finding::failure(
                ids.missing,
                format!("there is no program `{program}` (`{setting}`)"),
                why,
                remedy,
            ));
        }
        Err(error) => {
            let remedy = Remedy::run("sudo apt-get install -y --reinstall ffmpeg");
            sink.put(Finding::failure(ids.fails, format!("`{program}` does not work: {}", chain(&error)), why, remedy));
        }
    }
}

/// `ffmpeg version 5.1.9-0+deb12u1 Copyright (c) …`
fn version_of(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let (_name, word, version) = (words.next()?, words.next()?, words.next()?);
    (word == "version").then_some(version)
}

pub(super) async fn yt_dlp(context: &Context, sink: &Sink) {
    if is_inside(context, "yt-dlp.works", "yt-dlp", sink) {
        return;
    }
    let program = context.target.settings.media.yt_dlp.clone();
    sink.step(format!("`{program} --version`"));
    let (found, deno) =
        futures::join!(Media::first_line(&program, "--version"), Media::first_line(Utf8Path::new(DENO), "--version"));
    let why = "imports from YouTube need it; uploads do not";
    match found {
        Ok(version) => {
            sink.put(Finding::ok("yt-dlp.works", format!("`{program}` is version {version}")));
            sink.put(age(&version));
            runtime(deno, sink);
        }
        Err(error) if is_missing(&error) => {
            sink.put(Finding::warning(
                "yt-dlp.missing",
                format!("there is no program `{program}` (`YTDLP_PATH`)"),
                why,
                Remedy::run("pipx install yt-dlp"),
            ));
        }
        Err(error) => sink.put(Finding::warning(
            "yt-dlp.fails",
            format!("`{program}` does not work: {}", chain(&error)),
            why,
            Remedy::run("pipx reinstall yt-dlp"),
        )),
    }
}

fn runtime(deno: Result<String, MediaError>, sink: &Sink) {
    match deno {
        Ok(line) => sink.put(Finding::ok("yt-dlp.runtime", format!("its JavaScript runtime is {line}"))),
        Err(error) => sink.put(Finding::warning(
            "yt-dlp.runtime",
            format!("there is no `{DENO}` for yt-dlp: {}", chain(&error)),
            "yt-dlp runs YouTube's scripts in it, and gets few formats or none without",
            Remedy::run("curl -fsSL https://deno.land/install.sh | sh"),
        )),
    }
}

/// yt-dlp's versions are dates.
fn age(version: &str) -> Finding {
    let is_fresh = Finding::ok("yt-dlp.age", "it is recent enough");
    let mut numbers = version.split('.').map_while(|part| part.parse::<i16>().ok());
    let (Some(year), Some(month), Some(day)) = (numbers.next(), numbers.next(), numbers.next()) else {
        return is_fresh;
    };
    let date = i8::try_from(month)
        .ok()
        .zip(i8::try_from(day).ok())
        .and_then(|(month, day)| jiff::civil::Date::new(year, month, day).ok());
    let today = jiff::Timestamp::try_from(std::time::SystemTime::now()).ok();
    let today = today.map(|now| jiff::tz::TimeZone::UTC.to_datetime(now).date());
    match (date, today) {
        (Some(date), Some(today)) if i64::from((today - date).get_days()) > STALE_DAYS => Finding::warning(
            "yt-dlp.age",
            format!("yt-dlp is of {date}"),
            "sites change, and a yt-dlp of some months ago often fails on them",
            Remedy::run("pipx upgrade yt-dlp"),
        ),
        _ => is_fresh,
    }
}

/// Whether the programs are those of the engine's image.
fn is_inside(context: &Context, id: &'static str, name: &str, sink: &Sink) -> bool {
    let is_inside = context.target.is_install();
    if is_inside {
        let command = from_inside(&context.target, name);
        sink.put(Finding::skipped(id, format!("{name} is in the engine's image; `{command}` asks there")));
    }
    is_inside
}

fn is_missing(error: &MediaError) -> bool {
    matches!(error, MediaError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn a_banner_names_a_version() {
        assert_eq!(version_of("ffmpeg version 5.1.9-0+deb12u1 Copyright (c) 2000"), Some("5.1.9-0+deb12u1"));
        assert_eq!(version_of("busybox v1.35"), None);
    }

    #[test]
    fn an_old_downloader_is_told_and_a_date_that_is_none_is_not() {
        assert_eq!(age("2021.01.03").level, Level::Warning);
        assert_eq!(age("9999.01.03").level, Level::Ok);
        assert_eq!(age("nightly").level, Level::Ok);
    }
}
