//! `.env`, the override, and what the values mean.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::{fs, io};

use ambient_ctl::doctor::Level;

use super::lab::{Lab, mode, remedy};

#[tokio::test]
async fn an_open_env_file_is_closed_by_its_remedy_and_by_fix() -> io::Result<()> {
    let lab = Lab::repository(&["LLM_MODEL=x"])?;
    let open = || fs::set_permissions(lab.path(".env"), fs::Permissions::from_mode(0o644));
    open()?;
    let finding = lab.finding("env-file.mode").await;
    assert_eq!(finding.level, Level::Failure);
    assert!(finding.seen.ends_with("can be read by others (mode 644)"), "{finding:?}");
    assert_eq!(remedy(&finding).paste, format!("chmod 600 {}", lab.path(".env").display()));
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("env-file").await;

    open()?;
    let fix = lab.finding("env-file.mode").await.fix.expect("it can be mended safely");
    ambient_ctl::doctor::apply(&fix).expect("the file is ours");
    assert_eq!(mode(&lab.path(".env")), 0o600);
    lab.is_well("env-file").await;
    Ok(())
}

#[tokio::test]
async fn a_file_that_cannot_be_read_names_the_line() -> io::Result<()> {
    let lab = Lab::repository(&["LLM_MODEL=x", "LLM_API_KEY=\"no end"])?;
    let finding = lab.finding("env-file.syntax").await;
    assert!(finding.seen.contains(".env` line 2: "), "{finding:?}");
    assert!(!finding.seen.contains("no end"), "a value is shown: {finding:?}");
    assert_eq!(remedy(&finding).paste, format!("${{EDITOR:-vi}} +2 {}", lab.path(".env").display()));
    Ok(())
}

#[tokio::test]
async fn doubles_line_ends_and_marks_are_mended_by_their_remedies() -> io::Result<()> {
    let lab = Lab::repository(&[])?;
    for (text, id, words, after) in [
        (
            "LLM_MODEL=a\nAGENT_MODEL=b\nLLM_MODEL=c\n",
            "env-file.double",
            "line 3 counts, not 1",
            "AGENT_MODEL=b\nLLM_MODEL=c\n",
        ),
        (
            "LLM_MODEL=a\r\nAGENT_MODEL=b\r\n",
            "env-file.line-ends",
            "the line ends of Windows",
            "LLM_MODEL=a\nAGENT_MODEL=b\n",
        ),
        ("\u{feff}LLM_MODEL=a\n", "env-file.mark", "a byte order mark", "LLM_MODEL=a\n"),
    ] {
        lab.write(".env", text)?;
        let finding = lab.finding(id).await;
        assert!(finding.seen.contains(words), "{finding:?}");
        lab.carry_out(remedy(&finding)).await;
        assert_eq!(lab.read(".env"), after);
        lab.is_well("env-file").await;
    }
    Ok(())
}

#[tokio::test]
async fn a_shell_that_hides_the_file_is_told_without_either_value() -> io::Result<()> {
    let mut lab = Lab::repository(&["LLM_API_KEY=key-of-the-file", "LLM_MODEL=same"])?;
    lab.in_shell("LLM_API_KEY", "key-of-the-shell");
    lab.in_shell("LLM_MODEL", "same");
    let finding = lab.finding("env-file.shadowed").await;
    assert!(finding.seen.contains("`LLM_API_KEY` is set in this shell too"), "{finding:?}");
    assert!(!format!("{finding:?}").contains("key-of"), "{finding:?}");
    assert_eq!(remedy(&finding).paste, "unset LLM_API_KEY");
    lab.shell.retain(|(name, _)| name != "LLM_API_KEY");
    lab.is_well("env-file").await;
    Ok(())
}

#[tokio::test]
async fn a_link_that_leads_nowhere_is_removed_by_fix() -> io::Result<()> {
    let lab = Lab::repository(&[])?;
    fs::remove_file(lab.path(".env"))?;
    symlink(lab.path("gone"), lab.path(".env"))?;
    let finding = lab.finding("env-file.stale-link").await;
    ambient_ctl::doctor::apply(finding.fix.as_ref().expect("it can be mended safely")).expect("the link is ours");
    assert!(lab.path(".env").symlink_metadata().is_err());
    let finding = lab.finding("env-file.missing").await;
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("env-file").await;
    Ok(())
}

#[tokio::test]
async fn a_backend_that_is_nearly_e2b_is_named_and_mended() -> io::Result<()> {
    for written in ["E2B", "'e2b '", "e2", "eb2"] {
        let lab = Lab::repository(&[&format!("SANDBOX_BACKEND={written}")])?;
        let finding = lab.finding("backend.typo").await;
        assert!(finding.seen.ends_with("which is no backend; did you mean `e2b`?"), "{finding:?}");
        assert!(finding.why.contains("the agent's shell runs on the engine's host now"));
        assert!(remedy(&finding).paste.starts_with("ambientctl config set SANDBOX_BACKEND e2b"));
        lab.carry_out(remedy(&finding)).await;
        lab.is_well("backend").await;
    }
    let lab = Lab::repository(&["SANDBOX_BACKEND=docker"])?;
    let finding = lab.finding("backend.unknown").await;
    assert_eq!(finding.level, Level::Warning);
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("backend").await;
    Ok(())
}

#[tokio::test]
async fn a_shell_and_a_known_key_on_an_open_port_are_told() -> io::Result<()> {
    let lab = Lab::repository(&["SERVER_HOST=0.0.0.0"])?;
    let finding = lab.finding("backend.dev-token").await;
    assert_eq!(finding.level, Level::Failure);
    assert!(finding.seen.contains("`0.0.0.0` is reachable from other machines"), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    let bash = lab.finding("backend.bash").await;
    assert_eq!(bash.level, Level::Warning, "the key is mended and the shell is not: {bash:?}");
    lab.carry_out(remedy(&bash)).await;
    lab.is_well("backend").await;

    let lab = Lab::install(&["AMBIENT_BIND=0.0.0.0"])?;
    assert!(lab.finding("backend.bash").await.seen.contains("`0.0.0.0` is reachable"));
    lab.write(".env", &lab.read(".env").replace("AMBIENT_BIND=0.0.0.0", "AMBIENT_BIND=127.0.0.1"))?;
    lab.is_well("backend").await;
    Ok(())
}

#[tokio::test]
async fn values_and_names_that_are_slips_are_named_and_mended() -> io::Result<()> {
    let lab = Lab::repository(&["LOG_FORMAT=jsn"])?;
    let finding = lab.finding("settings.value").await;
    assert!(
        finding.seen.contains("`LOG_FORMAT` `jsn`") && finding.seen.contains("did you mean `json`?"),
        "{finding:?}"
    );
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("settings").await;

    let lab = Lab::repository(&["SERVER_PROT=9000"])?;
    let finding = lab.finding("settings.name").await;
    assert!(finding.seen.contains("did you mean `SERVER_PORT`?"), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    assert_eq!(lab.read(".env"), "SERVER_PORT=9000\n");
    lab.is_well("settings").await;
    Ok(())
}

#[tokio::test]
async fn a_setting_that_stops_at_the_override_is_passed_on_by_fix() -> io::Result<()> {
    let lab = Lab::install(&["UPLOAD_CONCURRENCY=4"])?;
    let finding = lab.finding("override.not-passed").await;
    assert!(finding.seen.contains("`UPLOAD_CONCURRENCY` is in `.env` line 3"), "{finding:?}");
    assert!(finding.seen.ends_with("it stops at `docker-compose.override.yml`"), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    assert!(lab.read("docker-compose.override.yml").contains("UPLOAD_CONCURRENCY: ${UPLOAD_CONCURRENCY}"));
    lab.is_well("override").await;
    Ok(())
}

#[tokio::test]
async fn a_literal_in_the_override_hides_the_file_and_is_named() -> io::Result<()> {
    let lab = Lab::install(&["LLM_MODEL=mine"])?;
    lab.write("docker-compose.override.yml", "services:\n  engine:\n    environment:\n      LLM_MODEL: other\n")?;
    let finding = lab.finding("override.literal").await;
    assert!(finding.seen.contains("`docker-compose.override.yml` gives the engine a value of its own"), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("override").await;
    Ok(())
}

#[tokio::test]
async fn names_that_the_engine_does_not_know_are_named_in_the_override() -> io::Result<()> {
    let lab = Lab::install(&[])?;
    lab.write("docker-compose.override.yml", "services:\n  engine:\n    environment:\n      E2B_TEMPLAT: x\n")?;
    let finding = lab.finding("override.unknown").await;
    assert!(
        finding.seen.contains("`E2B_TEMPLAT`") && finding.seen.contains("did you mean `E2B_TEMPLATE`?"),
        "{finding:?}"
    );
    lab.carry_out(remedy(&finding)).await;
    assert!(lab.read("docker-compose.override.yml").contains("E2B_TEMPLATE: x"));
    lab.is_well("override").await;
    Ok(())
}

#[tokio::test]
async fn another_override_that_hides_ours_is_moved_aside() -> io::Result<()> {
    let lab = Lab::install(&[])?;
    lab.write("compose.override.yml", "services: {}\n")?;
    let finding = lab.finding("override.hidden").await;
    lab.carry_out(remedy(&finding)).await;
    lab.is_well("override").await;
    Ok(())
}

#[tokio::test]
async fn the_compose_file_of_a_repository_is_valid_though_docker_compose_alone_applies_it() -> io::Result<()> {
    let lab = Lab::repository(&[])?;
    lab.write("docker-compose.yml", "services:\n  api:\n    build: .\n    image: ambient-engine:source\n")?;
    assert_eq!(lab.finding("docker.files").await.level, Level::Ok);
    lab.write("docker-compose.yml", "services:\n  api:\n    image: x\n    prots: []\n")?;
    assert!(lab.finding("docker.files").await.seen.contains("line 4"));
    Ok(())
}
