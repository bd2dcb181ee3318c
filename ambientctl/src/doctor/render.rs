//! A report as text for people, and as a document for programs.

use serde_json::{Value, json};

use super::finding::{Finding, Level};
use super::report::Report;

/// How wide text is where nobody says.
const USUAL_WIDTH: usize = 100;
/// Narrower than this, lines are not broken any further.
const LEAST_WIDTH: usize = 40;
/// What stands in front of the lines below a finding.
const INDENT: &str = "    ";

/// How a report looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Whether signs and words have colours. Meaning never hangs on them.
    pub is_coloured: bool,
    /// The width of the terminal, where there is one.
    pub width: Option<usize>,
    /// Whether what is well and what was skipped is left out.
    pub is_quiet: bool,
}

/// The report for people: a line for each finding, and below a fault why it matters and what mends it.
pub fn text(report: &Report, look: Look) -> String {
    let mut lines = vec![format!("looking at {}", report.subject)];
    for finding in &report.findings {
        if look.is_quiet && finding.level <= Level::Skipped {
            continue;
        }
        show(finding, look, &mut lines);
    }
    lines.push(summary(report, look));
    lines.join("\n")
}

fn show(finding: &Finding, look: Look, lines: &mut Vec<String>) {
    let sign = sign(finding.level, look.is_coloured);
    let name = finding.check();
    let head = format!("{name:<13}");
    let seen = wrapped(&finding.seen, look.width, 2 + 13);
    let mut seen = seen.into_iter();
    let first = seen.next().unwrap_or_default();
    lines.push(format!("{sign} {}{first}", bold(&head, finding.level, look.is_coloured)).trim_end().to_owned());
    lines.extend(seen.map(|line| format!("{:15}{line}", "")));
    if !finding.why.is_empty() {
        let broken = wrapped(&finding.why, look.width, INDENT.len() + 5);
        lines.extend(labelled("why", broken, look.is_coloured));
    }
    if let Some(remedy) = &finding.remedy {
        let how = if remedy.how == "run" { Vec::new() } else { wrapped(&remedy.how, look.width, INDENT.len() + 5) };
        if how.is_empty() {
            // What is to be pasted is never broken.
            lines.push(format!("{INDENT}{} {}", label("fix", look.is_coloured), remedy.paste));
        } else {
            lines.extend(labelled("fix", how, look.is_coloured));
            lines.push(format!("{INDENT}     {}", remedy.paste));
        }
    }
}

fn labelled(word: &str, broken: Vec<String>, is_coloured: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, line) in broken.into_iter().enumerate() {
        let front = if number == 0 { label(word, is_coloured) } else { " ".repeat(4) };
        lines.push(format!("{INDENT}{front} {line}"));
    }
    lines
}

fn label(word: &str, is_coloured: bool) -> String {
    let padded = format!("{word:<4}");
    if is_coloured { format!("\u{1b}[2m{padded}\u{1b}[0m") } else { padded }
}

fn sign(level: Level, is_coloured: bool) -> String {
    let (sign, colour) = match level {
        Level::Ok => ("✓", "32"),
        Level::Skipped => ("-", "2"),
        Level::Warning => ("!", "33"),
        Level::Failure => ("✗", "31"),
    };
    if is_coloured { format!("\u{1b}[{colour}m{sign}\u{1b}[0m") } else { sign.to_owned() }
}

fn bold(text: &str, level: Level, is_coloured: bool) -> String {
    if is_coloured && level >= Level::Warning { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

fn summary(report: &Report, look: Look) -> String {
    let count = |level: Level| report.count(level);
    let plural =
        |number: usize, word: &str| if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") };
    let mut text = format!(
        "{}, {}, {} well, {} not looked at",
        plural(count(Level::Failure), "failure"),
        plural(count(Level::Warning), "warning"),
        count(Level::Ok),
        count(Level::Skipped)
    );
    if report.findings.iter().any(|finding| finding.fix.is_some()) {
        text.push_str("; `--fix` mends what can be mended safely");
    }
    wrapped(&text, look.width, 0).join("\n")
}

/// Text broken at blanks, so that it fits behind `taken` columns. Words that are longer stay whole.
fn wrapped(text: &str, width: Option<usize>, taken: usize) -> Vec<String> {
    let width = width.unwrap_or(USUAL_WIDTH).max(LEAST_WIDTH).saturating_sub(taken).max(LEAST_WIDTH / 2);
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The report for programs: one document of a stable shape.
pub fn json(report: &Report) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "id": finding.id,
                "check": finding.check(),
                "level": finding.level.word(),
                "seen": finding.seen,
                "why": finding.why,
                "remedy": finding.remedy.as_ref().map(|remedy| json!({ "how": remedy.how, "paste": remedy.paste })),
                "fixable": finding.fix.is_some(),
            })
        })
        .collect();
    json!({
        "clean": report.is_clean(),
        "subject": report.subject,
        "failures": report.count(Level::Failure),
        "warnings": report.count(Level::Warning),
        "findings": findings,
    })
}
