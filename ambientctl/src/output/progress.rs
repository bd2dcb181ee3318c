//! What goes on while a command waits: a table on a terminal, a line for each change elsewhere. Always on stderr.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::Printer;

/// What every subject was last said to be, and its line of the table.
#[derive(Default)]
struct Subject {
    state: String,
    bar: Option<ProgressBar>,
}

/// Shows what goes on.
pub struct Progress {
    printer: Printer,
    table: Option<MultiProgress>,
    subjects: Mutex<BTreeMap<String, Subject>>,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Progress").field("live", &self.table.is_some()).finish_non_exhaustive()
    }
}

impl Progress {
    /// Live on a terminal, unless `--quiet` or `--json` was said.
    pub fn new(printer: Printer) -> Self {
        let is_live = !printer.quiet && !printer.json && io::stderr().is_terminal();
        Self { printer, table: is_live.then(MultiProgress::new), subjects: Mutex::default() }
    }

    /// A subject is in this state now. The same state again says nothing.
    pub fn say(&self, subject: &str, state: &str) {
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        let known = subjects.entry(subject.to_owned()).or_default();
        if known.state == state {
            return;
        }
        state.clone_into(&mut known.state);
        let Some(table) = &self.table else {
            self.printer.note(&format!("{subject}: {state}"));
            return;
        };
        let bar = known.bar.get_or_insert_with(|| {
            let bar = table.add(ProgressBar::new_spinner().with_style(line_style("  {prefix:<24} {msg}")));
            bar.set_prefix(subject.to_owned());
            bar
        });
        bar.set_message(state.to_owned());
        bar.tick();
    }

    /// How far a layer of an image is. Only on a terminal: elsewhere it would be thousands of lines.
    pub fn layer(&self, layer: &str, status: &str, current: u64, total: u64) {
        let Some(table) = &self.table else { return };
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        let known = subjects.entry(format!("layer {layer}")).or_default();
        let bar = known.bar.get_or_insert_with(|| {
            let bar = table.add(ProgressBar::new(total.max(1)));
            bar.set_style(line_style("    {prefix:<12} {wide_bar} {bytes:>10}/{total_bytes:<10} {msg}"));
            bar.set_prefix(layer.to_owned());
            bar
        });
        if total > 0 {
            bar.set_length(total);
            bar.set_position(current);
        }
        bar.set_message(status.to_owned());
        if status.starts_with("Pull complete") || status.starts_with("Already exists") {
            bar.finish_and_clear();
        }
    }

    /// Leaves the last state of everything standing.
    pub fn finish(&self) {
        let subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, subject) in subjects.iter() {
            if let Some(bar) = &subject.bar {
                if name.starts_with("layer ") {
                    bar.finish_and_clear();
                } else {
                    bar.abandon();
                }
            }
        }
    }
}

fn line_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is ours and is right")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_remembered_and_every_template_is_right() {
        let progress = Progress {
            printer: Printer { json: false, quiet: true },
            table: Some(MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::hidden())),
            subjects: Mutex::default(),
        };
        progress.say("engine", "starting");
        progress.say("engine", "healthy");
        progress.layer("abc", "Downloading", 5, 10);
        progress.layer("abc", "Pull complete", 0, 0);
        progress.finish();
        let subjects = progress.subjects.lock().unwrap();
        assert_eq!(subjects["engine"].state, "healthy");
        assert_eq!(subjects.len(), 2);
    }
}
