//! Templates: built, named, tagged.

use std::fs;
use std::time::Duration;

use ambient_e2b::protocol::template::BuildStatus;
use ambient_e2b::{BuildOptions, Command, ErrorKind, NewSandbox, Template};
use anyhow::{Context as _, ensure};

use super::{Server, unique};

fn options(name: &str) -> BuildOptions {
    BuildOptions { cpu_count: Some(1), memory_mb: Some(512), ..BuildOptions::new(name) }
}

pub(super) async fn a_dockerfile_becomes_a_template(server: &Server) -> anyhow::Result<()> {
    let context = tempfile::tempdir()?;
    fs::create_dir_all(context.path().join("src/sub"))?;
    fs::write(context.path().join("src/sub/a.txt"), "from the context")?;
    fs::write(context.path().join("src/skip.log"), "left out")?;
    fs::write(context.path().join(".dockerignore"), "**/*.log\n")?;
    let dockerfile = "FROM e2bdev/base\nENV GREETING=hello\nRUN echo \"$GREETING\" > /made\nCOPY --chown=user src /data\nCOPY <<EOF /here\nis text\nEOF\nWORKDIR /data\nUSER user\n";
    let template = Template::from_dockerfile(dockerfile)?.context(context.path());
    let name = unique("contract");
    let mut log = Vec::new();
    let built =
        server.client.templates().build(&template, &options(&name), |entry| log.push(entry.message.clone())).await?;
    ensure!(log.iter().any(|line| line.contains("RUN")), "a log without its steps: {log:?}");
    ensure!(server.client.templates().exists(&name).await?);
    let listed = server.client.templates().list().await?;
    let one = listed.iter().find(|one| one.template_id == built.template_id).context("it is not listed")?;
    ensure!(one.build_status == BuildStatus::Ready, "{one:?}");
    let sandbox = server.client.create(&NewSandbox::new(&name).timeout(Duration::from_mins(1))).await?;
    let line = "pwd; id -un; cat /made /here sub/a.txt; stat -c ' %U' sub/a.txt; ls -A";
    let output = sandbox.commands().run(&Command::shell(line)).await?;
    let expected = "/data\nuser\nhello\nis text\nfrom the context user\nsub\n";
    ensure!(output.stdout.text() == expected, "{}", output.stdout.text());
    sandbox.kill().await?;
    ensure!(server.client.templates().delete(&name).await?, "there was nothing to delete");
    ensure!(!server.client.templates().delete(&name).await?, "it was deleted twice");
    ensure!(!server.client.templates().exists(&name).await?);
    Ok(())
}

pub(super) async fn files_are_uploaded_once(server: &Server) -> anyhow::Result<()> {
    let context = tempfile::tempdir()?;
    fs::write(context.path().join("f"), unique("content"))?;
    let template = Template::from_base_image().copy("f", "/f", None, Some(0o640))?.context(context.path());
    let name = unique("once");
    let templates = server.client.templates();
    let first = templates.build(&template, &options(&name), |_| {}).await?;
    let second = templates.build(&template, &options(&name), |_| {}).await?;
    ensure!((first.uploads, second.uploads) == (1, 0), "{} and {} uploads", first.uploads, second.uploads);
    ensure!(first.template_id == second.template_id && first.build_id != second.build_id);
    let missing = Template::from_base_image().copy("g", "/g", None, None)?.context(context.path());
    let error = templates.build(&missing, &options(&name), |_| {}).await.err().context("a file from nowhere")?;
    ensure!(error.kind() == ErrorKind::BuildFailed, "{error:?}");
    templates.delete(&name).await?;
    Ok(())
}

pub(super) async fn a_failing_step_is_named(server: &Server) -> anyhow::Result<()> {
    let template = Template::from_base_image().run("true").run("echo to the log; exit 9").run("true");
    let name = unique("fails");
    let mut log = Vec::new();
    let outcome =
        server.client.templates().build(&template, &options(&name), |entry| log.push(entry.message.clone())).await;
    match outcome {
        Err(ambient_e2b::Error::BuildFailed { message, step }) => {
            ensure!(step == "2" && message.contains("exit status 9"), "{step}: {message}");
        }
        other => anyhow::bail!("{other:?}"),
    }
    ensure!(log.iter().any(|line| line.contains("to the log")), "{log:?}");
    let outcome = server.client.create(&NewSandbox::new(&name)).await;
    ensure!(outcome.err().map(|error| error.kind()) == Some(ErrorKind::TemplateUnknown), "a failed build was used");
    server.client.templates().delete(&name).await?;
    Ok(())
}

pub(super) async fn tags_come_and_go(server: &Server) -> anyhow::Result<()> {
    let templates = server.client.templates();
    let name = unique("tags");
    let options = BuildOptions { tags: vec!["v1".to_owned()], ..options(&name) };
    templates.build(&Template::from_base_image().run("true"), &options, |_| {}).await?;
    let assigned = templates.assign_tags(&format!("{name}:v1"), &["stable", "best"]).await?;
    ensure!(assigned.tags.iter().any(|tag| tag.contains("stable")), "{assigned:?}");
    let tags = |tags: Vec<ambient_e2b::protocol::template::TemplateTag>| -> Vec<String> {
        tags.into_iter().map(|tag| tag.tag).collect()
    };
    ensure!(tags(templates.tags(&name).await?).contains(&"stable".to_owned()));
    templates.remove_tags(&name, &["stable"]).await?;
    let left = tags(templates.tags(&name).await?);
    ensure!(left.contains(&"best".to_owned()) && !left.contains(&"stable".to_owned()), "{left:?}");
    let gone = server.client.create(&NewSandbox::new(format!("{name}:stable"))).await;
    ensure!(gone.err().map(|error| error.kind()) == Some(ErrorKind::TemplateUnknown));
    let best = server.client.create(&NewSandbox::new(format!("{name}:best")).timeout(Duration::from_mins(1))).await?;
    best.kill().await?;
    templates.delete(&name).await?;
    Ok(())
}

pub(super) async fn names_are_told_apart(server: &Server) -> anyhow::Result<()> {
    let name = unique("mine");
    let built = server.client.templates().build(&Template::from_base_image(), &options(&name), |_| {}).await?;
    let stranger = server.stranger.templates();
    ensure!(!server.client.templates().exists(&unique("free")).await?);
    let outcome = server.stranger.create(&NewSandbox::new(&name)).await;
    ensure!(
        outcome.err().map(|error| error.kind()) == Some(ErrorKind::TemplateUnknown),
        "a bare name reaches a stranger"
    );
    // By its id a server may say that it is there and somebody else's, or that it is not there.
    let kinds = [Some(ErrorKind::TemplateOfAnotherTeam), Some(ErrorKind::TemplateUnknown)];
    let found = stranger.find(&built.template_id).await;
    ensure!(matches!(found, Ok(None) | Err(ambient_e2b::Error::TemplateOfAnotherTeam { .. })), "{found:?}");
    let outcome = server.stranger.create(&NewSandbox::new(&built.template_id)).await;
    ensure!(kinds.contains(&outcome.err().map(|error| error.kind())), "a stranger used it by its id");
    server.client.templates().delete(&name).await?;
    Ok(())
}
