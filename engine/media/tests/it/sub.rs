//! The commands `ambientctl media …`, by their words and their fenced answers.

use std::time::Duration;

use ambient_media::objects::ObjectStore;
use ambient_media::sub::{Envelope, MediaCommand, Surroundings};
use ambient_media::{BucketReading, MediaConfig, YoutubeConfig};
use ambient_settings::TileSettings;
use ambient_test_bucket::TestBucket;
use anyhow::{Context, Result, ensure};
use camino::Utf8PathBuf;
use clap::Parser;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::film::{Film, run, words};
use crate::objects::config;
use crate::pattern;

const ID: &str = "vid_0123456789abcdef";
const FENCE: &str = "===AMBIENT_RESULT===";

#[derive(Parser)]
struct Words {
    #[command(subcommand)]
    command: MediaCommand,
}

/// A folder of videos and one for the rest.
struct Desk {
    folder: Utf8PathBuf,
    around: Surroundings,
    _held: TempDir,
}

impl Desk {
    fn new() -> Result<Self> {
        let held = tempfile::tempdir()?;
        let folder = Utf8PathBuf::from_path_buf(held.path().canonicalize()?).ok().context("not UTF-8")?;
        let videos = folder.join("videos");
        std::fs::create_dir(&videos)?;
        let youtube = YoutubeConfig {
            program: "no-such-yt-dlp".into(),
            max_height: None,
            max_duration: Duration::from_mins(1),
            max_size_bytes: 1 << 20,
            download_timeout: Duration::from_mins(1),
            cpu_seconds: 60,
            concurrency: 1,
            work_folder: "unused".into(),
        };
        let around = Surroundings {
            media: MediaConfig::in_folder("unused"),
            youtube,
            video_folder: videos,
            temporary_folder: folder.join("temporary"),
            bucket: None,
            tiles: tiles(),
            artifact_max_bytes: 1 << 20,
            artifact_url_life: Duration::from_mins(1),
        };
        Ok(Self { folder, around, _held: held })
    }

    /// With a film of 4 s under [`ID`], 25 pictures a second, and sound.
    fn with_a_film() -> Result<Self> {
        let desk = Self::new()?;
        Film::new(3, "25", 100).sized(320, 240).h264(&[]).make(&desk.film())?;
        Ok(desk)
    }

    /// The same with a bucket.
    fn with_a_bucket(bucket: &TestBucket) -> Result<Self> {
        let mut desk = Self::with_a_film()?;
        desk.around.bucket = Some(BucketReading {
            store: ObjectStore::new(config(bucket.endpoint())),
            streams: true,
            stream_min_bytes: 0,
            link_life: Duration::from_mins(1),
            copies: desk.folder.join("copies"),
            copies_max_bytes: 1 << 30,
        });
        Ok(desk)
    }

    fn film(&self) -> Utf8PathBuf {
        self.around.video_folder.join(format!("{ID}.mp4"))
    }

    async fn answer(&self, line: &[&str]) -> Result<Value> {
        let command = Words::try_parse_from(["media"].iter().chain(line))?.command;
        let envelope: Envelope = command.run(&self.around, &|_progress| {}, &CancellationToken::new()).await;
        let text = envelope.to_string();
        ensure!(!text.contains('\n'), "more than a line: {text}");
        let inside = text.strip_prefix(FENCE).and_then(|text| text.strip_suffix(FENCE)).context("no fences")?;
        let answer: Value = serde_json::from_str(inside)?;
        ensure!(answer["ok"] == envelope.is_ok(), "{answer}");
        ensure!(answer["error"].is_null() == envelope.is_ok() && answer["data"].is_null() != envelope.is_ok());
        Ok(answer)
    }

    async fn data(&self, line: &[&str]) -> Result<Value> {
        let answer = self.answer(line).await?;
        ensure!(answer["ok"] == true, "{line:?}: {answer}");
        Ok(answer["data"].clone())
    }

    /// The code and the message of what has to fail.
    async fn failure(&self, line: &[&str]) -> Result<(String, String)> {
        let answer = self.answer(line).await?;
        ensure!(answer["ok"] == false, "{line:?}: {answer}");
        let word = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
        Ok((word("code"), word("message")))
    }
}

fn tiles() -> TileSettings {
    TileSettings {
        enabled: true,
        local: false,
        length: Duration::from_secs(2),
        fps: 2.0,
        max_dimension: 160,
        workers: std::num::NonZeroUsize::MIN,
    }
}

/// What a picture file says, in milliseconds.
fn code_of(path: &Value) -> Result<u32> {
    let picture = image::open(path.as_str().context("no path")?)?.into_rgb8();
    Ok(pattern::read(&picture).context("no code in the picture")?.millis)
}

/// Reads the codes of a clip's pictures.
fn codes_of(clip: &Value) -> Result<Vec<u32>> {
    let side = |name: &str| clip[name].as_u64().and_then(|side| usize::try_from(side).ok()).context("no size");
    let (width, height) = (side("width")?, side("height")?);
    let input = format!("file:{}", clip["clip_file_path"].as_str().context("no path")?);
    let args = ["-v", "error", "-i", &input, "-map", "0:v:0", "-fps_mode", "passthrough"];
    let mut args = words(&args);
    args.extend(words(&["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"]));
    let raw = run("ffmpeg", &args, Vec::new())?.stdout;
    let pictures = raw.chunks_exact(width * height * 3).map(|bytes| {
        let picture = image::RgbImage::from_raw(u32::try_from(width)?, u32::try_from(height)?, bytes.to_vec());
        Ok(picture.and_then(|picture| pattern::read(&picture)).context("no code in a picture")?.millis)
    });
    pictures.collect()
}

#[tokio::test]
async fn probe_tells_what_a_video_holds() -> Result<()> {
    let desk = Desk::with_a_film()?;
    for line in [["probe", "--video-id", ID], ["probe", "--source-path", desk.film().as_str()]] {
        let data = desk.data(&line).await?;
        assert_eq!(data["accepted"], true);
        assert_eq!((&data["duration"], &data["start_seconds"]), (&4.0.into(), &0.0.into()));
        assert_eq!((&data["width"], &data["height"], &data["fps"]), (&320.into(), &240.into(), &25.0.into()));
        assert_eq!(
            (&data["rotation"], &data["video_codec"], &data["audio_codec"]),
            (&0.into(), &"h264".into(), &"aac".into())
        );
        assert_eq!(data["streams"].as_array().map(Vec::len), Some(2));
        assert_eq!(data["source_path"], desk.film().as_str());
    }
    Ok(())
}

#[tokio::test]
async fn probe_tells_the_size_as_shown_and_the_turn() -> Result<()> {
    let desk = Desk::new()?;
    let (lying, upright) = (desk.folder.join("lying.mp4"), desk.folder.join("upright.mp4"));
    Film::new(3, "25", 25).sized(320, 240).sound(0).h264(&[]).make(&lying)?;
    let mut args = words(&["-v", "error", "-y", "-display_rotation", "90", "-i", lying.as_str()]);
    args.extend(words(&["-c", "copy", upright.as_str()]));
    if run("ffmpeg", &args, Vec::new()).is_err() {
        // ffmpeg before 6 writes the turn by a tag.
        let mut args = words(&["-v", "error", "-y", "-i", lying.as_str(), "-c", "copy"]);
        args.extend(words(&["-metadata:s:v:0", "rotate=270", upright.as_str()]));
        run("ffmpeg", &args, Vec::new())?;
    }
    let data = desk.data(&["probe", "--source-path", upright.as_str()]).await?;
    assert_eq!((&data["width"], &data["height"]), (&240.into(), &320.into()), "{data}");
    assert!(data["rotation"] == 90 || data["rotation"] == 270, "{data}");
    assert_eq!((&data["has_audio"], &data["audio_codec"]), (&false.into(), &Value::Null));
    Ok(())
}

#[tokio::test]
async fn probe_of_what_would_be_refused_is_an_answer() -> Result<()> {
    let desk = Desk::new()?;
    let path = desk.folder.join("list.mp4");
    std::fs::write(&path, "#EXTM3U\n#EXTINF:10,\n/etc/passwd\n")?;
    let data = desk.data(&["probe", "--source-path", path.as_str()]).await?;
    assert_eq!(data["accepted"], false);
    assert!(data["acceptance"]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{data}");
    assert_eq!((&data["width"], &data["video_codec"]), (&Value::Null, &Value::Null));
    let (code, _message) = desk.failure(&["extract-frames", "--source-path", path.as_str()]).await?;
    assert_eq!(code, "SourceRefused");
    Ok(())
}

#[tokio::test]
async fn extract_frames_gives_the_pictures_on_screen_with_their_true_times() -> Result<()> {
    let desk = Desk::with_a_film()?;
    let one = ["extract-frames", "--video-id", ID, "--start", "2.03", "--end", "2.03", "--max-frames", "1"];
    let data = desk.data(&one).await?;
    let frames = data["frames"].as_array().context("no frames")?;
    assert_eq!(frames.len(), 1);
    assert_eq!(
        (&frames[0]["timestamp"], &frames[0]["asked"], &frames[0]["clamped"]),
        (&2.0.into(), &2.03.into(), &false.into())
    );
    assert_eq!(frames[0]["id"], format!("{ID}_fps1_t2.000"));
    assert_eq!((&frames[0]["video_id"], &frames[0]["frame_url"]), (&ID.into(), &Value::Null));
    assert_eq!(code_of(&frames[0]["frame_file_path"])?, 2000);
    let path = frames[0]["frame_file_path"].as_str().unwrap_or_default();
    assert!(path.starts_with(desk.around.video_folder.join(ID).join("frames").as_str()), "{path}");
    assert_eq!((&data["duration"], &data["clamped"]), (&4.0.into(), &false.into()));

    // The defaults: the whole video, a picture a second, at its own size.
    let data = desk.data(&["extract-frames", "--source-path", desk.film().as_str()]).await?;
    let frames = data["frames"].as_array().context("no frames")?;
    let codes: Vec<u32> = frames.iter().map(|frame| code_of(&frame["frame_file_path"])).collect::<Result<_>>()?;
    assert_eq!(codes, [0, 1000, 2000, 3000]);
    assert_eq!((&data["start"], &data["end"], &data["width"]), (&0.0.into(), &3.0.into(), &320.into()));
    let path = frames[0]["frame_file_path"].as_str().unwrap_or_default();
    assert!(path.starts_with(desk.around.temporary_folder.as_str()), "{path}");

    let data = desk
        .data(&["extract-frames", "--video-id", ID, "--fps", "10", "--max-frames", "2", "--max-dim", "160"])
        .await?;
    assert_eq!((data["frames"].as_array().map(Vec::len), &data["height"]), (Some(2), &120.into()));
    Ok(())
}

#[tokio::test]
async fn extract_frames_says_when_it_clamped() -> Result<()> {
    let desk = Desk::with_a_film()?;
    let data = desk.data(&["extract-frames", "--video-id", ID, "--start", "9", "--end", "9"]).await?;
    assert_eq!((&data["clamped"], &data["frames"][0]["clamped"]), (&true.into(), &true.into()));
    assert_eq!(code_of(&data["frames"][0]["frame_file_path"])?, 3960);
    let data = desk.data(&["extract-frames", "--video-id", ID, "--start", "3", "--end", "60"]).await?;
    assert_eq!((&data["clamped"], &data["end"]), (&true.into(), &3.96.into()));
    Ok(())
}

#[tokio::test]
async fn fetch_clip_cuts_exactly_and_names_what_it_made() -> Result<()> {
    let desk = Desk::with_a_film()?;
    let clip =
        desk.data(&["fetch-clip", "--video-id", ID, "--start", "1.01", "--end", "2.5", "--fps", "0"]).await?["clip"]
            .clone();
    // The first picture at or after 1.01 s is that of 1.04 s.
    assert_eq!((&clip["start_time"], &clip["end_time"], &clip["clamped"]), (&1.04.into(), &2.5.into(), &false.into()));
    assert_eq!(clip["id"], format!("{ID}_clip_1.040_1.460secs"));
    assert_eq!((&clip["clip_url"], &clip["has_audio"]), (&Value::Null, &true.into()));
    let wanted: Vec<u32> = (26..63).map(|number| number * 40).collect();
    assert_eq!(codes_of(&clip)?, wanted, "all pictures at their own rate");
    let path = clip["clip_file_path"].as_str().unwrap_or_default();
    assert!(path.starts_with(desk.around.video_folder.join(ID).join("clips").as_str()), "{path}");

    let film = desk.film();
    let line = ["fetch-clip", "--source-path", film.as_str(), "--start", "1", "--end", "99", "--max-dim", "160"];
    let clip = desk.data(&line).await?["clip"].clone();
    assert_eq!((&clip["end_time"], &clip["clamped"], &clip["video_id"]), (&4.0.into(), &true.into(), &Value::Null));
    assert_eq!((&clip["width"], &clip["height"]), (&160.into(), &120.into()));
    assert_eq!(codes_of(&clip)?.len(), 15, "five pictures a second unless said otherwise");
    Ok(())
}

#[tokio::test]
async fn fetch_clip_keeps_to_its_longest_and_its_largest() -> Result<()> {
    let desk = Desk::new()?;
    let path = desk.folder.join("long.mp4");
    Film::new(3, "1/10", 66).sound(0).h264(&[]).make(&path)?;
    let clip = desk
        .data(&["fetch-clip", "--source-path", path.as_str(), "--start", "0", "--end", "650", "--fps", "0"])
        .await?["clip"]
        .clone();
    assert_eq!((&clip["end_time"], &clip["clamped"]), (&600.0.into(), &true.into()));
    assert_eq!(codes_of(&clip)?.len(), 60);
    let line = ["fetch-clip", "--source-path", path.as_str(), "--start", "0", "--end", "100", "--max-size-mb", "0.02"];
    let clip = desk.data(&line).await?["clip"].clone();
    assert!(clip["size_bytes"].as_u64().is_some_and(|size| size <= 20_971), "{clip}");
    Ok(())
}

#[tokio::test]
async fn annotate_frame_draws_and_repeats_what_it_was_given() -> Result<()> {
    let desk = Desk::with_a_film()?;
    let marks = r#"[{"label":"cup","box":[800,300,400,700],"seen_by":"model"},{"point":[500,100]}]"#;
    let line = ["annotate-frame", "--video-id", ID, "--timestamp", "2.01", "--annotations", marks];
    let data = desk.data(&line).await?;
    assert_eq!((&data["timestamp"], &data["clamped"], &data["url"]), (&2.0.into(), &false.into(), &Value::Null));
    assert_eq!((&data["width"], &data["height"]), (&320.into(), &240.into()));
    let drawn = &data["annotations"];
    assert_eq!((&drawn[0]["label"], &drawn[0]["seen_by"]), (&"cup".into(), &"model".into()));
    assert_eq!(drawn[0]["pixel_box"], serde_json::json!({"x_min": 96, "y_min": 96, "x_max": 224, "y_max": 192}));
    assert_eq!(drawn[1]["pixel_point"], serde_json::json!([160, 24]));
    let picture = image::open(data["path"].as_str().context("no path")?)?.into_rgb8();
    let [red, green, blue] = picture.get_pixel(97, 150).0;
    assert!(red > 170 && green < 90 && blue < 130, "the edge is {red} {green} {blue}");

    let pixels = [&line[..], &["--coord-scale", "0"]].concat();
    let data = desk.data(&pixels).await?;
    assert_eq!(data["annotations"][0]["pixel_box"]["y_max"], 239, "pixels are kept inside");
    let (code, _message) =
        desk.failure(&["annotate-frame", "--video-id", ID, "--timestamp", "1", "--annotations", "{"]).await?;
    assert_eq!(code, "BadAnnotations");
    Ok(())
}

#[tokio::test]
async fn read_image_fits_a_picture() -> Result<()> {
    let desk = Desk::new()?;
    let path = desk.folder.join("picture.png");
    image::RgbImage::from_pixel(1536, 300, image::Rgb([200, 10, 10])).save(&path)?;
    let data = desk.data(&["read-image", "--path", path.as_str()]).await?;
    assert_eq!((&data["width"], &data["height"], &data["image_url"]), (&768.into(), &150.into(), &Value::Null));
    assert_eq!(data["source_path"], path.as_str());
    assert!(image::open(data["image_file_path"].as_str().context("no path")?).is_ok());
    let (code, message) = desk.failure(&["read-image", "--path", "/nowhere/at-all.png"]).await?;
    assert_eq!((code.as_str(), message.as_str()), ("ImageNotFound", "there is no file `/nowhere/at-all.png`"));
    Ok(())
}

#[tokio::test]
async fn ensure_source_tells_where_a_video_lies() -> Result<()> {
    let desk = Desk::with_a_film()?;
    let data = desk.data(&["ensure-source", "--video-id", ID]).await?;
    assert_eq!(data["source_file_path"], desk.film().as_str());
    assert_eq!(data["size_bytes"], std::fs::metadata(desk.film())?.len());
    // Inside of its own folder it is found as well.
    let inside = desk.around.video_folder.join(ID).join(format!("{ID}.mov"));
    std::fs::create_dir_all(inside.parent().context("a folder")?)?;
    std::fs::rename(desk.film(), &inside)?;
    assert_eq!(desk.data(&["ensure-source", "--video-id", ID]).await?["source_file_path"], inside.as_str());
    Ok(())
}

/// What a link leads to.
async fn followed(link: &Value) -> Result<Vec<u8>> {
    let link = link.as_str().context("no link")?;
    Ok(reqwest::get(link).await?.error_for_status()?.bytes().await?.to_vec())
}

fn on_disk(path: &Value) -> Result<Vec<u8>> {
    Ok(std::fs::read(path.as_str().context("no path")?)?)
}

#[tokio::test]
async fn outputs_go_to_the_bucket_and_their_links_lead_there() -> Result<()> {
    let bucket = TestBucket::start().await?;
    let desk = Desk::with_a_bucket(&bucket)?;
    let line = ["extract-frames", "--video-id", ID, "--max-frames", "2", "--upload-s3", "--s3-presigned-expires", "60"];
    let data = desk.data(&line).await?;
    let frames = data["frames"].as_array().context("no frames")?;
    assert_eq!(frames.len(), 2);
    for frame in frames {
        assert!(frame["frame_url"].as_str().is_some_and(|link| link.contains("X-Amz-Expires=60&")), "{frame}");
        assert_eq!(followed(&frame["frame_url"]).await?, on_disk(&frame["frame_file_path"])?);
    }
    let clip = desk.data(&["fetch-clip", "--video-id", ID, "--start", "1", "--end", "2", "--upload-s3"]).await?["clip"]
        .clone();
    assert_eq!(followed(&clip["clip_url"]).await?, on_disk(&clip["clip_file_path"])?);
    // The same window in another size is another object.
    let small = ["fetch-clip", "--video-id", ID, "--start", "1", "--end", "2", "--max-dim", "160", "--upload-s3"];
    desk.data(&small).await?;
    let marks = r#"[{"label":"cup","point":[1,2]}]"#;
    let line = ["annotate-frame", "--video-id", ID, "--timestamp", "1", "--annotations", marks, "--upload-s3"];
    let drawn = desk.data(&line).await?;
    assert_eq!(followed(&drawn["url"]).await?, on_disk(&drawn["path"])?);
    let picture = desk.folder.join("chart.png");
    image::RgbImage::new(40, 30).save(&picture)?;
    let read = desk.data(&["read-image", "--path", picture.as_str(), "--upload-s3"]).await?;
    assert_eq!(followed(&read["image_url"]).await?, on_disk(&read["image_file_path"])?);

    let objects = bucket.objects()?;
    let below = |prefix: &str| objects.iter().filter(|key| key.starts_with(prefix)).count();
    let counts = ["frames", "clips", "annotated"].map(|kind| below(&format!("{ID}/{kind}/")));
    assert_eq!((counts, below("reads/chart-")), ([2, 2, 1], 1), "{objects:?}");
    Ok(())
}

#[tokio::test]
async fn artifacts_go_to_the_bucket() -> Result<()> {
    let bucket = TestBucket::start().await?;
    let desk = Desk::with_a_bucket(&bucket)?;
    let table = desk.folder.join("my table+1.csv");
    std::fs::write(&table, "a,b\n1,2\n")?;
    let data = desk.data(&["upload-artifact", "--path", table.as_str(), "--key", "artifacts/x/table.csv"]).await?;
    assert_eq!((&data["s3_key"], &data["size_bytes"]), (&"artifacts/x/table.csv".into(), &8.into()));
    assert_eq!(data["s3_uri"], "s3://films/artifacts/x/table.csv");
    let answer = reqwest::get(data["url"].as_str().context("no link")?).await?;
    let header = |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    assert_eq!(header("content-type"), "text/csv; charset=utf-8");
    assert!(header("content-disposition").contains("my table+1.csv"), "{:?}", answer.headers());
    assert_eq!(answer.text().await?, "a,b\n1,2\n");
    let data = desk
        .data(&["upload-artifact", "--path", table.as_str(), "--video-id", ID, "--content-type", "text/plain"])
        .await?;
    let key = data["s3_key"].as_str().unwrap_or_default();
    assert!(key.starts_with(&format!("artifacts/{ID}/my table+1_")) && key.ends_with("csv"), "{key}");
    let (code, _message) = desk
        .failure(&["upload-artifact", "--path", desk.film().as_str(), "--key", "k", "--max-size-mb", "0.001"])
        .await?;
    assert_eq!(code, "ArtifactTooLarge");
    Ok(())
}

#[tokio::test]
async fn a_source_goes_up_once_and_comes_back() -> Result<()> {
    let bucket = TestBucket::start().await?;
    let desk = Desk::with_a_bucket(&bucket)?;
    let bytes = std::fs::read(desk.film())?;
    let line = ["upload-source", "--video-id", ID];
    let data = desk.data(&line).await?;
    assert_eq!((&data["r2_key"], &data["uploaded"]), (&format!("videos/{ID}.mp4").into(), &true.into()));
    assert_eq!(
        (&data["s3_uri"], &data["size_bytes"]),
        (&format!("s3://films/videos/{ID}.mp4").into(), &bytes.len().into())
    );
    assert_eq!(desk.data(&line).await?["uploaded"], false);

    // Without the local copy it is read from the bucket, and fetched when it has to be a file.
    std::fs::remove_file(desk.film())?;
    let data = desk.data(&["extract-frames", "--video-id", ID, "--start", "2", "--end", "2"]).await?;
    assert_eq!(code_of(&data["frames"][0]["frame_file_path"])?, 2000);
    let line = ["ensure-source", "--video-id", ID];
    let (one, other) = tokio::join!(desk.data(&line), desk.data(&line));
    let (one, other) = (one?, other?);
    assert_eq!(on_disk(&one["source_file_path"])?, bytes);
    assert_eq!(one["source_file_path"], other["source_file_path"]);
    assert!(one["downloaded"] != other["downloaded"], "one fetches it, the other waits: {one} {other}");
    let left: Vec<String> = desk
        .around
        .video_folder
        .join(ID)
        .read_dir_utf8()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_owned()))
        .collect();
    assert!(!left.iter().any(|name| name.starts_with(".part-")), "{left:?}");
    let (code, message) = desk.failure(&["ensure-source", "--video-id", "vid_ffffffffffffffff"]).await?;
    assert!(code == "SourceNotFound" && message.contains("nor in bucket `films`"), "{code} {message}");
    Ok(())
}

#[tokio::test]
async fn without_the_right_to_list_a_source_is_found_by_its_name() -> Result<()> {
    let bucket = TestBucket::start().await?;
    let desk = Desk::with_a_bucket(&bucket)?;
    desk.data(&["upload-source", "--video-id", ID]).await?;
    std::fs::remove_file(desk.film())?;
    bucket.behave(|conduct| {
        conduct.denied.insert(ambient_test_bucket::Permission::List);
    });
    assert_eq!(desk.data(&["ensure-source", "--video-id", ID]).await?["downloaded"], true);
    bucket.behave(|conduct| {
        conduct.denied.insert(ambient_test_bucket::Permission::Put);
    });
    let (code, message) =
        desk.failure(&["fetch-clip", "--video-id", ID, "--start", "0", "--end", "1", "--upload-s3"]).await?;
    assert!(code == "S3Forbidden" && message.contains("403"), "{code} {message}");
    Ok(())
}

#[tokio::test]
async fn odd_names_are_names_and_nothing_else() -> Result<()> {
    let desk = Desk::with_a_film()?;
    for name in ["-i.mp4", "a:b.mp4", "50%d.mp4", "ü 视频.mp4", "concat:x|y.mp4", "it's \"quoted\".mp4", "no suffix"]
    {
        let path = desk.folder.join(name);
        std::fs::copy(desk.film(), &path)?;
        let data = desk.data(&["extract-frames", "--source-path", path.as_str(), "--start", "1", "--end", "1"]).await?;
        assert_eq!(code_of(&data["frames"][0]["frame_file_path"])?, 1000, "{name}");
        let id = data["frames"][0]["id"].as_str().unwrap_or_default();
        assert!(id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)), "{id}");
    }
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_done_is_told_by_a_code() -> Result<()> {
    let desk = Desk::with_a_film()?;
    for (line, wanted) in [
        (&["probe", "--video-id", "vid_ffffffffffffffff"][..], "SourceNotFound"),
        (&["ensure-source", "--video-id", "vid_ffffffffffffffff"], "SourceNotFound"),
        (&["probe", "--source-path", "/nowhere/film.mp4"], "SourceNotFound"),
        (&["probe", "--source-path", "-a film.mp4"], "SourceNotFound"),
        (&["read-image", "--path", "-v"], "ImageNotFound"),
        (&["probe", "--video-id", "../videos/x"], "BadRequest"),
        (&["ensure-source", "--video-id", "a/../b"], "BadRequest"),
        (&["extract-frames", "--video-id", ID, "--fps", "0"], "BadRequest"),
        (&["extract-frames", "--video-id", ID, "--start", "-1"], "BadRequest"),
        (&["extract-frames", "--video-id", ID, "--start", "nan"], "BadRequest"),
        (&["extract-frames", "--video-id", ID, "--start", "3", "--end", "2"], "BadRequest"),
        (&["extract-frames", "--video-id", ID, "--max-frames", "0"], "BadRequest"),
        (&["fetch-clip", "--video-id", ID, "--start", "2", "--end", "2"], "BadRequest"),
        (&["fetch-clip", "--video-id", ID, "--start", "20", "--end", "30"], "PastEnd"),
        (&["fetch-clip", "--video-id", ID, "--start", "0", "--end", "3", "--max-size-mb", "0"], "BadRequest"),
        (&["extract-frames", "--video-id", ID, "--upload-s3"], "S3NotConfigured"),
        (&["fetch-clip", "--video-id", ID, "--start", "0", "--end", "1", "--upload-s3"], "S3NotConfigured"),
        (&["upload-source", "--video-id", ID], "S3NotConfigured"),
        (&["upload-artifact", "--path", "Cargo.toml", "--key", "a/b"], "S3NotConfigured"),
        (&["upload-artifact", "--path", "Cargo.toml", "--key", "../b"], "BadRequest"),
        (&["upload-artifact", "--path", "Cargo.toml", "--key", "b", "--max-size-mb", "0.0001"], "ArtifactTooLarge"),
        (&["upload-artifact", "--path", "/nowhere/x.csv", "--video-id", ID], "ArtifactNotFound"),
        (&["probe-youtube", "--video-id", ID, "--url", "https://example.com/watch?v=dQw4w9WgXcQ"], "NotYoutube"),
        (&["prepare-youtube", "--video-id", ID, "--url", "https://youtu.be/dQw4w9WgXcQ"], "ProgramMissing"),
        (&["prepare-youtube", "--video-id", "../x", "--url", "https://youtu.be/dQw4w9WgXcQ"], "BadRequest"),
    ] {
        let (code, message) = desk.failure(line).await?;
        assert_eq!(code, wanted, "{line:?}: {message}");
        assert!(!message.is_empty() && !message.ends_with('.'), "{line:?}: {message}");
    }
    assert!(!desk.around.temporary_folder.exists(), "a failure leaves nothing");
    Ok(())
}

#[test]
fn words_that_are_no_command_become_an_envelope() -> Result<()> {
    for (line, part) in [
        (&["media"][..], "a sub-command is missing"),
        (&["media", "fetch-clip", "--start", "1"], "--end"),
        (&["media", "probe"], "--video-id"),
        (&["media", "fetch-clip", "--video-id", ID, "--start", "soon", "--end", "2"], "soon"),
        (&["media", "fetch-clip", "--video-id", ID, "--start", "1", "--end", "2", "--crf", "70"], "70"),
        (&["media", "play"], "play"),
    ] {
        let Err(error) = Words::try_parse_from(line) else { anyhow::bail!("{line:?} was taken") };
        let text = Envelope::bad_words(&error).to_string();
        let answer: Value = serde_json::from_str(text.split(FENCE).nth(1).context("no fences")?)?;
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert_eq!(answer["error"]["code"], "BadArguments", "{text}");
        assert!(message.contains(part) && !message.contains("Usage"), "{line:?}: {message}");
    }
    Ok(())
}

#[tokio::test]
async fn tiles_are_made_beside_the_video_and_joined() -> Result<()> {
    let desk = Desk::with_a_film()?;
    let (code, _message) = desk.failure(&["concat-tiles", "--video-id", ID, "--keys", "a"]).await?;
    assert_eq!(code, "NoTiles");
    let manifest = desk.data(&["transcode-tiles", "--video-id", ID]).await?;
    assert_eq!((&manifest["video_id"], &manifest["fps"], &manifest["max_dim"]), (&ID.into(), &2.0.into(), &160.into()));
    assert_eq!((&manifest["tile_seconds"], &manifest["duration"]), (&2.into(), &4.0.into()));
    let tiles = manifest["tiles"].as_array().context("tiles")?;
    let keys: Vec<&str> = tiles.iter().filter_map(|tile| tile["key"].as_str()).collect();
    let folder = desk.around.video_folder.join(ID).join("tiles");
    assert_eq!(keys, [folder.join("tile_00000.mp4").as_str(), folder.join("tile_00001.mp4").as_str()]);

    let both = keys.join(",");
    let joined = desk.data(&["concat-tiles", "--video-id", ID, "--keys", &both]).await?;
    let clip = &joined["clip"];
    assert_eq!((&clip["start_time"], &clip["end_time"]), (&0.0.into(), &4.0.into()));
    assert_eq!(clip["id"], format!("{ID}_tiles_tile_00000_2"));
    assert_eq!((&clip["width"], &clip["height"], &clip["has_audio"]), (&160.into(), &120.into(), &true.into()));
    let second =
        desk.data(&["concat-tiles", "--video-id", ID, "--keys", keys[1], "--start", "1", "--end", "3.2"]).await?;
    assert_eq!((&second["clip"]["start_time"], &second["clip"]["end_time"]), (&2.0.into(), &3.2.into()));

    assert_eq!(desk.failure(&["concat-tiles", "--video-id", ID]).await?.0, "NoKeys");
    assert_eq!(desk.failure(&["concat-tiles", "--video-id", ID, "--keys", "x.mp4"]).await?.0, "NoTiles");
    let insisting = ["transcode-tiles", "--video-id", ID, "--upload-s3"];
    assert_eq!(desk.failure(&insisting).await?.0, "S3NotConfigured");
    let other = desk
        .data(&["transcode-tiles", "--video-id", ID, "--tile-seconds", "1", "--fps", "4", "--max-dim", "80"])
        .await?;
    assert_eq!(other["tiles"].as_array().map(Vec::len), Some(4));
    assert_eq!((&other["fps"], &other["width"]), (&4.0.into(), &80.into()));
    Ok(())
}

#[tokio::test]
async fn with_a_bucket_tiles_go_there() -> Result<()> {
    let bucket = TestBucket::start().await?;
    let desk = Desk::with_a_bucket(&bucket)?;
    let manifest = desk.data(&["transcode-tiles", "--video-id", ID, "--workers", "2"]).await?;
    let keys = [format!("{ID}/tiles/tile_00000.mp4"), format!("{ID}/tiles/tile_00001.mp4")];
    assert_eq!(manifest["tiles"][0]["key"], keys[0]);
    let below: Vec<String> = keys.iter().cloned().chain([format!("{ID}/tiles/manifest.json")]).collect();
    let mut objects = bucket.objects()?;
    objects.rotate_left(1);
    assert_eq!(objects, below);
    let line = ["concat-tiles", "--video-id", ID, "--keys", &keys.join(","), "--upload-s3"];
    let joined = desk.data(&line).await?;
    let url = joined["clip"]["clip_url"].as_str().context("a link")?;
    assert!(url.contains(&format!("{ID}/clips/")), "{url}");
    assert_eq!(joined["clip"]["end_time"], 4.0);
    Ok(())
}
