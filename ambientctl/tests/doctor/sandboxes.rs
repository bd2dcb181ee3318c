//! The key of E2B and the template: where the key stops, whose it is, and what its team has.

use std::io;

use ambient_ctl::doctor::Level;
use ambient_e2b::protocol::template::BuildStatus;

use super::e2b::{Cloud, KEY, OTHER_KEY};
use super::lab::{Lab, closed_port, remedy};

const NAME: &str = "video-analysis-v1";
const DEV: &str = "video-analysis-v1-dev";

fn on_e2b(cloud: &Cloud, key: &str) -> io::Result<Lab> {
    Lab::repository(&["SANDBOX_BACKEND=e2b", &format!("E2B_API_URL={}", cloud.url), &format!("E2B_API_KEY={key}")])
}

#[tokio::test]
async fn a_key_is_accepted_and_its_team_is_shown() -> io::Result<()> {
    let cloud = Cloud::start().await?;
    cloud.has_built(NAME);
    let lab = on_e2b(&cloud, KEY)?;
    let finding = lab.finding("e2b-key.accepted").await;
    assert_eq!(finding.seen, "E2B takes the key; its team is `mine`, with 1 templates");
    let finding = lab.finding("e2b-template.ready").await;
    assert!(finding.seen.ends_with(", last built 2026-11-29 10:00 UTC"), "{finding:?}");
    // What E2B cannot tell is said to be that.
    let finding = on_e2b(&cloud, OTHER_KEY)?.finding("e2b-key.accepted").await;
    assert_eq!(
        finding.seen,
        "E2B takes the key; it names a team only in front of its templates, and this one has none yet"
    );
    Ok(())
}

#[tokio::test]
async fn a_wrong_key_is_told_with_what_is_odd_about_it() -> io::Result<()> {
    let cloud = Cloud::start().await?;
    for (key, words) in [
        ("sk_0123456789", "it does not begin with `e2b_`"),
        ("e2b_0123", "it has 4 characters behind `e2b_`, where keys have 40"),
        ("e2b_ffffffffffffffffffffffffffffffffffffffff", "does not take `E2B_API_KEY`"),
    ] {
        let lab = on_e2b(&cloud, key)?;
        let finding = lab.finding("e2b-key.refused").await;
        assert!(finding.seen.contains(words), "{finding:?}");
        assert!(!format!("{finding:?}").contains(key), "the key is shown: {finding:?}");
        assert_eq!(lab.finding("e2b-template.unknown").await.level, Level::Skipped);
        lab.carry_out_with(remedy(&finding), "E2B_API_KEY", KEY).await;
        lab.is_well("e2b-key").await;
    }
    let lab = on_e2b(&cloud, "e2b_...")?;
    assert!(lab.finding("e2b-key.placeholder").await.seen.contains("ends in `...`"));
    Ok(())
}

#[tokio::test]
async fn where_a_key_stops_is_named() -> io::Result<()> {
    let cloud = Cloud::start().await?;
    let lab = Lab::repository(&["SANDBOX_BACKEND=e2b", &format!("E2B_API_URL={}", cloud.url)])?;
    let finding = lab.finding("e2b-key.missing").await;
    assert!(finding.seen.contains("`E2B_API_KEY` is not set: looked in the environment and in"), "{finding:?}");
    lab.carry_out_with(remedy(&finding), "E2B_API_KEY", KEY).await;
    lab.is_well("e2b-key").await;

    // In `.env`, and no compose file passes it on.
    let over = format!(
        "services:\n  engine:\n    environment:\n      SANDBOX_BACKEND: e2b\n      E2B_API_URL: {}\n",
        cloud.url
    );
    let lab = Lab::install(&[&format!("E2B_API_KEY={KEY}")])?;
    lab.write("docker-compose.override.yml", &over)?;
    let finding = lab.finding("e2b-key.not-passed").await;
    assert!(finding.seen.contains("is in `.env` line 3"), "{finding:?}");
    assert!(finding.seen.contains("it stops at `docker-compose.override.yml`"), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("e2b-key").await;

    // In the shell alone.
    let mut lab = Lab::install(&[])?;
    lab.write("docker-compose.override.yml", &over)?;
    lab.in_shell("E2B_API_KEY", KEY);
    let finding = lab.finding("e2b-key.shell-only").await;
    assert!(remedy(&finding).paste.starts_with("printf %s \"$E2B_API_KEY\" | ambientctl config set E2B_API_KEY -"));
    Ok(())
}

#[tokio::test]
async fn a_service_that_is_not_there_is_no_wrong_key() -> io::Result<()> {
    let url = format!("http://127.0.0.1:{}", closed_port());
    let lab = Lab::repository(&["SANDBOX_BACKEND=e2b", &format!("E2B_API_URL={url}"), &format!("E2B_API_KEY={KEY}")])?;
    let finding = lab.finding("e2b-key.unreachable").await;
    assert!(finding.seen.contains(&url), "{finding:?}");
    Ok(())
}

#[tokio::test]
async fn a_template_that_is_not_there_is_named_with_the_one_that_was_meant() -> io::Result<()> {
    let cloud = Cloud::start().await?;
    let lab = on_e2b(&cloud, KEY)?;
    let finding = lab.finding("e2b-template.missing").await;
    assert!(remedy(&finding).paste.starts_with("ambientctl template build --env-file "), "{finding:?}");
    assert!(finding.fix.is_some_and(|fix| fix.is_asked()), "a build is asked first");
    cloud.has_built(NAME);
    lab.is_well("e2b-template").await;

    for (written, meant) in [(DEV, NAME), ("video-analysis-v2", NAME), ("vidoe-analysis-v1", NAME)] {
        lab.write(
            ".env",
            &format!("SANDBOX_BACKEND=e2b\nE2B_API_URL={}\nE2B_API_KEY={KEY}\nE2B_TEMPLATE={written}\n", cloud.url),
        )?;
        let finding = lab.finding("e2b-template.name").await;
        assert!(finding.seen.contains(&format!("but it has `{meant}`; did you mean that?")), "{finding:?}");
        lab.carry_out(remedy(&finding)).await;
        lab.is_well("e2b-template").await;
    }
    Ok(())
}

#[tokio::test]
async fn builds_that_failed_or_are_of_another_version_are_built_anew() -> io::Result<()> {
    let cloud = Cloud::start().await?;
    let lab = on_e2b(&cloud, KEY)?;
    for (status, tags, id, words) in [
        (BuildStatus::Error, vec!["default"], "e2b-template.failed", "its last build failed"),
        (BuildStatus::Building, vec!["default"], "e2b-template.building", "its last build is not ready"),
        (BuildStatus::Ready, vec!["default", "v0.0.1"], "e2b-template.version", "built by version v0.0.1"),
        (BuildStatus::Ready, vec!["default"], "e2b-template.version", "not built by this program"),
    ] {
        cloud.has("mine", NAME, status, &tags);
        let finding = lab.finding(id).await;
        assert!(finding.seen.contains(words), "{finding:?}");
        let command = if id == "e2b-template.building" { "template check" } else { "template build" };
        assert!(remedy(&finding).paste.starts_with(&format!("ambientctl {command}")), "{finding:?}");
    }
    cloud.has_built(NAME);
    lab.is_well("e2b-template").await;
    Ok(())
}

#[tokio::test]
async fn a_template_of_another_team_is_said_to_be_that() -> io::Result<()> {
    let cloud = Cloud::start().await?;
    cloud.has("theirs", NAME, BuildStatus::Ready, &["default", concat!("v", env!("CARGO_PKG_VERSION"))]);
    let lab = on_e2b(&cloud, KEY)?;
    let finding = lab.finding("e2b-template.other-team").await;
    assert!(finding.seen.contains("belongs to another team"), "{finding:?}");
    lab.carry_out_with(remedy(&finding), "E2B_API_KEY", OTHER_KEY).await;
    lab.is_well("e2b-template").await;
    Ok(())
}
