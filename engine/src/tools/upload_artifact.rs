//! `upload_artifact`: a file of the workspace for the user to download.

use serde_json::json;

use super::call::{Call, Failure, INTERRUPTED};
use super::input::Input;
use super::toolbox::Spec;
use super::{Arguments, ToolOutput, prompts, schema};
use crate::backend::BackendError;

pub(crate) const NAME: &str = "upload_artifact";
const SECONDS_AN_HOUR: u64 = 3600;

pub(crate) fn spec() -> Spec {
    let properties = json!({
        "path": schema::text("The path of the file in the session's workspace."),
        "name": schema::text("The name that the user sees; the file's own by default."),
    });
    Spec { name: NAME, description: prompts::UPLOAD_ARTIFACT, parameters: schema::object(properties, &["path"]) }
}

pub(crate) async fn run(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let mut input = Input::new(NAME, arguments);
    let path = input.text("path");
    let name = input.optional_text("name").filter(|name| !name.trim().is_empty());
    let path = input.finish(path)?;
    let target = call.target(None);
    let made = call.context.backend.upload_artifact(&target, &path, name.as_deref(), &call.context.stop).await;
    let made = made.map_err(|error| match error {
        BackendError::Path(reason) => format!("Error uploading artifact: path {reason}"),
        BackendError::Cancelled => INTERRUPTED.to_owned(),
        // These say by themselves what is wrong: a size, or a bucket that is not there.
        BackendError::Media(reason) if reason.starts_with("artifact is") || reason.starts_with("S3 is") => {
            format!("Error: {reason}")
        }
        BackendError::NoSource { .. } | BackendError::Media(_) | BackendError::NoSandbox(_) => {
            format!("Error uploading artifact: {error}")
        }
    })?;
    let hours = call.config.artifact_url_ttl.as_secs() / SECONDS_AN_HOUR;
    Ok(ToolOutput::text(format!(
        "Uploaded {path} ({} MB) to {}\nDownload URL (valid ~{hours}h): {}",
        megabytes(made.size_bytes),
        made.uri,
        made.url
    )))
}

/// With one decimal, rounded.
fn megabytes(bytes: u64) -> String {
    let tenths = (bytes * 10 + (1 << 19)) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_decimal() {
        for (bytes, text) in [(0, "0.0"), (1 << 20, "1.0"), (1_600_000, "1.5"), (5 << 30, "5120.0")] {
            assert_eq!(megabytes(bytes), text);
        }
    }
}
