//! `read_image`: a picture of the workspace for the agent's own model.

use serde_json::json;

use super::call::{Call, Failure, told};
use super::input::Input;
use super::toolbox::Spec;
use super::{Arguments, ToolOutput, prompts, schema};
use crate::store::records::Part;

pub(crate) const NAME: &str = "read_image";

pub(crate) fn spec() -> Spec {
    let properties = json!({
        "image_path": schema::text("The path of the picture in the session's workspace."),
        "note": schema::text("What you want to see on it; it comes back with the picture."),
    });
    Spec { name: NAME, description: prompts::READ_IMAGE, parameters: schema::object(properties, &["image_path"]) }
}

pub(crate) async fn run(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let mut input = Input::new(NAME, arguments);
    let path = input.text("image_path");
    let note = input.optional_text("note").filter(|note| !note.trim().is_empty());
    let path = input.finish(path)?;
    let dimension = call.own_quality().max_dimension;
    let target = call.target(None);
    let picture = call.context.backend.read_image(&target, &path, dimension, &call.context.stop).await;
    let picture = picture.map_err(|error| told(error, "reading image", "image_path"))?;
    let text = format!("`{path}` ({} x {} pixels) comes in the next message.", picture.width, picture.height);
    let label = match note {
        Some(note) => format!("Picture `{path}` ({}):", note.trim()),
        None => format!("Picture `{path}`:"),
    };
    let media = vec![Part::Text { text: label }, Part::Image { media: picture.media }];
    Ok(ToolOutput { text, media, ..ToolOutput::default() })
}
