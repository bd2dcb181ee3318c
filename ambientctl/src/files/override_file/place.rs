//! Where in an override a change goes, and how it is written there so that it fits in.

use std::fmt::Write;
use std::ops::Range;

use yaml_edit::{Document, Mapping, Sequence, YamlFile, YamlNode};

use super::Entry;
use super::scalar::{quoted, scalar};
use crate::compose::node::Node;

/// Where a change goes.
pub(super) struct Place<'a> {
    pub(super) text: &'a str,
    pub(super) service: &'a str,
    pub(super) key: &'a str,
    pub(super) entry: Entry<'a>,
    pub(super) line_end: &'static str,
}

/// Bytes to replace, and what comes there.
pub(super) type Edit = (Range<usize>, String);
/// What is in the way.
pub(super) type Refused = &'static str;

impl Place<'_> {
    /// Finds the place; `old` is what the file means.
    pub(super) fn edit(&self, old: &Node) -> Result<Edit, Refused> {
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
