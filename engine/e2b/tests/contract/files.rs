//! Files in a sandbox.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use ambient_e2b::protocol::filesystem::{FileEventType, FileType};
use ambient_e2b::{Command, ErrorKind, WatchOptions};
use anyhow::{Context as _, ensure};
use bytes::Bytes;
use futures::stream;

use super::Server;

pub(super) async fn what_is_written_is_read(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let files = sandbox.files();
    let written = files.write("deep/er/a.txt", "eins").await?;
    ensure!(written.path == "/home/user/deep/er/a.txt" && written.name == "a.txt", "{written:?}");
    ensure!(files.read_text("~/deep/er/a.txt").await? == "eins");
    files.write("deep/er/a.txt", "2").await?;
    ensure!(files.read("/home/user/deep/er/a.txt").await? == b"2", "a shorter file keeps a tail");
    files.write("empty", "").await?;
    ensure!(files.read("empty").await?.is_empty());
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    files.write("bytes", bytes.clone()).await?;
    ensure!(files.read("bytes").await? == bytes);
    let root = files.as_user("root");
    ensure!(root.write("x", "x").await?.path == "/root/x");
    ensure!(root.stat("x").await?.owner == "root" && files.stat("empty").await?.owner == "user");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn names_may_be_anything(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    for name in ["a b", "ü", "q?x=1&y#z", "100%", "a+b", "it's \"quoted\""] {
        let path = format!("/tmp/names/{name}");
        let written = sandbox.files().write(&path, name.to_owned()).await?;
        ensure!(written.path == path, "{written:?}");
        ensure!(sandbox.files().read_text(&path).await? == name, "{name}");
        ensure!(sandbox.files().stat(&path).await?.name == name);
    }
    ensure!(sandbox.files().list("/tmp/names", 1).await?.len() == 6);
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn large_files_go_both_ways_in_pieces(server: &Server) -> anyhow::Result<()> {
    const PIECES: usize = 200;
    let sandbox = server.sandbox().await?;
    let piece = Bytes::from(vec![7; 100_000]);
    let pieces = stream::iter((0..PIECES).map({
        let piece = piece.clone();
        move |_| io::Result::Ok(piece.clone())
    }));
    sandbox.files().upload("/tmp/large", pieces).await?;
    let size = PIECES * piece.len();
    ensure!(sandbox.files().stat("/tmp/large").await?.size == i64::try_from(size)?);
    let mut target = Vec::new();
    let copied = sandbox.files().download_to("/tmp/large", &mut target).await?;
    ensure!(copied == size as u64 && target.len() == size && target.iter().all(|&byte| byte == 7));
    // A stream that fails must not leave a file that looks whole to the caller.
    let broken = stream::iter([Ok(piece), Err(io::Error::other("the disk went away"))]);
    ensure!(sandbox.files().upload("/tmp/broken", broken).await.is_err(), "a broken upload succeeded");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_folder_is_made_listed_moved_and_removed(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let files = sandbox.files();
    ensure!(files.make_dir("work/one").await?, "it was there before");
    ensure!(!files.make_dir("work/one").await?, "it was made twice");
    files.write("work/one/f", "123").await?;
    let made = sandbox.commands().run(&Command::shell("ln -s f work/one/link && mkdir work/two")).await?;
    ensure!(made.is_success());
    let names = |entries: Vec<ambient_e2b::protocol::filesystem::EntryInfo>| -> Vec<String> {
        entries.into_iter().map(|entry| entry.path).collect()
    };
    let home = "/home/user/work";
    ensure!(names(files.list("work", 1).await?) == [format!("{home}/one"), format!("{home}/two")]);
    let deep = names(files.list("work", 2).await?);
    ensure!(deep == ["one", "one/f", "one/link", "two"].map(|name| format!("{home}/{name}")), "{deep:?}");
    let file = files.stat("work/one/f").await?;
    ensure!((file.kind, file.size, file.mode & 0o600) == (FileType::File, 3, 0o600), "{file:?}");
    ensure!(file.modified_time.is_some() && file.permissions.starts_with("-rw"), "{file:?}");
    let link = files.stat("work/one/link").await?;
    ensure!(link.symlink_target.as_deref() == Some("/home/user/work/one/f"), "{link:?}");
    let moved = files.rename("work/one", "work/new/place").await?;
    ensure!(moved.path == format!("{home}/new/place") && moved.kind == FileType::Directory, "{moved:?}");
    ensure!(!files.exists("work/one").await? && files.exists("work/new/place/f").await?);
    files.remove("work").await?;
    files.remove("work").await.context("removing what is not there")?;
    ensure!(!files.exists("work").await?);
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn what_is_not_there_is_told_apart(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let files = sandbox.files();
    let kind = |error: Option<ambient_e2b::Error>| error.map(|error| error.kind());
    ensure!(kind(files.read("/no/such").await.err()) == Some(ErrorKind::NotFound));
    ensure!(kind(files.stat("/no/such").await.err()) == Some(ErrorKind::NotFound));
    ensure!(kind(files.list("/no/such", 1).await.err()) == Some(ErrorKind::NotFound));
    ensure!(kind(files.rename("/no/such", "/tmp/x").await.err()) == Some(ErrorKind::NotFound));
    ensure!(kind(files.watch("/no/such", &WatchOptions::default()).await.err()) == Some(ErrorKind::NotFound));
    ensure!(kind(files.read("/tmp").await.err()) == Some(ErrorKind::InvalidArgument), "a folder was read");
    ensure!(kind(files.write("/tmp", "x").await.err()) == Some(ErrorKind::InvalidArgument), "a folder was written");
    ensure!(kind(files.list("/etc/hostname", 1).await.err()) == Some(ErrorKind::InvalidArgument));
    ensure!(kind(files.list("/etc", 0).await.err()) == Some(ErrorKind::InvalidArgument));
    ensure!(!files.exists("/no/such").await?);
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_signed_address_needs_no_token(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    sandbox.files().write("/tmp/a b+ü", "signed").await?;
    let address = sandbox.download_url("/tmp/a b+ü", None, None);
    let bare = reqwest::Client::builder().no_proxy().build()?;
    let answer = bare.get(address.expose()).send().await?;
    ensure!(answer.status() == 200, "status {}", answer.status());
    ensure!(answer.text().await? == "signed");
    let other = address.expose().replace("/files?path=%2Ftmp", "/files?path=%2Fetc");
    ensure!(!bare.get(other).send().await?.status().is_success(), "a signature was good for another file");
    let past = jiff::Timestamp::from_second(1_000_000_000)?;
    let late = sandbox.download_url("/tmp/a b+ü", None, Some(past));
    ensure!(bare.get(late.expose()).send().await?.status() == 401, "a signature was good after its time");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_watch_tells_what_happens(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let files = sandbox.files();
    files.make_dir("/tmp/watched").await?;
    let options = WatchOptions { recursive: true, timeout: Duration::from_secs(30), ..WatchOptions::default() };
    let mut watch = files.watch("/tmp/watched", &options).await?;
    let acts =
        "mkdir /tmp/watched/sub && echo > /tmp/watched/f && mv /tmp/watched/f /tmp/watched/g && rm /tmp/watched/g";
    ensure!(sandbox.commands().run(&Command::shell(acts)).await?.is_success());
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await? {
        let last = (event.kind, event.name.as_str()) == (FileEventType::Remove, "g");
        seen.push((event.kind, event.name));
        if last {
            break;
        }
    }
    for expected in [
        (FileEventType::Create, "sub"),
        (FileEventType::Create, "f"),
        (FileEventType::Rename, "f"),
        (FileEventType::Create, "g"),
        (FileEventType::Remove, "g"),
    ] {
        ensure!(seen.iter().any(|(kind, name)| (*kind, name.as_str()) == expected), "no {expected:?} in {seen:?}");
    }
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn words_stay_with_a_file(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let metadata = BTreeMap::from([("Origin".to_owned(), "a camera".to_owned()), ("take".to_owned(), "7".to_owned())]);
    let expected = BTreeMap::from([("origin".to_owned(), "a camera".to_owned()), ("take".to_owned(), "7".to_owned())]);
    let files = sandbox.files();
    let written = files.with_metadata(&metadata).write("/tmp/film", "x").await?;
    ensure!(written.metadata == expected, "{written:?}");
    ensure!(files.stat("/tmp/film").await?.metadata == expected, "it is told with the file");
    files.write("/tmp/film", "y").await?;
    ensure!(files.stat("/tmp/film").await?.metadata.is_empty(), "each upload replaces all of it");
    let unfit = BTreeMap::from([("no header".to_owned(), "x".to_owned())]);
    let error = files.with_metadata(&unfit).write("/tmp/film", "z").await.err().context("it was taken")?;
    ensure!(error.kind() == ErrorKind::InvalidArgument, "{error:?}");
    sandbox.kill().await?;
    Ok(())
}
