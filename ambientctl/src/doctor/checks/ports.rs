//! Whether the ports that are wanted are the engine's to have.

use crate::docker::{DockerError, check_ports, is_taken, look as look_at};
use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Sink};
use crate::doctor::target::chain;

/// Why it matters.
const WHY: &str = "two programs cannot listen on one port, so the engine does not start";

pub(super) async fn look(context: &Context, sink: &Sink) {
    if context.target.is_install() {
        of_stack(context, sink).await;
    } else {
        of_engine(context, sink).await;
    }
}

async fn of_stack(context: &Context, sink: &Sink) {
    let Some(wanted) = context.wanted() else {
        sink.put(Finding::skipped("ports.unknown", "the compose files cannot be read; see `docker`"));
        return;
    };
    sink.step("the Docker engine, for who has which port".to_owned());
    let Ok(connection) = context.docker().await else {
        sink.put(Finding::skipped("ports.unknown", "Docker does not answer; see `docker`"));
        return;
    };
    let checked = async {
        let found = look_at(&connection, wanted).await?;
        check_ports(&connection, wanted, &found).await
    };
    match checked.await {
        Ok(()) => {
            let ports: Vec<String> = wanted
                .services
                .iter()
                .flat_map(crate::docker::WantedService::published)
                .map(|(host, port, _)| if host.is_empty() { port.to_owned() } else { format!("{host}:{port}") })
                .collect();
            let shown = if ports.is_empty() { "no port is published".to_owned() } else { ports.join(", ") };
            sink.put(Finding::ok("ports.free", format!("nobody else has what the stack publishes: {shown}")));
        }
        Err(error @ DockerError::Port { .. }) => {
            let service = match &error {
                DockerError::Port { service, .. } => service.as_str(),
                _ => "",
            };
            let other = (8081..8181).find(|port| !is_taken("127.0.0.1", *port)).unwrap_or(8081);
            let key = if service == "engine" { "AMBIENT_ENGINE_PORT" } else { "AMBIENT_STUDIO_PORT" };
            sink.put(Finding::failure("ports.taken", chain(&error), WHY, context.target.set(key, &other.to_string())));
        }
        Err(error) => sink.put(Finding::skipped("ports.unknown", format!("{}; see `docker`", chain(&error)))),
    }
}

async fn of_engine(context: &Context, sink: &Sink) {
    let server = &context.target.settings.server;
    let shown = format!("{}:{}", server.host, server.port);
    if server.port == 0 || !is_taken(&server.host, server.port) {
        sink.put(Finding::ok("ports.free", format!("`{shown}` is free")));
        return;
    }
    sink.step(format!("whoever listens on `{shown}`"));
    let health = context.engine_path("v1/healthz");
    let is_engine = match health {
        Some(url) => {
            let answer = context.http.get(url).timeout(context.request_limit()).send().await;
            match answer {
                Ok(answer) => answer.text().await.is_ok_and(|text| text.contains(r#""status":"ok""#)),
                Err(_silent) => false,
            }
        }
        None => false,
    };
    if is_engine {
        sink.put(Finding::ok("ports.engine", format!("an engine listens on `{shown}`")));
        return;
    }
    let other = (8081..8181).find(|port| !is_taken(&server.host, *port)).unwrap_or(8081);
    sink.put(Finding::failure(
        "ports.taken",
        format!("another program listens on `{shown}`"),
        WHY,
        context.target.set("SERVER_PORT", &other.to_string()),
    ));
}
