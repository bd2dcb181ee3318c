//! Printing a model, letter by letter as `docker compose config` does.

mod json;
mod yaml;

use std::cmp::Ordering;

use serde_json::Value;

pub use json::compact;
pub use json::json;
pub use yaml::yaml;

/// Sorts entries by name as Go's JSON does, byte by byte, or as its YAML does, where `A2` stands before `A10`.
pub(super) fn sorted(entries: &mut Vec<(String, Value)>, by_numbers: bool) {
    if !by_numbers {
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        return;
    }
    // The order by numbers is no total one (`a0`, `a00`, `a1`), so no sort that relies on that.
    let mut done: Vec<(String, Value)> = Vec::with_capacity(entries.len());
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    for entry in entries.drain(..) {
        let place = done.iter().rposition(|(known, _)| by_number(known, &entry.0) != Ordering::Greater);
        done.insert(place.map_or(0, |place| place + 1), entry);
    }
    *entries = done;
}

/// The order of names in Go's YAML: letters after everything else, unless digits stand before them; digits by the number
/// that they make.
fn by_number(one: &str, other: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut digits = false;
    for at in 0..a.len().min(b.len()) {
        if a[at] == b[at] {
            digits = a[at].is_numeric();
            continue;
        }
        let (a_letter, b_letter) = (a[at].is_alphabetic(), b[at].is_alphabetic());
        if a_letter && b_letter {
            return a[at].cmp(&b[at]);
        }
        if a_letter || b_letter {
            let a_first = if digits { a_letter } else { b_letter };
            return if a_first { Ordering::Less } else { Ordering::Greater };
        }
        let zero = a[at] == '0' || b[at] == '0';
        let before = a[..at].iter().rev().take_while(|letter| letter.is_numeric());
        // A zero inside a number is a digit of it, and not the start of one.
        let start = i64::from(zero && before.into_iter().any(|digit| *digit != '0'));
        let number = |letters: &[char]| {
            let run = letters[at..].iter().take_while(|letter| letter.is_numeric());
            let digit = |letter: &char| i64::from(u32::from(*letter)) - i64::from(u32::from('0'));
            run.fold((start, 0_usize), |(number, count), letter| {
                (number.wrapping_mul(10).wrapping_add(digit(letter)), count + 1)
            })
        };
        let ((a_number, a_count), (b_number, b_count)) = (number(&a), number(&b));
        return a_number.cmp(&b_number).then(a_count.cmp(&b_count)).then(a[at].cmp(&b[at]));
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_numbers_stand_in_their_order() {
        let mut entries: Vec<(String, Value)> = ["b", "A10", "A2", "A", "_X", "a", "A02", "1"]
            .into_iter()
            .map(|name| (name.to_owned(), Value::Null))
            .collect();
        sorted(&mut entries, true);
        let names: Vec<_> = entries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["_X", "1", "A", "A2", "A02", "A10", "a", "b"]);
    }
}
