//! The configuration reference and `.env.example`, both written from the catalogue.
//!
//! `cargo run -p ambient-settings --example generate-docs` writes the two files; a test compares them with what these
//! functions give.

use std::fmt::Write as _;

use crate::catalogue::{Preset, SECTIONS, Section, Setting};
use crate::quote;

/// Where the reference stands in the repository.
pub const REFERENCE_PATH: &str = "docs/configuration.md";

/// Where the example stands in the repository.
pub const EXAMPLE_PATH: &str = ".env.example";

/// Writing into a `String` cannot fail.
const INFALLIBLE: &str = "a string takes all text";

/// The text of `docs/configuration.md`.
pub fn reference() -> String {
    let mut text = String::from(REFERENCE_HEAD);
    for section in SECTIONS {
        writeln!(text, "- [{}](#{})", section.title, anchor(section.title)).expect(INFALLIBLE);
    }
    for section in SECTIONS {
        write_section(&mut text, section);
    }
    text
}

/// The text of `.env.example`: every setting, commented out, with its default.
pub fn example() -> String {
    let mut text = String::from(EXAMPLE_HEAD);
    for section in SECTIONS {
        writeln!(text, "\n# --- {} ---", section.title).expect(INFALLIBLE);
        for setting in section.rows {
            text.push('\n');
            for line in wrapped(&without_ticks(setting.help), COMMENT_WIDTH) {
                writeln!(text, "# {line}").expect(INFALLIBLE);
            }
            match setting.preset {
                Preset::Is(value) if !setting.is_secret() => {
                    // A default that could not be quoted would show here as one without a value; a test looks.
                    let encoded = quote::encode(value).unwrap_or_default();
                    writeln!(text, "#{}={encoded}", setting.name).expect(INFALLIBLE);
                }
                Preset::Computed(words) => {
                    writeln!(text, "# Default: {}.", without_ticks(words)).expect(INFALLIBLE);
                    writeln!(text, "#{}=", setting.name).expect(INFALLIBLE);
                }
                Preset::Is(value) => {
                    writeln!(text, "# Default: {value}\n#{}=", setting.name).expect(INFALLIBLE);
                }
                Preset::Unset => writeln!(text, "#{}=", setting.name).expect(INFALLIBLE),
            }
        }
    }
    text
}

fn write_section(text: &mut String, section: &Section) {
    writeln!(text, "\n## {}\n\n{}\n", section.title, section.intro).expect(INFALLIBLE);
    text.push_str("| Setting | Accepts | Default | What it does |\n|---|---|---|---|\n");
    for setting in section.rows {
        writeln!(text, "| {} | {} | {} | {} |", name_cell(setting), setting.kind, setting.preset, description(setting))
            .expect(INFALLIBLE);
    }
}

fn name_cell(setting: &Setting) -> String {
    let secret = if setting.is_secret() { " 🔒" } else { "" };
    let sandbox = if setting.is_passed_to_sandboxes() { " 📦" } else { "" };
    format!("`{}`{secret}{sandbox}", setting.name)
}

fn description(setting: &Setting) -> String {
    if setting.advice.is_empty() { setting.help.to_owned() } else { format!("{} *{}*", setting.help, setting.advice) }
}

/// The anchor that Markdown renderers give a heading.
fn anchor(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

fn without_ticks(text: &str) -> String {
    text.replace('`', "")
}

/// Lines of comments in `.env.example` are at most this wide, without `# `.
const COMMENT_WIDTH: usize = 98;

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

const REFERENCE_HEAD: &str = "\
<!-- Generated from engine/settings/src/catalogue by `cargo run -p ambient-settings --example generate-docs`. -->

# Configuration reference

Every setting of the engine is an environment variable. The engine starts without any; to answer questions it needs
`LLM_BASE_URL`, and on most servers `LLM_API_KEY`.

**Where values come from**, strongest first:

1. the environment of the process;
2. the file `.env` in the working directory, if there is one;
3. the default.

Names are matched in any case. An empty value counts as not set, except where the description says what empty means; in
the environment it still hides a value in `.env`. A value that cannot be used stops the start, and all such values are
named at once, each with the place where it stands and what is accepted. A name that looks like a misspelt setting gets
a warning.

**`.env`** is read as Docker Compose reads it: `NAME=value`, with `#` after a space for comments; `'…'` for text as it is,
`\"…\"` for text with `\\n` and the like; `$NAME`, `${NAME:-default}` and `$$` for a dollar sign outside single quotes. Put
a value with `$`, `#` or spaces in single quotes.

**Switches** take `true` or `false`, also `yes`, `no`, `on`, `off`, `1`, `0`. **Sizes** take bytes, or a number with `KiB`,
`MiB`, `GiB` or `TiB`. **Paths** may begin with `~/`; relative ones start at the working directory.

🔒 marks secrets: their values are never shown in logs, errors, `ambientctl config show` or `ambientctl doctor`.
📦 marks settings that a sandbox gets too; everything else stays in the engine.

## Sections

";

const EXAMPLE_HEAD: &str = "\
# Settings of the engine. Copy this file to `.env` in the working directory, and take the `#` away before what you change.
# docs/configuration.md says more about each. Generated by `cargo run -p ambient-settings --example generate-docs`.
";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::catalogue::catalogue;
    use crate::dotenv::Document;
    use crate::settings::Settings;

    fn committed(path: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn the_committed_files_are_what_the_catalogue_gives() {
        for (path, text) in [(REFERENCE_PATH, reference()), (EXAMPLE_PATH, example())] {
            assert!(
                committed(path) == text,
                "`{path}` is stale; `cargo run -p ambient-settings --example generate-docs` writes it anew"
            );
        }
    }

    #[test]
    fn the_example_with_every_comment_sign_taken_away_gives_the_defaults() {
        let uncommented: String = example()
            .lines()
            .filter_map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')))
            .flat_map(|line| [line, "\n"])
            .collect();
        let document = Document::parse(&uncommented).unwrap();
        let names: Vec<_> = document.statements().iter().map(|statement| statement.name.as_str()).collect();
        assert_eq!(names, catalogue().map(|setting| setting.name).collect::<Vec<_>>());

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".env");
        fs::write(&file, uncommented).unwrap();
        let home = || [("HOME".into(), "/home/ann".into())];
        let with_file = Settings::load(home(), Some(&file)).unwrap();
        let defaults = Settings::load(home(), None).unwrap();
        let fields =
            |settings: Settings| format!("{:?}", Settings { written: std::collections::BTreeMap::new(), ..settings });
        assert_eq!(with_file.warnings, []);
        assert_eq!(fields(with_file.settings), fields(defaults.settings));
    }

    #[test]
    fn every_section_of_the_reference_can_be_reached_from_its_list() {
        let text = reference();
        for section in SECTIONS {
            assert!(text.contains(&format!("](#{})", anchor(section.title))), "{}", section.title);
            assert!(text.contains(&format!("\n## {}\n", section.title)), "{}", section.title);
        }
    }

    #[test]
    fn long_comments_are_broken_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 3), ["unbreakable"]);
    }
}
