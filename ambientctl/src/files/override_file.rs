//! Changing what a service gets from `docker-compose.override.yml`, and nothing else in that file.
//!
//! The file is its owner's: comments, order, anchors and the quoting of every other line stay as they are, since an edit
//! only puts letters in, or in the place of one value. The lossless reader says where. Afterwards the new text is read
//! again and has to mean what the old one meant plus the one change; what cannot be done that way is refused, with the
//! lines to add by hand.

use std::fmt::Write;
use std::ops::Range;

use yaml_edit::{Document, Mapping, Sequence, YamlFile, YamlNode};

use super::dotenv::is_key;
use crate::compose::node::{Data, Map, Node};
use crate::compose::yaml;

/// How a variable gets to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// `KEY: ${KEY}`: from `.env`.
    PassedOn,
    /// This very value. Never a secret: the file may be read by others.
    Literal(&'a str),
    /// Not at all, as far as this file goes.
    Gone,
}

/// Why the file was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// The file cannot be read.
    #[error("line {line}: {problem}")]
    Unreadable {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// It can be read, but not be changed without touching what stands around.
    #[error("{why}")]
    ByHand {
        /// What is in the way.
        why: &'static str,
        /// The lines to add by hand.
        lines: String,
    },
}

/// What the file says about a variable of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The name alone: the value is that of the process, or none.
    NameAlone,
    /// This text, with its references.
    Text(String),
}

/// What `text` says about a service's variable.
///
/// # Errors
/// When the text cannot be read.
pub fn found(text: &str, service: &str, key: &str) -> Result<Found, OverrideError> {
    let documents = read(text)?;
    let environment =
        documents.first().and_then(|root| root.get("services")?.get(service)?.as_map()?.get("environment"));
    Ok(environment.map_or(Found::Nothing, |environment| entry_of(environment, key)))
}

/// Whether a value gets to the service what `.env` has under the key.
pub fn refers_to(text: &str, key: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let after = &rest[at + 1..];
        let name = after.strip_prefix('{').unwrap_or(after);
        if let Some(behind) = name.strip_prefix(key)
            && !after.starts_with('$')
            && !behind.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
        {
            return true;
        }
        rest = after.strip_prefix('$').unwrap_or(after);
    }
    false
}

/// The text with the service's variable as it shall be. The same text comes back when it is so already.
///
/// # Errors
/// See [`OverrideError`]; the file is then to be left as it is.
pub fn edited(text: &str, service: &str, key: &str, entry: Entry<'_>) -> Result<String, OverrideError> {
    let by_hand = |why| OverrideError::ByHand { why, lines: lines(service, key, entry) };
    if !is_key(key) || !is_plain_name(service) {
        return Err(by_hand("the key or the service has a name that needs care in YAML"));
    }
    let old = read(text)?;
    if old.len() > 1 {
        return Err(by_hand("the file has several documents"));
    }
    let old = old.into_iter().next().unwrap_or_default();
    let wanted = changed(&old, service, key, entry)
        .ok_or_else(|| by_hand("the file has something else where the service's variables would be"))?;
    if wanted == old {
        return Ok(text.to_owned());
    }
    let place = Place { text, service, key, entry, line_end: line_end(text) };
    let (range, inserted) = place.edit(&old).map_err(by_hand)?;
    let mut new = text.to_owned();
    new.replace_range(range, &inserted);
    let read_back = yaml::documents(&new, 0).ok().filter(|documents| documents.len() == 1);
    match read_back {
        Some(documents) if documents[0] == wanted => Ok(new),
        _ => Err(by_hand("the change would alter something else in the file")),
    }
}

/// The lines that a person would add.
fn lines(service: &str, key: &str, entry: Entry<'_>) -> String {
    let value = match entry {
        Entry::PassedOn => format!("${{{key}}}"),
        Entry::Literal(value) => scalar(value, false),
        Entry::Gone => return format!("(remove `{key}` below services, {service}, environment)"),
    };
    format!("services:\n  {service}:\n    environment:\n      {key}: {value}")
}

fn read(text: &str) -> Result<Vec<Node>, OverrideError> {
    yaml::documents(text, 0)
        .map_err(|mistake| OverrideError::Unreadable { line: mistake.place.line, problem: mistake.problem })
}

fn is_plain_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

fn entry_of(environment: &Node, key: &str) -> Found {
    let said = |node: &Node| match node.printed() {
        Some(_) if node.is_null() => Found::NameAlone,
        Some(text) => Found::Text(text),
        None => Found::NameAlone,
    };
    match &environment.data {
        Data::Map(map) => map.get(key).map_or(Found::Nothing, said),
        Data::List(items) => items
            .iter()
            .rev()
            .find_map(|item| match item.as_text()?.strip_prefix(key)? {
                "" => Some(Found::NameAlone),
                rest => rest.strip_prefix('=').map(|value| Found::Text(value.to_owned())),
            })
            .unwrap_or(Found::Nothing),
        Data::Alone(inner) => entry_of(inner, key),
        _ => Found::Nothing,
    }
}

/// What the file shall mean afterwards; `None` when there is no place for it.
fn changed(old: &Node, service: &str, key: &str, entry: Entry<'_>) -> Option<Node> {
    let mut new = old.clone();
    let mut node = &mut new;
    for name in ["services", service, "environment"] {
        if node.is_null() {
            node.data = Data::Map(Map::new());
        }
        if entry == Entry::Gone && node.as_map().is_some_and(|map| !map.contains_key(name)) {
            return Some(old.clone());
        }
        node = node.as_map_mut()?.entry(name.to_owned()).or_default();
    }
    let node = if matches!(node.data, Data::Alone(_)) {
        let Data::Alone(inner) = &mut node.data else { return None };
        &mut **inner
    } else {
        node
    };
    if node.is_null() {
        if entry == Entry::Gone {
            return Some(old.clone());
        }
        node.data = Data::Map(Map::new());
    }
    let value = match entry {
        Entry::PassedOn => Some(format!("${{{key}}}")),
        Entry::Literal(value) => Some(value.replace('$', "$$")),
        Entry::Gone => None,
    };
    match &mut node.data {
        Data::Map(map) => match value {
            Some(value) => {
                let entry = map.entry(key.to_owned()).or_default();
                // A number that prints as it should is left as it is.
                if entry.is_null() || entry.printed().as_deref() != Some(value.as_str()) {
                    entry.data = Data::Text(value);
                }
            }
            None => {
                map.shift_remove(key);
            }
        },
        Data::List(items) => {
            let is_it = |item: &Node| {
                item.as_text()
                    .and_then(|text| text.strip_prefix(key))
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            };
            match value {
                Some(value) => {
                    let pair = format!("{key}={value}");
                    match items.iter_mut().rev().find(|item| is_it(item)) {
                        Some(item) => item.data = Data::Text(pair),
                        None => items.push(Node::text(crate::compose::node::Place::default(), pair)),
                    }
                }
                None => items.retain(|item| !is_it(item)),
            }
        }
        _ => return None,
    }
    Some(new)
}

/// A value as it is written: plain where that is safe, else in double quotes, with dollars that stay dollars.
fn scalar(value: &str, in_flow: bool) -> String {
    let safe =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '/' | '-' | ':' | '@' | '+');
    let word = value.to_ascii_lowercase();
    let means_something = matches!(
        word.as_str(),
        "" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "nan" | "inf"
    );
    let plain = value.starts_with(|first: char| first.is_ascii_alphabetic())
        && value.chars().all(safe)
        && !value.ends_with(':')
        && !(in_flow && value.contains(':'))
        && !means_something;
    if plain {
        return value.to_owned();
    }
    quoted(&value.replace('$', "$$"))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            _ if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                write!(quoted, "\\u{:04X}", u32::from(letter)).expect("a String takes whatever is written");
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Where a change goes.
struct Place<'a> {
    text: &'a str,
    service: &'a str,
    key: &'a str,
    entry: Entry<'a>,
    line_end: &'static str,
}

type Edit = (Range<usize>, String);
type Refused = &'static str;

impl Place<'_> {
    fn edit(&self, old: &Node) -> Result<Edit, Refused> {
        if old.is_null() {
            if self.text.lines().any(|line| line.starts_with("---") || line.starts_with("...")) {
                return Err("the file marks a document that is empty");
            }
            return Ok(self.at_end(&["services", self.service, "environment"]));
        }
        let parsed = YamlFile::parse(self.text);
        let document = parsed.tree().documents().next().ok_or("the file has no document")?;
        let root = root(&document)?;
        let mut holder = root;
        let mut steps = vec!["services", self.service, "environment"];
        let mut outer_indent = None;
        while !steps.is_empty() {
            let name = steps.remove(0);
            let indent = self.column_of_first(&holder);
            let Some((key, value)) = entry(&holder, name) else {
                steps.insert(0, name);
                return self.add_to_mapping(&holder, &steps, indent, outer_indent);
            };
            let value = untagged(value);
            match value {
                YamlNode::Mapping(mapping) if steps.is_empty() => return self.in_mapping(&mapping),
                YamlNode::Sequence(sequence) if steps.is_empty() => return self.in_list(&sequence),
                YamlNode::Mapping(mapping) => {
                    outer_indent = indent;
                    holder = mapping;
                }
                YamlNode::Scalar(scalar) if scalar.byte_range().start == scalar.byte_range().end => {
                    let indent = indent.ok_or("an empty key stands inside braces")?;
                    return self.below_empty(&key, &steps, indent);
                }
                YamlNode::Alias(_) => return Err("an alias stands where the service's variables are"),
                _ => return Err("the file has something else where the service's variables would be"),
            }
        }
        Err("the file has no place for the service's variables")
    }

    /// The value, plain or quoted as its surroundings need it.
    fn value(&self, in_flow: bool) -> String {
        match self.entry {
            Entry::PassedOn if in_flow => quoted(&format!("${{{}}}", self.key)),
            Entry::PassedOn => format!("${{{}}}", self.key),
            Entry::Literal(value) => scalar(value, in_flow),
            Entry::Gone => String::new(),
        }
    }

    fn pair(&self, in_flow: bool) -> String {
        match self.entry {
            Entry::PassedOn if !in_flow => format!("{0}=${{{0}}}", self.key),
            Entry::PassedOn => quoted(&format!("{0}=${{{0}}}", self.key)),
            Entry::Literal(value) => {
                let plain = scalar(value, in_flow);
                if plain == value {
                    format!("{}={plain}", self.key)
                } else {
                    quoted(&format!("{}={}", self.key, value.replace('$', "$$")))
                }
            }
            Entry::Gone => String::new(),
        }
    }

    /// `names` and the entry, each a level deeper, as lines.
    fn nested(&self, names: &[&str], indent: usize, step: usize) -> String {
        let mut lines = String::new();
        for (level, name) in names.iter().enumerate() {
            write!(lines, "{}{name}:{}", " ".repeat(indent + level * step), self.line_end)
                .expect("a String takes whatever is written");
        }
        let indent = indent + names.len() * step;
        write!(lines, "{}{}: {}{}", " ".repeat(indent), self.key, self.value(false), self.line_end)
            .expect("a String takes whatever is written");
        lines
    }

    /// The same in braces.
    fn nested_in_braces(&self, names: &[&str]) -> String {
        let mut inside = format!("{}: {}", self.key, self.value(true));
        for name in names.iter().rev() {
            inside = format!("{name}: {{{inside}}}");
        }
        inside
    }

    fn at_end(&self, names: &[&str]) -> Edit {
        let missing = if self.text.is_empty() || self.text.ends_with('\n') || self.text == "\u{feff}" {
            ""
        } else {
            self.line_end
        };
        (self.text.len()..self.text.len(), format!("{missing}{}", self.nested(names, 0, 2)))
    }

    /// Behind the last entry of a mapping.
    fn add_to_mapping(
        &self,
        mapping: &Mapping,
        names: &[&str],
        indent: Option<usize>,
        outer: Option<usize>,
    ) -> Result<Edit, Refused> {
        let Some(indent) = indent else { return self.add_to_braces(mapping, &self.nested_in_braces(names)) };
        let step = outer.map_or(2, |outer| indent - outer).max(1);
        Ok(self.behind(mapping.byte_range().end as usize, &self.nested(names, indent, step)))
    }

    /// Whole lines, at a place that is the end of a line.
    fn behind(&self, end: usize, lines: &str) -> Edit {
        // What is there may be the last line, without its end; or the reader may stop before a comment on the line.
        let rest = &self.text[end..];
        let at_line_start = end == 0 || self.text[..end].ends_with('\n');
        if at_line_start {
            return (end..end, lines.to_owned());
        }
        match rest.find('\n') {
            Some(line) => (end + line + 1..end + line + 1, lines.to_owned()),
            None => (self.text.len()..self.text.len(), format!("{}{lines}", self.line_end)),
        }
    }

    fn add_to_braces(&self, mapping: &Mapping, inside: &str) -> Result<Edit, Refused> {
        let last = mapping.entries().last().and_then(|entry| entry.value_node());
        self.add_to_brackets(mapping.byte_range().start as usize, last, inside)
    }

    fn add_to_brackets(&self, start: usize, last: Option<YamlNode>, inside: &str) -> Result<Edit, Refused> {
        if !self.text[start..].starts_with(['{', '[']) {
            return Err("the file's brackets stand where they are not looked for");
        }
        match last {
            Some(last) => {
                let end = last.byte_range().end as usize;
                Ok((end..end, format!(", {inside}")))
            }
            None => Ok((start + 1..start + 1, inside.to_owned())),
        }
    }

    /// Below a key that has nothing behind it.
    fn below_empty(&self, key: &YamlNode, names: &[&str], indent: usize) -> Result<Edit, Refused> {
        let after = key.byte_range().end as usize;
        let line = self.text[after..].split('\n').next().unwrap_or_default();
        let behind_colon = line.trim_start().strip_prefix(':').ok_or("a key stands in an unusual way")?.trim();
        if !behind_colon.is_empty() && !behind_colon.starts_with('#') {
            return Err("a key has an anchor or a tag and nothing else behind it");
        }
        Ok(self.behind(after, &self.nested(names, indent + 2, 2)))
    }

    fn in_mapping(&self, mapping: &Mapping) -> Result<Edit, Refused> {
        let indent = self.column_of_first(mapping);
        let Some((key, value)) = entry(mapping, self.key) else {
            return match indent {
                Some(indent) => {
                    let line = format!("{}{}: {}{}", " ".repeat(indent), self.key, self.value(false), self.line_end);
                    Ok(self.behind(mapping.byte_range().end as usize, &line))
                }
                None => self.add_to_braces(mapping, &format!("{}: {}", self.key, self.value(true))),
            };
        };
        if self.entry == Entry::Gone {
            let Some(_) = indent else { return Err("the key stands inside braces") };
            if mapping.entries().count() == 1 {
                return Err("the key is the only one of its mapping");
            }
            return self.whole_line(&key, &value);
        }
        let YamlNode::Scalar(scalar) = &value else { return Err("the key has more than a plain value") };
        let range = scalar.byte_range();
        let (start, end) = (range.start as usize, range.end as usize);
        let written = self.value(indent.is_none());
        if start == end {
            let colon = self.text[key.byte_range().end as usize..].find(':').ok_or("a key stands without a colon")?;
            let at = key.byte_range().end as usize + colon + 1;
            return Ok((at..at, format!(" {written}")));
        }
        if scalar.is_block() || self.text[start..end].contains('\n') {
            return Err("the value goes over several lines");
        }
        Ok((start..end, written))
    }

    fn in_list(&self, list: &Sequence) -> Result<Edit, Refused> {
        let is_flow = list.is_flow_style();
        let items: Vec<YamlNode> = list.values().collect();
        let found = items.iter().rev().find(|item| {
            let text = item.as_scalar().map(yaml_edit::Scalar::as_string).unwrap_or_default();
            text.strip_prefix(self.key).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        });
        let Some(found) = found else {
            if is_flow {
                return self.add_to_brackets(
                    list.byte_range().start as usize,
                    items.into_iter().last(),
                    &self.pair(true),
                );
            }
            let start = list.byte_range().start as usize;
            let column = start - self.text[..start].rfind('\n').map_or(0, |at| at + 1);
            let line = format!("{}- {}{}", " ".repeat(column), self.pair(false), self.line_end);
            return Ok(self.behind(list.byte_range().end as usize, &line));
        };
        if self.entry == Entry::Gone {
            if is_flow || items.len() == 1 {
                return Err("the key stands inside brackets, or is the only one of its list");
            }
            return self.whole_line(found, found);
        }
        let range = found.byte_range();
        let (start, end) = (range.start as usize, range.end as usize);
        if self.text[start..end].contains('\n') {
            return Err("the value goes over several lines");
        }
        Ok((start..end, self.pair(is_flow)))
    }

    /// The line of an entry, with its comment and its end.
    fn whole_line(&self, first: &YamlNode, last: &YamlNode) -> Result<Edit, Refused> {
        let (start, end) = (first.byte_range().start as usize, last.byte_range().end as usize);
        let start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let end = self.text[end..].find('\n').map_or(self.text.len(), |at| end + at + 1);
        if self.text[start..end].trim_end().contains('\n') {
            return Err("the value goes over several lines");
        }
        Ok((start..end, String::new()))
    }

    /// How far its first key is indented; `None` for one in braces.
    fn column_of_first(&self, mapping: &Mapping) -> Option<usize> {
        if mapping.is_flow_style() {
            return None;
        }
        let key = mapping.entries().next()?.key_node()?;
        let start = key.byte_range().start as usize;
        let line = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let before = self.text[line..start].strip_prefix('\u{feff}').unwrap_or(&self.text[line..start]);
        before.bytes().all(|byte| byte == b' ').then_some(before.len())
    }
}

fn root(document: &Document) -> Result<Mapping, Refused> {
    document.as_mapping().ok_or("the file is no mapping")
}

fn entry(mapping: &Mapping, name: &str) -> Option<(YamlNode, YamlNode)> {
    mapping.entries().find_map(|entry| {
        let (key, value) = (entry.key_node()?, entry.value_node()?);
        (key.as_scalar()?.as_string() == name).then_some((key, value))
    })
}

/// What stands behind `!override`.
fn untagged(node: YamlNode) -> YamlNode {
    let YamlNode::TaggedNode(tagged) = &node else { return node };
    if let Some(mapping) = tagged.as_mapping() {
        YamlNode::Mapping(mapping)
    } else if let Some(sequence) = tagged.as_sequence() {
        YamlNode::Sequence(sequence)
    } else {
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, entry: Entry<'_>, expected: &str) {
        assert_eq!(edited(text, "engine", "KEY", entry).unwrap(), expected, "from:\n{text}");
    }

    const NESTED: &str = "services:\n  engine:\n    environment:\n      KEY: ${KEY}\n";

    #[test]
    fn a_file_that_is_not_there_or_says_nothing_gets_the_lines() {
        check("", Entry::PassedOn, NESTED);
        check("# mine\n", Entry::PassedOn, &format!("# mine\n{NESTED}"));
        check("# mine", Entry::PassedOn, &format!("# mine\n{NESTED}"));
        check("services: {}\n", Entry::PassedOn, "services: {engine: {environment: {KEY: \"${KEY}\"}}}\n");
        check("services:\n", Entry::PassedOn, NESTED);
        check("x-a: 1\n", Entry::PassedOn, &format!("x-a: 1\n{NESTED}"));
        check("{}\n", Entry::PassedOn, "{services: {engine: {environment: {KEY: \"${KEY}\"}}}}\n");
    }

    #[test]
    fn an_entry_is_added_behind_the_others() {
        check(
            "# head\nservices:\n    engine: # the engine\n        environment:\n            A: 1 # one\n            # end of it\n\n    other:\n        image: x\n",
            Entry::PassedOn,
            "# head\nservices:\n    engine: # the engine\n        environment:\n            A: 1 # one\n            KEY: ${KEY}\n            # end of it\n\n    other:\n        image: x\n",
        );
        check(
            "services:\n  engine:\n    environment:\n    - A=1\n    - B\n    ports: []\n",
            Entry::PassedOn,
            "services:\n  engine:\n    environment:\n    - A=1\n    - B\n    - KEY=${KEY}\n    ports: []\n",
        );
        check(
            "services:\n  engine:\n    environment: {A: 1}\n",
            Entry::PassedOn,
            "services:\n  engine:\n    environment: {A: 1, KEY: \"${KEY}\"}\n",
        );
        check(
            "services:\n  engine:\n    environment: [A=1]\n",
            Entry::PassedOn,
            "services:\n  engine:\n    environment: [A=1, \"KEY=${KEY}\"]\n",
        );
        check(
            "services:\n  engine:\n    environment:\n    image: x",
            Entry::PassedOn,
            "services:\n  engine:\n    environment:\n      KEY: ${KEY}\n    image: x",
        );
        check(
            "services:\n  engine:\n    image: x",
            Entry::PassedOn,
            "services:\n  engine:\n    image: x\n    environment:\n      KEY: ${KEY}\n",
        );
        check(
            "services:\r\n  other:\r\n    image: x\r\n",
            Entry::PassedOn,
            "services:\r\n  other:\r\n    image: x\r\n  engine:\r\n    environment:\r\n      KEY: ${KEY}\r\n",
        );
    }

    #[test]
    fn a_value_is_changed_where_it_stands() {
        let around =
            |value: &str| format!("services:\n  engine:\n    environment:\n      KEY: {value} # why\n      B: \"2\"\n");
        check(&around("e2b"), Entry::Literal("inprocess"), &around("inprocess"));
        check(&around("'e2b'"), Entry::Literal("pa$s: #x"), &around("\"pa$$s: #x\""));
        check(&around("e2b"), Entry::PassedOn, &around("${KEY}"));
        check(&around("${KEY}"), Entry::PassedOn, &around("${KEY}"));
        check(&around("e2b"), Entry::Gone, "services:\n  engine:\n    environment:\n      B: \"2\"\n");
        check(
            "services: {engine: {environment: {KEY: }}}\n",
            Entry::PassedOn,
            "services: {engine: {environment: {KEY: \"${KEY}\" }}}\n",
        );
        check(
            "services:\n  engine:\n    environment:\n      - KEY\n      - B=1\n",
            Entry::PassedOn,
            "services:\n  engine:\n    environment:\n      - KEY=${KEY}\n      - B=1\n",
        );
        check(
            "services:\n  engine:\n    environment: !override\n      A: 1\n",
            Entry::PassedOn,
            "services:\n  engine:\n    environment: !override\n      A: 1\n      KEY: ${KEY}\n",
        );
        check("x: &e {KEY: a}\n", Entry::Gone, "x: &e {KEY: a}\n");
    }

    #[test]
    fn what_cannot_be_done_safely_is_refused_with_the_lines_to_add() {
        for text in [
            "x: &e {A: 1}\nservices:\n  engine:\n    environment: *e\n",
            "services:\n  engine:\n    environment:\n      A: &a 1\n      KEY: |\n        x\n        y\n",
            "a: 1\n---\nservices: {}\n",
            "services: [1]\n",
            "- 1\n",
            "services:\n  engine:\n    environment:\n      KEY: &k one\n      B: *k\n",
        ] {
            match edited(text, "engine", "KEY", Entry::PassedOn) {
                Err(OverrideError::ByHand { lines, .. }) => assert_eq!(format!("{lines}\n"), NESTED),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(matches!(edited("a: [\n", "engine", "KEY", Entry::PassedOn), Err(OverrideError::Unreadable { .. })));
    }

    #[test]
    fn references_are_told_from_other_text() {
        for text in ["${KEY}", "$KEY", "a${KEY:-x}b", "${KEY:?why}", "$$$KEY"] {
            assert!(refers_to(text, "KEY"), "{text}");
        }
        for text in ["", "KEY", "$$KEY", "${KEYS}", "$KEY_2", "$$${OTHER}"] {
            assert!(!refers_to(text, "KEY"), "{text}");
        }
        let text = "services:\n  engine:\n    environment:\n      - A=$A\n      - B\n";
        assert_eq!(found(text, "engine", "A").unwrap(), Found::Text("$A".to_owned()));
        assert_eq!(found(text, "engine", "B").unwrap(), Found::NameAlone);
        assert_eq!(found(text, "engine", "C").unwrap(), Found::Nothing);
    }
}
