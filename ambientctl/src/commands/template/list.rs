//! `ambientctl template list`: the templates of the team.

use serde_json::json;

use super::Service;
use super::failure::told;
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl template list`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    service: Service,
}

pub(super) async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let (client, used) = args.service.open(environment, printer)?;
    let templates = client.templates().list().await.map_err(|error| told(error, &used))?;
    if printer.json {
        let listed: Vec<_> = templates
            .iter()
            .map(|template| {
                json!({
                    "id": template.template_id,
                    "names": template.aliases,
                    "used": template.aliases.contains(&used),
                    "build": template.build_status,
                    "cpu": template.cpu_count,
                    "memory_mb": template.memory_mb,
                    "updated_at": template.updated_at,
                })
            })
            .collect();
        printer.data(&json!({ "templates": listed }).to_string());
        return Ok(Exit::Ok);
    }
    if templates.is_empty() {
        printer.note("the team has no templates; build one with `ambientctl template build`");
    }
    for template in &templates {
        let name = template.aliases.first().unwrap_or(&template.template_id);
        let status = serde_json::to_value(template.build_status).ok();
        let status = status.as_ref().and_then(serde_json::Value::as_str).unwrap_or("unknown");
        let used = if template.aliases.contains(&used) { "  (E2B_TEMPLATE)" } else { "" };
        printer.data(&format!(
            "{name:<28} {:<22} {status:<10} {:>2} CPU {:>6} MB{used}",
            template.template_id, template.cpu_count, template.memory_mb
        ));
    }
    Ok(Exit::Ok)
}
