//! `ambientctl doctor` on a real Docker engine: what is wrong with containers, ports and the engine itself.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::time::Duration;

use ambient_ctl::doctor::{Context, Finding, Level, Place, Target, Wishes, run};
use ambient_ctl::environment::Environment;
use ambient_ctl::output::Exit;

use nix::unistd::{Gid, Uid, geteuid, setfsgid, setfsuid};

use super::images::{Image, Registry};
use super::lab::{STACK, Stack, runtime, socket, variable};

/// A user, and a group, that nobody on this machine is or is in.
const STRANGER: u32 = 54_321;

/// What `doctor` says about a stack, on this engine.
fn look(stack: &Stack, docker: &str, only: &str) -> Vec<Finding> {
    findings(&context(stack, docker), only)
}

fn context(stack: &Stack, docker: &str) -> Context {
    let environment = Environment { variables: vec![("HOME".into(), stack.path().into())], env_file: None };
    let target = Target::read(Place::Install(stack.path().to_owned()), Some(stack.path()), &environment);
    let wishes = Wishes { limit: Duration::from_secs(10), deep: false, docker: Some(docker.to_owned()), engine: None };
    Context::new(target, wishes, environment).expect("TLS can be set up")
}

fn findings(context: &Context, only: &str) -> Vec<Finding> {
    runtime().block_on(run(context, &[only.to_owned()])).findings
}

/// Looks with the rights of another user and of this group on files and sockets; this thread alone has them, and only so long.
fn as_stranger_in(group: Gid, look: impl FnOnce() -> Vec<Finding>) -> Vec<Finding> {
    assert!(geteuid().is_root(), "only root may look as somebody else");
    let own_group = setfsgid(group);
    let own_user = setfsuid(Uid::from_raw(STRANGER));
    let found = look();
    setfsuid(own_user);
    setfsgid(own_group);
    found
}

/// The engine behind another socket, which its group may use and others may not, as Docker's package makes it.
fn socket_of(group: Gid) -> io::Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
    let path = folder.path().join("docker.sock");
    let listener = UnixListener::bind(&path)?;
    std::os::unix::fs::chown(&path, None, Some(group.as_raw()))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o660))?;
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(engine) = UnixStream::connect(socket()) else { continue };
            for (mut from, mut to) in [(client.try_clone(), engine.try_clone()), (Ok(engine), Ok(client))]
                .into_iter()
                .filter_map(|(from, to)| from.ok().zip(to.ok()))
            {
                std::thread::spawn(move || {
                    let _either_may_hang_up = io::copy(&mut from, &mut to);
                    let _may_be_closed = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    Ok(folder)
}

/// What mends a finding.
fn remedy(finding: &Finding) -> &str {
    finding.remedy.as_ref().map_or("", |remedy| remedy.paste.as_str())
}

/// A remedy in a shell that talks with the engine.
#[expect(clippy::disallowed_methods, reason = "remedies are for a shell")]
pub(crate) fn in_a_shell(command: &str) -> io::Result<()> {
    let mut shell = Command::new("sh");
    let path = variable("PATH").unwrap_or_default();
    shell.args(["-c", command]).env_clear().env("PATH", path).env("DOCKER_HOST", here());
    let output = shell.output()?;
    let told = || io::Error::other(format!("{command}: {}", String::from_utf8_lossy(&output.stderr)));
    if output.status.success() { Ok(()) } else { Err(told()) }
}

fn here() -> String {
    format!("unix://{}", socket().display())
}

fn bad(findings: Vec<Finding>) -> Vec<Finding> {
    findings.into_iter().filter(|finding| finding.level >= Level::Warning).collect()
}

#[test]
fn a_stopped_container_is_started_by_its_remedy() {
    let stack = Stack::new(STACK).unwrap();
    let missing = bad(look(&stack, &here(), "docker"));
    assert_eq!(missing.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["docker.containers"; 2], "{missing:#?}");
    assert_eq!(missing[1].seen, "`engine` has no container");
    stack.run(&["start"]).unwrap();
    stack.run(&["stop", "engine"]).unwrap();
    let stopped = bad(look(&stack, &here(), "docker"));
    assert_eq!(stopped.len(), 1, "{stopped:#?}");
    assert!(stopped[0].seen.starts_with("the container of `engine` is stopped: Exited"), "{stopped:#?}");
    assert_eq!(stopped[0].remedy.as_ref().map(|remedy| remedy.paste.as_str()), Some("ambientctl start"));
    assert_eq!(stack.run(&["start"]).unwrap(), Exit::Ok);
    let well = look(&stack, &here(), "docker");
    assert!(well.iter().all(|finding| finding.level == Level::Ok || finding.id == "docker.image"), "{well:#?}");
    assert!(well.iter().any(|finding| finding.seen.starts_with("Docker ")), "{well:#?}");
}

#[test]
fn files_that_changed_are_told_until_they_are_applied() {
    let stack = Stack::new(STACK).unwrap();
    stack.run(&["start"]).unwrap();
    stack.run(&["config", "set", "LLM_MODEL", "second", "--no-apply"]).unwrap();
    let pending = bad(look(&stack, &here(), "docker"));
    assert!(pending.iter().any(|finding| finding.id == "docker.pending"), "{pending:#?}");
    stack.run(&["start"]).unwrap();
    assert!(bad(look(&stack, &here(), "docker")).iter().all(|finding| finding.id == "docker.image"));
}

#[test]
fn an_engine_that_is_missing_or_silent_is_told_in_other_words() {
    let stack = Stack::new(STACK).unwrap();
    let missing = bad(look(&stack, "unix:///no/such/docker.sock", "docker"));
    assert_eq!(missing[0].id, "docker.missing", "{missing:#?}");
    let stale = stack.path().join("stale.sock");
    drop(UnixListener::bind(&stale).unwrap());
    let silent = bad(look(&stack, &format!("unix://{}", stale.display()), "docker"));
    assert_eq!(silent[0].id, "docker.silent", "{silent:#?}");
    assert_eq!(silent[0].remedy.as_ref().map(|remedy| remedy.paste.as_str()), Some("sudo systemctl start docker"));
}

#[test]
fn files_that_are_not_valid_name_the_line() {
    let stack = Stack::new("services:\n  engine:\n    image: ambient-test:1\n    prots: []\n").unwrap();
    let found = bad(look(&stack, &here(), "docker"));
    assert_eq!(found[0].id, "docker.files", "{found:#?}");
    assert!(found[0].seen.contains("docker-compose.yml` line 5: "), "{found:#?}");
    assert!(found[0].remedy.as_ref().is_some_and(|remedy| remedy.paste.starts_with("${EDITOR:-vi} +5 ")), "{found:#?}");
}

#[test]
fn a_port_of_another_program_is_told_with_a_free_one() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let text = format!(
        "services:\n  engine:\n    image: ambient-test:1\n    ports: [\"127.0.0.1:${{AMBIENT_ENGINE_PORT:-{port}}}:8080\"]\n"
    );
    let stack = Stack::new(&text).unwrap();
    let taken = bad(look(&stack, &here(), "ports"));
    assert_eq!(taken[0].id, "ports.taken", "{taken:#?}");
    assert!(taken[0].seen.contains(&format!("`127.0.0.1:{port}`")), "{taken:#?}");
    let remedy = taken[0].remedy.as_ref().expect("it has a remedy").paste.clone();
    let words: Vec<&str> = remedy.split_whitespace().skip(1).collect();
    stack.run(&[words.as_slice(), &["--no-apply"]].concat()).unwrap();
    assert_eq!(bad(look(&stack, &here(), "ports")), []);
}

#[test]
fn a_socket_of_a_group_is_refused_to_others_until_they_are_in_it() {
    let stack = Stack::new(STACK).unwrap();
    stack.run(&["start"]).unwrap();
    let group = Gid::from_raw(STRANGER);
    let folder = socket_of(group).unwrap();
    let address = format!("unix://{}", folder.path().join("docker.sock").display());
    let context = context(&stack, &address);
    let refused = as_stranger_in(Gid::from_raw(STRANGER + 1), || bad(findings(&context, "docker")));
    assert_eq!(refused.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["docker.refused"], "{refused:#?}");
    assert!(refused[0].seen.contains(&address), "{refused:#?}");
    assert_eq!(refused[0].why, "the engine, its database and its queue run in containers");
    assert_eq!(remedy(&refused[0]), "sudo usermod -aG docker \"$USER\" && newgrp docker");
    // What the remedy makes of whoever runs it: one of the socket's group.
    let joined = as_stranger_in(group, || findings(&context, "docker"));
    assert!(joined.iter().all(|finding| finding.level == Level::Ok || finding.id == "docker.image"), "{joined:#?}");
}

#[test]
fn an_old_image_of_another_version_is_mended_by_an_update() {
    let registry = Registry::start().unwrap();
    let name = registry.image();
    let image = Image::load(&name, "2026-01-02T03:04:05Z", "0.0.1").unwrap();
    let stack = Stack::new(&STACK.replace("ambient-test:1", &name)).unwrap();
    stack.run(&["start"]).unwrap();
    let old = bad(look(&stack, &here(), "docker"));
    assert_eq!(old.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["docker.image"], "{old:#?}");
    assert!(old[0].seen.starts_with(&format!("the image `{name}` was built ")), "{old:#?}");
    assert_eq!(old[0].why, "it lacks what was mended since");
    let other = bad(look(&stack, &here(), "version"));
    assert_eq!(other.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["version.differs"], "{other:#?}");
    let own = env!("CARGO_PKG_VERSION");
    assert_eq!(other[0].seen, format!("the image `{name}` is of version 0.0.1, and this program of {own}"));
    assert_eq!((remedy(&old[0]), remedy(&other[0])), ("ambientctl update", "ambientctl update"));

    let now = jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap();
    image.release(&now.to_string(), &format!("v{own}")).unwrap();
    assert_eq!(bad(look(&stack, &here(), "version")), other, "the release is in the registry alone");
    assert_eq!(stack.run(&["update"]).unwrap(), Exit::Ok);
    for check in ["docker", "version"] {
        assert_eq!(bad(look(&stack, &here(), check)), []);
    }
    assert!(look(&stack, &here(), "version").iter().any(|finding| finding.id == "version.same"));
}

#[test]
fn containers_that_no_file_asks_for_are_removed_by_the_remedy() {
    let stack = Stack::new(STACK).unwrap();
    stack.run(&["start"]).unwrap();
    let orphan = format!("{}-db-1", stack.project);
    let text = stack.file("docker-compose.yml");
    let (_db, engine) = text.split_once("  engine:\n").expect("it has an engine");
    let engine = engine.replace("    depends_on: {db: {condition: service_healthy}}\n", "");
    std::fs::write(
        stack.path().join("docker-compose.yml"),
        format!("name: {}\nservices:\n  engine:\n{engine}", stack.project),
    )
    .unwrap();
    stack.run(&["start"]).unwrap();
    let found = bad(look(&stack, &here(), "docker"));
    let found: Vec<_> = found.iter().filter(|finding| finding.id != "docker.image").collect();
    assert_eq!(found.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["docker.orphans"], "{found:#?}");
    assert_eq!(found[0].seen, format!("no file asks for the containers `{orphan}` any more"));
    in_a_shell(remedy(found[0])).unwrap();
    assert!(bad(look(&stack, &here(), "docker")).iter().all(|finding| finding.id == "docker.image"));
}
