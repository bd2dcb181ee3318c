//! Reading the text of a compose file into the untyped tree.
//!
//! Two readers look at every file. The lossless one gives the tree, since it alone knows which scalars are in quotes and on
//! which line each stands; the strict one decides whether the text is YAML at all, and has to find the same tree in it. A
//! text that the two understand differently is refused.

use serde::Deserialize;
use yaml_edit::{AnchorRegistry, Document, YamlFile, YamlNode};

use super::error::Mistake;
use super::node::{Data, Map, Node, Place};
use super::scalar;

/// How many values a file may have once its aliases are written out: far above any stack, far below what a text of a few
/// lines can ask for.
const MOST_VALUES: usize = 100_000;

/// How deep a file may nest.
const DEEPEST: usize = 64;

/// The documents of a file, which Compose merges in turn. A file of comments only has none.
pub(crate) fn documents(text: &str, file: usize) -> Result<Vec<Node>, Mistake> {
    let strict = strict(text, file);
    let documents = lossless(text, file)?;
    let strict = strict?;
    if documents.iter().all(Node::is_null) && strict.iter().all(serde_yaml::Value::is_null) {
        return Ok(documents);
    }
    let same = documents.len() == strict.len()
        && documents.iter().zip(&strict).all(|(lossless, strict)| agree(lossless, strict));
    if same {
        Ok(documents)
    } else {
        let place = Place { file, line: 1 };
        Err(Mistake::new(place, "", "two YAML readers understand this file differently; write it in a simpler style"))
    }
}

fn lossless(text: &str, file: usize) -> Result<Vec<Node>, Mistake> {
    let parsed = YamlFile::parse(text);
    if let Some(error) = parsed.positioned_errors().first() {
        let place = Place { file, line: line_of(text, error.range.start as usize) };
        return Err(Mistake::new(place, "", &error.message));
    }
    let mut reader = Reader { text, file, values: 0, anchors: AnchorRegistry::new() };
    let mut documents = Vec::new();
    for document in parsed.tree().documents() {
        reader.anchors = AnchorRegistry::from_document(&document);
        documents.push(reader.document(&document)?);
    }
    Ok(documents)
}

fn strict(text: &str, file: usize) -> Result<Vec<serde_yaml::Value>, Mistake> {
    // A byte order mark is no part of the text; this reader would count it as indentation.
    serde_yaml::Deserializer::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
        .map(|document| {
            let mut value = serde_yaml::Value::deserialize(document)?;
            value.apply_merge()?;
            Ok(value)
        })
        .collect::<Result<_, serde_yaml::Error>>()
        .map_err(|error| {
            let line = error.location().map_or(1, |location| location.line());
            Mistake::new(Place { file, line }, "", without_location(&error.to_string()))
        })
}

/// The message alone: where it happened stands before it already.
fn without_location(message: &str) -> &str {
    message.split(" at line ").next().unwrap_or(message)
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.get(..offset).unwrap_or(text).matches('\n').count()
}

struct Reader<'a> {
    text: &'a str,
    file: usize,
    values: usize,
    anchors: AnchorRegistry,
}

impl Reader<'_> {
    fn document(&mut self, document: &Document) -> Result<Node, Mistake> {
        let root = if let Some(mapping) = document.as_mapping() {
            Some(YamlNode::Mapping(mapping))
        } else if let Some(sequence) = document.as_sequence() {
            Some(YamlNode::Sequence(sequence))
        } else if let Some(tagged) = document.as_tagged() {
            Some(YamlNode::TaggedNode(tagged))
        } else {
            document.as_scalar().map(YamlNode::Scalar)
        };
        root.map_or(Ok(Node::default()), |root| self.node(&root, 0))
    }

    fn place(&self, node: &YamlNode) -> Place {
        Place { file: self.file, line: line_of(self.text, node.byte_range().start as usize) }
    }

    fn node(&mut self, node: &YamlNode, depth: usize) -> Result<Node, Mistake> {
        let place = self.place(node);
        self.values += 1;
        if self.values > MOST_VALUES || depth > DEEPEST {
            return Err(Mistake::new(
                place,
                "",
                "the file is too large once its aliases are written out, or nests too deep",
            ));
        }
        let data = match node {
            YamlNode::Scalar(scalar) => {
                let text = scalar.as_string();
                if scalar.is_quoted() || scalar.is_block() { Data::Text(text) } else { scalar::resolve(&text) }
            }
            YamlNode::Sequence(sequence) => {
                let items: Vec<YamlNode> = sequence.values().collect();
                Data::List(items.iter().map(|item| self.node(item, depth + 1)).collect::<Result<_, _>>()?)
            }
            YamlNode::Mapping(mapping) => self.mapping(mapping, place, depth)?,
            YamlNode::Alias(alias) => {
                let target = self.anchors.resolve_alias(alias).map_err(|_undefined| {
                    Mistake::new(place, "", format!("the alias `*{}` refers to nothing", alias.name()))
                })?;
                self.node(&target, depth + 1)?.data
            }
            YamlNode::TaggedNode(tagged) => self.tagged(tagged, place, depth)?,
        };
        Ok(Node { place, data })
    }

    fn tagged(&mut self, tagged: &yaml_edit::TaggedNode, place: Place, depth: usize) -> Result<Data, Mistake> {
        let tag = tagged.resolved_tag().unwrap_or_default();
        if tag == "!reset" {
            return Ok(Data::Reset);
        }
        if tag == "!!str"
            && let Some(scalar) = tagged.value()
        {
            return Ok(Data::Text(scalar.as_string()));
        }
        let inner = if let Some(mapping) = tagged.as_mapping() {
            self.node(&YamlNode::Mapping(mapping), depth + 1)?
        } else if let Some(sequence) = tagged.as_sequence() {
            self.node(&YamlNode::Sequence(sequence), depth + 1)?
        } else {
            match tagged.value() {
                Some(scalar) => self.node(&YamlNode::Scalar(scalar), depth + 1)?,
                None => Node::new(place, Data::Null),
            }
        };
        match tag.as_str() {
            "!override" => Ok(Data::Alone(Box::new(inner))),
            "!!map" | "!!seq" | "!!int" | "!!float" | "!!bool" | "!!null" => Ok(inner.data),
            _ => Err(Mistake::new(place, "", format!("the tag `{tag}` is not understood"))),
        }
    }

    fn mapping(&mut self, mapping: &yaml_edit::Mapping, place: Place, depth: usize) -> Result<Data, Mistake> {
        let mut own = Map::new();
        let mut merged = Vec::new();
        for entry in mapping.entries() {
            let (Some(key), Some(value)) = (entry.key_node(), entry.value_node()) else {
                return Err(Mistake::new(place, "", "a key without a value cannot be understood here"));
            };
            let place = self.place(&key);
            let name = match &key {
                YamlNode::Scalar(scalar) if scalar.is_quoted() => scalar.as_string(),
                YamlNode::Scalar(scalar) => match scalar::resolve(&scalar.as_string()) {
                    Data::Text(name) if name == "<<" => {
                        merged.push(self.node(&value, depth + 1)?);
                        continue;
                    }
                    Data::Text(name) => name,
                    _ => {
                        return Err(Mistake::new(
                            place,
                            "",
                            format!("the key `{}` has to be text; quote it", scalar.as_string()),
                        ));
                    }
                },
                _ => return Err(Mistake::new(place, "", "a key has to be text")),
            };
            let mut value = self.node(&value, depth + 1)?;
            value.place = place;
            if own.insert(name.clone(), value).is_some() {
                return Err(Mistake::new(place, "", format!("the key `{name}` stands there twice")));
            }
        }
        for source in merged {
            let sources = match source.data {
                Data::Map(map) => vec![map],
                Data::List(list) => list
                    .into_iter()
                    .filter_map(|node| if let Data::Map(map) = node.data { Some(map) } else { None })
                    .collect(),
                _ => return Err(Mistake::new(place, "", "`<<` takes a mapping, or a list of them")),
            };
            for (key, value) in sources.into_iter().flatten() {
                own.entry(key).or_insert(value);
            }
        }
        Ok(Data::Map(own))
    }
}

/// Whether both readers found the same keys, lists and texts. Numbers are not compared: the two know them by other rules.
fn agree(lossless: &Node, strict: &serde_yaml::Value) -> bool {
    use serde_yaml::Value;
    match (&lossless.data, strict) {
        (Data::Reset, Value::Tagged(tagged)) => tagged.tag == "reset",
        (Data::Alone(inner), Value::Tagged(tagged)) => tagged.tag == "override" && agree(inner, &tagged.value),
        (Data::Null, Value::Null) => true,
        (Data::Text(text), Value::String(other)) => text == other,
        (Data::List(items), Value::Sequence(others)) => {
            items.len() == others.len() && items.iter().zip(others).all(|(item, other)| agree(item, other))
        }
        (Data::Map(map), Value::Mapping(other)) => {
            map.len() == other.len()
                && map.iter().all(|(key, value)| other.get(key.as_str()).is_some_and(|other| agree(value, other)))
        }
        (Data::Text(_) | Data::Switch(_) | Data::Whole(_) | Data::Decimal(_) | Data::Date(_), other) => {
            matches!(other, Value::Bool(_) | Value::Number(_) | Value::String(_))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn read(text: &str) -> Node {
        let mut documents = documents(text, 0).unwrap();
        assert_eq!(documents.len(), 1);
        documents.remove(0)
    }

    fn mistake(text: &str) -> (usize, String) {
        let mistake = documents(text, 0).unwrap_err();
        (mistake.place.line, mistake.problem)
    }

    #[test]
    fn quotes_tell_text_from_numbers() {
        let node = read("a: 0123\nb: '0123'\nc: \"x\\ny\"\nd: |\n  1\ne: !!str 5\nf:\n");
        assert_eq!(node.get("a").unwrap().data, Data::Whole(83));
        for (key, text) in [("b", "0123"), ("c", "x\ny"), ("d", "1\n"), ("e", "5")] {
            assert_eq!(node.get(key).unwrap().as_text(), Some(text));
        }
        assert!(node.as_map().unwrap()["f"].is_null());
    }

    #[test]
    fn anchors_aliases_and_merges_are_written_out() {
        let node = read("x: &x {a: 1, b: 2}\ny: &y [*x]\nz:\n  <<: *x\n  b: 3\nw: *y\nv:\n  <<: [*x, {c: 4}]\n");
        assert_eq!(node.get("z").unwrap().get("a").unwrap().data, Data::Whole(1));
        assert_eq!(node.get("z").unwrap().get("b").unwrap().data, Data::Whole(3));
        assert_eq!(node.get("w"), node.get("y"));
        assert_eq!(node.get("v").unwrap().as_map().unwrap().len(), 3);
    }

    #[test]
    fn every_value_knows_its_line() {
        let node = read("# c\na:\n  b: 1\n\n  c: &x\n    d: 2\n");
        let a = node.get("a").unwrap();
        assert_eq!(
            (a.place.line, a.get("b").unwrap().place.line, a.get("c").unwrap().get("d").unwrap().place.line),
            (2, 3, 6)
        );
    }

    #[test]
    fn tags_of_compose_are_kept_and_others_refused() {
        let node = read("a: !reset null\nb: !override [1]\nc: !reset {}\nd: !override\n  e: 1\n");
        assert_eq!(node.get("a").unwrap().data, Data::Reset);
        assert_eq!(node.get("c").unwrap().data, Data::Reset);
        assert!(matches!(&node.get("b").unwrap().data, Data::Alone(inner) if inner.as_list().is_some()));
        assert!(matches!(&node.get("d").unwrap().data, Data::Alone(inner) if inner.as_map().is_some()));
        assert_eq!(mistake("a: 1\nb: !secret x\n"), (2, "the tag `!secret` is not understood".to_owned()));
    }

    #[test]
    fn mistakes_name_their_line() {
        assert_eq!(mistake("a: 1\nb: 2\na: 3\n").0, 3);
        assert_eq!(mistake("a:\n  1: x\n"), (2, "the key `1` has to be text; quote it".to_owned()));
        assert!(mistake("a: [1\nb: 2\n").1.len() > 5);
        assert_eq!(mistake("a: 1\nb: *none\n").0, 2);
    }

    #[test]
    fn a_bomb_of_aliases_is_refused() {
        let mut text = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (this, last) in ('b'..='i').zip('a'..='h') {
            writeln!(
                text,
                "{this}: &{this} [*{last}, *{last}, *{last}, *{last}, *{last}, *{last}, *{last}, *{last}, *{last}]"
            )
            .expect("a String takes whatever is written");
        }
        assert!(documents(&text, 0).is_err());
    }

    #[test]
    fn empty_files_have_nothing() {
        for text in ["", "# only a comment\n", "\n\n"] {
            assert!(documents(text, 0).unwrap().iter().all(Node::is_null), "{text:?}");
        }
        assert_eq!(documents("a: 1\n---\nb: 2\n", 0).unwrap().len(), 2);
    }
}
