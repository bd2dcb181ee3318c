//! The Docker engine, the compose files, and the containers of the stack.

use jiff::Timestamp;

use crate::docker::{
    Connection, DockerError, FoundContainer, State, Wanted, containers_of, engine_facts, image_facts, look as look_at,
};
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Remedy, Sink};
use crate::doctor::target::{StackFault, Target, chain, quoted_path};
use crate::plan::{Plan, Verdict};

/// The age, in days, from which on an image has most likely missed fixes.
const STALE_DAYS: i64 = 90;
/// Why Docker matters.
const WHY: &str = "the engine, its database and its queue run in containers";

pub(super) async fn look(context: &Context, sink: &Sink) {
    let target = &context.target;
    let Some(stack) = &target.stack else {
        if target.is_install() {
            sink.put(Finding::failure(
                "docker.files",
                "there is no `docker-compose.yml` in the installation's folder",
                WHY,
                Remedy::run(target.command("install")),
            ));
        } else {
            sink.put(Finding::skipped(
                "docker.unused",
                "there are no compose files here, so no containers are expected",
            ));
        }
        return;
    };
    let wanted = match &stack.wanted {
        Ok(wanted) => {
            sink.put(Finding::ok("docker.files", format!("the compose files give {} services", wanted.services.len())));
            Some(wanted)
        }
        Err(fault) if fault.is_for_compose && !target.is_install() => {
            sink.put(Finding::ok(
                "docker.files",
                "the compose files are valid; `docker compose` brings that stack about",
            ));
            None
        }
        Err(fault) => {
            sink.put(invalid(target, fault));
            None
        }
    };
    sink.step("the Docker engine".to_owned());
    let connection = match context.docker().await {
        Ok(connection) => connection,
        Err(error) if !target.is_install() => {
            sink.put(Finding::skipped(
                "docker.engine",
                format!("{}; only `docker compose up` needs it", chain(&error)),
            ));
            return;
        }
        Err(error) => {
            sink.put(no_engine(&error));
            return;
        }
    };
    match engine_facts(&connection).await {
        Ok(facts) => {
            let place = connection.place();
            let words = "Compose's plugin is not needed";
            sink.put(Finding::ok("docker.engine", format!("Docker {} answers at {place}; {words}", facts.version)));
        }
        Err(error) => sink.put(no_engine(&error)),
    }
    if let Some(wanted) = wanted {
        sink.step("the containers of the stack".to_owned());
        if let Err(error) = containers(context, &connection, wanted, sink).await {
            sink.put(Finding::failure(
                "docker.containers",
                format!("the containers cannot be looked at: {}", chain(&error)),
                WHY,
                Remedy::run("ambientctl status"),
            ));
        }
    }
}

fn invalid(target: &Target, fault: &StackFault) -> Finding {
    let remedy = match &fault.at {
        Some((file, line)) => format!("${{EDITOR:-vi}} +{line} {}", quoted_path(file)),
        None => target.command("config render"),
    };
    Finding::failure(
        "docker.files",
        fault.seen.clone(),
        "neither Docker Compose nor ambientctl can bring such a stack about",
        Remedy::run(remedy),
    )
}

/// Three different words: missing, refused, not answering.
fn no_engine(error: &DockerError) -> Finding {
    let seen = chain(error);
    let (id, remedy) = match error {
        DockerError::Missing(_) => ("docker.missing", Remedy::run("curl -fsSL https://get.docker.com | sh")),
        DockerError::Refused { .. } => {
            ("docker.refused", Remedy::run("sudo usermod -aG docker \"$USER\" && newgrp docker"))
        }
        DockerError::Silent { .. } | DockerError::Ssh { .. } => {
            ("docker.silent", Remedy::run("sudo systemctl start docker"))
        }
        DockerError::Tls { .. } => ("docker.tls", Remedy::run("export DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=~/.docker")),
        _ => ("docker.address", Remedy::run("docker context ls")),
    };
    Finding::failure(id, seen, WHY, remedy)
}

async fn containers(
    context: &Context,
    connection: &Connection,
    wanted: &Wanted,
    sink: &Sink,
) -> Result<(), DockerError> {
    let target = &context.target;
    let all = containers_of(connection, &wanted.project).await?;
    if all.iter().all(|container| container.one_off) && !target.is_install() {
        sink.put(Finding::skipped(
            "docker.containers",
            "no container of these compose files is there: none was started",
        ));
        return Ok(());
    }
    let found = look_at(connection, wanted).await?;
    let plan = Plan::make(wanted, &found)?;
    let mut is_well = true;
    for step in &plan.steps {
        let finding = match (&step.container, &step.verdict) {
            (None, _) => Some(missing(target, &step.service)),
            (Some(container), verdict) => state(target, container).or_else(|| pending(target, &step.service, verdict)),
        };
        is_well &= finding.is_none();
        sink.put(finding.unwrap_or_else(|| {
            let status = step.container.as_ref().map_or("", |container| container.status.as_str());
            Finding::ok("docker.containers", format!("`{}` is well: {status}", step.service))
        }));
    }
    if is_well && !plan.orphans.is_empty() {
        sink.put(Finding::warning(
            "docker.orphans",
            format!("no file asks for the containers `{}` any more", plan.orphans.join("`, `")),
            "they go on working on the data beside the stack",
            Remedy::run(format!("docker rm -f {}", plan.orphans.join(" "))),
        ));
    }
    if let Some(engine) = target.stack.as_ref().and_then(super::super::target::Stack::engine)
        && let Some(facts) = image_facts(connection, &engine.image).await?
    {
        sink.put(age(target, &engine.image, facts.created.as_deref()));
    }
    Ok(())
}

fn missing(target: &Target, service: &str) -> Finding {
    Finding::failure(
        "docker.containers",
        format!("`{service}` has no container"),
        WHY,
        Remedy::run(target.command("start")),
    )
}

fn state(target: &Target, container: &FoundContainer) -> Option<Finding> {
    let service = &container.service;
    let (words, remedy) = match container.state {
        State::Running if container.status.contains("unhealthy") => {
            ("is not healthy", format!("logs --tail 50 {service}"))
        }
        State::Running if container.status.contains("health: starting") => return None,
        State::Running => return None,
        State::Restarting => ("ends and starts again and again", format!("logs --tail 50 {service}")),
        State::Paused => ("is paused", "restart".to_owned()),
        State::Created | State::Exited => ("is stopped", "start".to_owned()),
        State::Dead => ("is dead", "start".to_owned()),
    };
    Some(Finding::failure(
        "docker.containers",
        format!("the container of `{service}` {words}: {}", container.status),
        WHY,
        Remedy::run(target.command(&remedy)),
    ))
}

fn pending(target: &Target, service: &str, verdict: &Verdict) -> Option<Finding> {
    let Verdict::Recreate(reasons) = verdict else { return None };
    let reasons = reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let command = if target.is_install() { target.command("start") } else { "docker compose up -d".to_owned() };
    Some(Finding::warning(
        "docker.pending",
        format!("the container of `{service}` is not what the files say: {reasons}"),
        "a change of the files counts once the container is made anew",
        Remedy::run(command),
    ))
}

fn age(target: &Target, image: &str, created: Option<&str>) -> Finding {
    let now = Timestamp::try_from(std::time::SystemTime::now()).ok();
    let built = created.and_then(|text| text.parse::<Timestamp>().ok());
    let Some((now, built)) = now.zip(built) else {
        return Finding::ok("docker.image", format!("the image `{image}` is here and does not tell its age"));
    };
    let days = (now.as_second() - built.as_second()) / 86_400;
    if days > STALE_DAYS {
        let command =
            if target.is_install() { target.command("update") } else { "docker compose up -d --build".to_owned() };
        return Finding::warning(
            "docker.image",
            format!("the image `{image}` was built {days} days ago"),
            "it lacks what was mended since",
            Remedy::run(command),
        );
    }
    Finding::ok("docker.image", format!("the image `{image}` was built {} days ago", days.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;
    use crate::environment::Environment;

    #[test]
    fn missing_refused_and_silent_are_three_findings() {
        let refused = DockerError::Refused {
            address: "unix:///x".to_owned(),
            source: std::io::Error::from(std::io::ErrorKind::PermissionDenied),
        };
        for (error, id, paste) in [
            (
                DockerError::Missing(vec!["unix:///x".to_owned()]),
                "docker.missing",
                "curl -fsSL https://get.docker.com | sh",
            ),
            (refused, "docker.refused", "sudo usermod -aG docker \"$USER\" && newgrp docker"),
            (
                DockerError::Silent { address: "unix:///x".to_owned(), source: None },
                "docker.silent",
                "sudo systemctl start docker",
            ),
        ] {
            let finding = no_engine(&error);
            assert_eq!((finding.id, finding.remedy.map(|remedy| remedy.paste)), (id, Some(paste.to_owned())));
        }
    }

    #[test]
    fn an_old_image_is_told() {
        let target = Target::read(
            crate::doctor::Place::Process,
            None,
            &Environment { variables: vec![("HOME".into(), "/tmp".into())], env_file: None },
        );
        assert_eq!(age(&target, "i", Some("2020-01-01T00:00:00Z")).level, Level::Warning);
        assert_eq!(age(&target, "i", Some("9999-01-01T00:00:00Z")).level, Level::Ok);
        assert_eq!(age(&target, "i", None).level, Level::Ok);
    }
}
