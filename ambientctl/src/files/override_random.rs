//! Thousands of overrides as people write them, each changed in one place.

use std::fmt::Write;

use super::override_file::{Entry, Found, OverrideError, edited, found};

/// Numbers that look like chance and are the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % sides
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.roll(of.len())]
    }
}

const COMMENTS: [&str; 6] = ["", "", " # note", "  # a: b", " # 'quoted", " #"];
const VALUES: [&str; 12] = [
    "one",
    "\"two # 2\"",
    "'it''s'",
    "${X}",
    "5",
    "true",
    "a b c",
    "https://h/p?a=1#f",
    "\"a\\\"b\"",
    "'{x}'",
    "~",
    "\"\"",
];

fn pairs(dice: &mut Dice, indent: &str, as_list: bool) -> String {
    let mut text = String::new();
    for name in ["FIRST", "KEY", "OTHER", "LAST"] {
        if dice.roll(3) == 0 && name != "FIRST" {
            continue;
        }
        if dice.roll(6) == 0 {
            text.push_str(dice.one(&[
                "\n",
                &format!("{indent}# between\n"),
                "# at the margin\n",
                &format!("{indent}    # deep\n"),
            ]));
        }
        let value = dice.one(&VALUES);
        let comment = dice.one(&COMMENTS);
        if as_list {
            let pair = match dice.roll(4) {
                0 => name.to_owned(),
                1 => format!("\"{name}=x y\""),
                _ => format!("{name}=value"),
            };
            writeln!(text, "{indent}- {pair}{comment}").expect("a String takes whatever is written");
        } else if dice.roll(12) == 0 && name != "KEY" {
            writeln!(text, "{indent}{name}: |\n{indent}  line: 1\n{indent}  # no comment")
                .expect("a String takes whatever is written");
        } else {
            let quote = if dice.roll(8) == 0 { "\"" } else { "" };
            writeln!(text, "{indent}{quote}{name}{quote}: {value}{comment}")
                .expect("a String takes whatever is written");
        }
    }
    text
}

fn environment(dice: &mut Dice, indent: usize, step: usize) -> String {
    let own = " ".repeat(indent);
    let inner = " ".repeat(indent + step);
    let comment = dice.one(&COMMENTS);
    match dice.roll(10) {
        0 => format!("{own}environment:{comment}\n"),
        1 => format!("{own}environment: {{A: 1, B: \"x\"}}{comment}\n"),
        2 => format!("{own}environment: [A=1, \"KEY=2\"]{comment}\n"),
        3 => format!("{own}environment: {{}}{comment}\n"),
        4 => format!("{own}environment: !override{comment}\n{}", pairs(dice, &inner, false)),
        5 => format!("{own}environment: &anchor{comment}\n{}", pairs(dice, &inner, false)),
        6 => format!("{own}environment:{comment}\n{}", pairs(dice, &own, true)),
        7 => format!("{own}environment:{comment}\n{}", pairs(dice, &inner, true)),
        8 => String::new(),
        _ => format!("{own}environment:{comment}\n{}", pairs(dice, &inner, false)),
    }
}

fn file(dice: &mut Dice) -> String {
    let step = 2 + 2 * dice.roll(2);
    let service = " ".repeat(step);
    let key = " ".repeat(2 * step);
    let other = |dice: &mut Dice| match dice.roll(4) {
        0 => format!("{service}db:\n{key}image: postgres:16 # pinned\n{key}environment:\n{key}  KEY: not this one\n"),
        1 => format!("{service}cache: {{image: redis, command: [a, \"b\"]}}\n\n"),
        2 => format!("{service}# nothing here\n"),
        _ => String::new(),
    };
    let mut text = dice
        .one(&["", "# head\n", "# head\n\n", "---\n", "\u{feff}", "x-a: &a\n  b: [1, 'two']\n", "name: \"my-app\"\n"])
        .to_owned();
    if dice.roll(12) == 0 {
        return text.replace("---\n", "");
    }
    writeln!(text, "services:{}", dice.one(&COMMENTS)).expect("a String takes whatever is written");
    let before = other(dice);
    text.push_str(&before);
    let engine = dice.roll(8);
    if engine == 0 && !before.contains("image") {
        writeln!(text, "{service}filler:\n{key}image: x").expect("a String takes whatever is written");
    }
    if engine != 0 {
        writeln!(text, "{service}{}:{}", dice.one(&["engine", "engine", "\"engine\""]), dice.one(&COMMENTS))
            .expect("a String takes whatever is written");
        if dice.roll(2) == 0 {
            writeln!(text, "{key}image: \"ambient:1\"{}", dice.one(&COMMENTS))
                .expect("a String takes whatever is written");
        }
        let variables = environment(dice, 2 * step, step);
        let bare = variables.is_empty();
        text.push_str(&variables);
        if bare || dice.roll(2) == 0 {
            writeln!(text, "{key}ports:\n{key}  - '8080:80' # web").expect("a String takes whatever is written");
        }
    }
    // No service stands there twice.
    text.push_str(&other(dice).replace("db:", "db-after:").replace("cache:", "cache-after:"));
    if dice.roll(3) == 0 {
        text.push_str("volumes:\n  data: {}\n");
    }
    text.push_str(dice.one(&["", "", "# tail\n", "\n", "\n# tail\n"]));
    if dice.roll(5) == 0 {
        text = text.replace('\n', "\r\n");
    }
    if dice.roll(5) == 0 {
        text.truncate(text.trim_end().len());
    }
    text
}

/// The lines that are in one text and not, at their turn, in the other.
fn lines_gone(old: &str, new: &str) -> Vec<String> {
    let mut rest = new.lines();
    let mut gone = Vec::new();
    for line in old.lines() {
        let mut ahead = rest.clone();
        if ahead.any(|other| other == line) {
            rest = ahead;
        } else {
            gone.push(line.to_owned());
        }
    }
    gone
}

#[test]
fn thousands_of_edits_leave_every_other_line_as_it_was() {
    edits_leave_every_other_line_as_it_was(0..1_250);
}

/// In two halves, so that two processors share the work.
#[test]
fn thousands_more_leave_every_other_line_as_it_was() {
    edits_leave_every_other_line_as_it_was(1_250..2_500);
}

fn edits_leave_every_other_line_as_it_was(seeds: std::ops::Range<u64>) {
    let (mut done, mut refused) = (0, Vec::new());
    for seed in seeds {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        let key = dice.one(&["KEY", "LLM_MODEL", "_", "a1", "E2B_API_KEY", "FIRS", "FIRST_", "Y"]);
        let text = file(&mut dice).replace("KEY", key);
        let entry = [Entry::PassedOn, Entry::Literal("it's $5: #x"), Entry::Gone][dice.roll(3)];
        let new = match edited(&text, "engine", key, entry) {
            Ok(new) => new,
            Err(OverrideError::ByHand { why, .. }) => {
                // Taking the only entry away would leave something that means another thing.
                if entry != Entry::Gone {
                    refused.push(format!("{why}:\n{text}"));
                }
                continue;
            }
            Err(error) => panic!("seed {seed}: {error}\n{text}"),
        };
        done += 1;
        let expected = match entry {
            Entry::PassedOn => Found::Text(format!("${{{key}}}")),
            Entry::Literal(_) => Found::Text("it's $$5: #x".to_owned()),
            Entry::Gone => Found::Nothing,
        };
        assert_eq!(
            found(&new, "engine", key).expect("what was edited can be read"),
            expected,
            "seed {seed}:\n{text}\nbecame:\n{new}"
        );
        // At most the one line that holds the key, or the brackets that it went into.
        let gone = lines_gone(&text, &new);
        assert!(gone.len() <= 1, "seed {seed}: {gone:?}\n{text}\nbecame:\n{new}");
        // A first line that is nothing but a byte order mark becomes the first line of what was added.
        for line in gone.iter().filter(|line| *line != "\u{feff}") {
            assert!(line.contains(key) || line.contains(['{', '[']), "seed {seed}: {line}\n{text}\nbecame:\n{new}");
        }
        if entry != Entry::Gone && text.contains('\n') {
            assert_eq!(text.contains("\r\n"), new.contains("\r\n"), "seed {seed}");
            assert_eq!(
                new.matches('\n').count(),
                new.matches(if text.contains("\r\n") { "\r\n" } else { "\n" }).count(),
                "seed {seed}"
            );
        }
        assert_eq!(
            edited(&new, "engine", key, entry).expect("what was edited can be edited"),
            new,
            "seed {seed}: a second time"
        );
    }
    assert!(done > 900, "only {done} were done");
    assert!(refused.len() < 50, "{} refused, such as {}", refused.len(), refused[0]);
}
