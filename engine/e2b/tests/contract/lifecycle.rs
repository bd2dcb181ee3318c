//! From create to kill.

use std::collections::BTreeSet;
use std::time::Duration;

use ambient_e2b::protocol::SandboxState;
use ambient_e2b::{Client, Command, Config, ErrorKind, ListFilter, NewSandbox};
use anyhow::{Context as _, ensure};

use super::{Server, unique, until};

const SOON: Duration = Duration::from_mins(1);

fn kind<T>(outcome: Result<T, ambient_e2b::Error>) -> Option<ErrorKind> {
    outcome.err().map(|error| error.kind())
}

pub(super) async fn a_sandbox_lives_from_create_to_kill(server: &Server) -> anyhow::Result<()> {
    let new = NewSandbox::new("base").timeout(SOON).metadata("who", "story").env("FROM_CREATE", "yes");
    let sandbox = server.client.create(&new).await?;
    ensure!(sandbox.is_running().await?, "it does not answer");
    let info = sandbox.info().await?;
    ensure!(info.state == SandboxState::Running && info.metadata["who"] == "story", "{info:?}");
    let life = info.end_at.as_second() - info.started_at.as_second();
    ensure!((59..=61).contains(&life), "it lives for {life} s");
    let listed = server.client.list(&ListFilter::default()).await?;
    ensure!(listed.iter().any(|one| one.sandbox_id == sandbox.id()), "it is not listed");
    let output = sandbox.commands().run(&Command::shell("echo $FROM_CREATE $E2B_SANDBOX $E2B_SANDBOX_ID")).await?;
    ensure!(output.stdout.text() == format!("yes true {}\n", sandbox.id()), "{output:?}");
    sandbox.metrics(None, None).await.context("metrics")?;
    sandbox.logs(&ambient_e2b::LogQuery::default()).await.context("logs")?;
    ensure!(sandbox.kill().await?, "there was nothing to kill");
    ensure!(!sandbox.kill().await?, "it was killed twice");
    ensure!(!sandbox.is_running().await?, "it answers after its end");
    ensure!(kind(sandbox.info().await) == Some(ErrorKind::SandboxLost), "it is known after its end");
    Ok(())
}

pub(super) async fn metadata_finds_a_sandbox(server: &Server) -> anyhow::Result<()> {
    let odd = unique("a b&c=d%20+ü/\"");
    let new = NewSandbox::new("base").timeout(SOON).metadata("odd key&=", &odd).metadata("plain", "x");
    let sandbox = server.client.create(&new).await?;
    let with = |pairs: &[(&str, &str)]| ListFilter {
        metadata: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..ListFilter::default()
    };
    let found = server.client.list(&with(&[("odd key&=", &odd), ("plain", "x")])).await?;
    ensure!(found.len() == 1 && found[0].sandbox_id == sandbox.id(), "{found:?}");
    let none = server.client.list(&with(&[("odd key&=", &odd), ("plain", "y")])).await?;
    ensure!(none.is_empty(), "all pairs must match: {none:?}");
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn every_page_is_read(server: &Server) -> anyhow::Result<()> {
    let mark = unique("pages");
    let mut made = BTreeSet::new();
    for _ in 0..3 {
        let new = NewSandbox::new("base").timeout(SOON).metadata("mark", &mark);
        made.insert(server.client.create(&new).await?.id().to_owned());
    }
    let filter = ListFilter {
        metadata: [("mark".to_owned(), mark)].into(),
        page_size: Some(1),
        states: vec![SandboxState::Running],
        ..ListFilter::default()
    };
    let mut pages = server.client.pages(&filter);
    let mut sizes = Vec::new();
    while let Some(page) = pages.next_page().await? {
        sizes.push(page.len());
    }
    ensure!(sizes.iter().filter(|&&size| size == 1).count() == 3 && sizes.iter().all(|&size| size <= 1), "{sizes:?}");
    let listed: BTreeSet<_> = server.client.list(&filter).await?.into_iter().map(|one| one.sandbox_id).collect();
    ensure!(listed == made, "{listed:?} instead of {made:?}");
    for id in &made {
        server.client.kill(id).await?;
    }
    Ok(())
}

pub(super) async fn the_end_can_be_moved(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    for seconds in [600, 30] {
        sandbox.set_timeout(Duration::from_secs(seconds)).await?;
        let info = sandbox.info().await?;
        let left = info.end_at.as_second() - info.started_at.as_second();
        let seconds = i64::try_from(seconds)?;
        ensure!((seconds - 1..seconds + 30).contains(&left), "{left} s after the start instead of {seconds}");
    }
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn connect_only_lengthens_a_life(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let before = sandbox.info().await?.end_at;
    let joined = server.client.connect(sandbox.id(), Duration::from_secs(1)).await?;
    ensure!(joined.id() == sandbox.id());
    ensure!(joined.info().await?.end_at >= before, "connect cut its life");
    server.client.connect(sandbox.id(), Duration::from_mins(15)).await?;
    ensure!(joined.info().await?.end_at > before, "connect did not lengthen its life");
    ensure!(joined.commands().run(&Command::shell("true")).await?.is_success());
    sandbox.kill().await?;
    Ok(())
}

pub(super) async fn a_sandbox_ends_at_its_time(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.client.create(&NewSandbox::new("base").timeout(Duration::from_secs(2))).await?;
    let sleep = Command::shell("sleep 60");
    let outcome = sandbox.commands().run(&sleep).await;
    ensure!(kind(outcome) == Some(ErrorKind::SandboxLost), "a command outlived its sandbox");
    ensure!(kind(sandbox.info().await) == Some(ErrorKind::SandboxLost));
    let outcome = sandbox.set_timeout(SOON).await;
    ensure!(kind(outcome) == Some(ErrorKind::SandboxLost));
    ensure!(kind(server.client.connect(sandbox.id(), SOON).await) == Some(ErrorKind::SandboxLost));
    Ok(())
}

pub(super) async fn a_paused_sandbox_comes_back(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    sandbox.files().write("kept.txt", "kept").await?;
    ensure!(sandbox.pause(true).await?, "it was paused before");
    ensure!(!sandbox.pause(true).await?, "it was paused twice");
    ensure!(sandbox.info().await?.state == SandboxState::Paused);
    let outcome = sandbox.commands().run(&Command::shell("true")).await;
    ensure!(kind(outcome) == Some(ErrorKind::SandboxLost), "a paused sandbox took a command");
    let paused = ListFilter { states: vec![SandboxState::Paused], ..ListFilter::default() };
    let listed = server.client.list(&paused).await?;
    ensure!(listed.iter().any(|one| one.sandbox_id == sandbox.id()), "a paused sandbox is not listed");
    let woken = server.client.connect(sandbox.id(), SOON).await?;
    ensure!(woken.files().read_text("kept.txt").await? == "kept");
    ensure!(woken.info().await?.state == SandboxState::Running);
    woken.kill().await?;
    Ok(())
}

pub(super) async fn a_stranger_sees_nothing(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let stranger = &server.stranger;
    ensure!(kind(stranger.info(sandbox.id()).await) == Some(ErrorKind::SandboxLost));
    ensure!(kind(stranger.connect(sandbox.id(), SOON).await) == Some(ErrorKind::SandboxLost));
    ensure!(!stranger.kill(sandbox.id()).await?, "a stranger killed it");
    let listed = stranger.list(&ListFilter::default()).await?;
    ensure!(listed.iter().all(|one| one.sandbox_id != sandbox.id()), "a stranger sees it listed");
    ensure!(sandbox.kill().await?);
    Ok(())
}

pub(super) async fn what_is_not_there_is_said(server: &Server) -> anyhow::Result<()> {
    let unknown = unique("no-such-template");
    let outcome = server.client.create(&NewSandbox::new(&unknown)).await;
    ensure!(kind(outcome) == Some(ErrorKind::TemplateUnknown));
    let id = "i0000000000000000000z";
    ensure!(!server.client.kill(id).await?);
    ensure!(kind(server.client.info(id).await) == Some(ErrorKind::SandboxLost));
    ensure!(kind(server.client.info("../x").await) == Some(ErrorKind::InvalidArgument));
    let none = server.client.create(&NewSandbox::new("base").timeout(Duration::ZERO)).await;
    ensure!(kind(none) == Some(ErrorKind::InvalidArgument), "a life of no time was given");
    Ok(())
}

pub(super) async fn a_wrong_key_is_refused(server: &Server) -> anyhow::Result<()> {
    let right = server.client.config();
    let with = |key: Option<&str>| {
        let config = Config { api_key: key.map(|key| key.to_owned().into()), ..right.clone() };
        Client::new(config)
    };
    let wrong = with(Some("e2b_ffffffffffffffffffffffffffffffffffffffff"))?;
    ensure!(kind(wrong.list(&ListFilter::default()).await) == Some(ErrorKind::KeyRefused));
    ensure!(kind(wrong.create(&NewSandbox::new("base")).await) == Some(ErrorKind::KeyRefused));
    let none = with(None)?;
    ensure!(kind(none.list(&ListFilter::default()).await) == Some(ErrorKind::KeyMissing));
    Ok(())
}

pub(super) async fn a_killed_sandbox_is_lost_to_those_who_hold_it(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    sandbox.kill().await?;
    ensure!(kind(sandbox.commands().run(&Command::shell("true")).await) == Some(ErrorKind::SandboxLost));
    ensure!(kind(sandbox.commands().list().await) == Some(ErrorKind::SandboxLost));
    ensure!(kind(sandbox.files().read("/etc/hostname").await) == Some(ErrorKind::SandboxLost));
    ensure!(kind(sandbox.files().write("/tmp/x", "x").await) == Some(ErrorKind::SandboxLost));
    ensure!(kind(sandbox.files().stat("/tmp").await) == Some(ErrorKind::SandboxLost));
    Ok(())
}

pub(super) async fn a_kill_ends_the_commands_in_it(server: &Server) -> anyhow::Result<()> {
    let sandbox = server.sandbox().await?;
    let command = Command::shell("touch /tmp/begun; sleep 60");
    let watch = async {
        until("the command has begun", || async { Ok(sandbox.files().exists("/tmp/begun").await?) }).await?;
        anyhow::Ok(sandbox.kill().await?)
    };
    let commands = sandbox.commands();
    let (outcome, killed) = tokio::join!(commands.run(&command), watch);
    ensure!(killed?, "there was nothing to kill");
    let found = kind(outcome);
    ensure!(found == Some(ErrorKind::SandboxLost), "{found:?} instead of a lost sandbox");
    Ok(())
}
