//! Writes `docs/configuration.md` and `.env.example` from the catalogue, into the repository that this file is in.

use std::io;
use std::path::Path;

use ambient_settings::docs;

fn main() -> io::Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, text) in [(docs::REFERENCE_PATH, docs::reference()), (docs::EXAMPLE_PATH, docs::example())] {
        let path = repository.join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}
