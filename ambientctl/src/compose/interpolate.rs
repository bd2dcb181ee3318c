//! Putting variables into a tree: into values, never into keys, once, and before anything is merged.

use std::collections::BTreeSet;

use ambient_settings::interpolate::{InterpolateError, Lookup, Template};

use super::error::Mistake;
use super::node::{Data, Node};

/// Replaces every reference. Names that nobody sets and that have no default are added to `unset`: they became empty.
pub(super) fn interpolate(node: &mut Node, lookup: &Lookup<'_>, unset: &mut BTreeSet<String>) -> Result<(), Mistake> {
    walk(node, String::new(), lookup, unset)
}

fn walk(node: &mut Node, path: String, lookup: &Lookup<'_>, unset: &mut BTreeSet<String>) -> Result<(), Mistake> {
    match &mut node.data {
        Data::Text(text) if text.contains('$') => {
            let failed = |error: InterpolateError| Mistake::new(node.place, &path, error);
            let template = Template::parse(text).map_err(failed)?;
            *text = template.value(lookup).map_err(failed)?;
            unset.extend(template.plain_names().filter(|name| lookup(name).is_none()).map(str::to_owned));
        }
        Data::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                walk(item, format!("{path}[{index}]"), lookup, unset)?;
            }
        }
        Data::Map(map) => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                walk(value, path, lookup, unset)?;
            }
        }
        Data::Alone(inner) => walk(inner, path, lookup, unset)?,
        Data::Null
        | Data::Switch(_)
        | Data::Whole(_)
        | Data::Decimal(_)
        | Data::Text(_)
        | Data::Date(_)
        | Data::Reset => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::yaml;
    use super::*;

    #[test]
    fn values_are_put_in_and_keys_are_not() {
        let mut node = yaml::documents("a: {$X: '${X}-$$X', b: [$X, '${NO}', '${NO:-d}']}\n", 0).unwrap().remove(0);
        let mut unset = BTreeSet::new();
        let lookup = |name: &str| (name == "X").then(|| "a: [1]".to_owned());
        interpolate(&mut node, &lookup, &mut unset).unwrap();
        let expected = yaml::documents("a: {$X: 'a: [1]-$X', b: ['a: [1]', '', d]}\n", 0).unwrap().remove(0);
        assert_eq!(node, expected);
        assert_eq!(unset.into_iter().collect::<Vec<_>>(), ["NO"]);
    }

    #[test]
    fn a_mistake_names_its_key_and_line() {
        let mut node = yaml::documents("a:\n  b:\n    - '${'\n", 0).unwrap().remove(0);
        let mistake = interpolate(&mut node, &|_| None, &mut BTreeSet::new()).unwrap_err();
        assert_eq!(mistake.place.line, 3);
        assert!(mistake.problem.starts_with("`a.b[0]` invalid `$` expression"), "{}", mistake.problem);
    }
}
