//! Writes `docs/openapi.json` from the routes and types that serve the API, into the repository that this file is in.

use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi.json");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, ambient_engine::api::openapi::text())
}
