//! From what a caller wants of a list to one range of `(created_at, id)` and a direction. Pure.

use jiff::Timestamp;

use super::engine::Arg;
use super::{Listed, Position, TimeBounds, Window};

/// Sorts behind every id.
const BEHIND_ALL_IDS: &str = "\u{10ffff}";

/// A range of whole microseconds, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Micros {
    pub(super) from: i64,
    pub(super) to: i64,
}

impl From<TimeBounds> for Micros {
    /// The store keeps whole microseconds; a bound that is finer moves to the nearest one inside.
    fn from(bounds: TimeBounds) -> Self {
        let floor = |time: Timestamp| clamped(time.as_nanosecond().div_euclid(1000));
        let ceiling = |time: Timestamp| clamped(-((-time.as_nanosecond()).div_euclid(1000)));
        let lower = [bounds.gte.map(ceiling), bounds.gt.map(|time| floor(time).saturating_add(1))];
        let upper = [bounds.lte.map(floor), bounds.lt.map(|time| ceiling(time).saturating_sub(1))];
        Self {
            from: lower.into_iter().flatten().max().unwrap_or(i64::MIN),
            to: upper.into_iter().flatten().min().unwrap_or(i64::MAX),
        }
    }
}

fn clamped(micros: i128) -> i64 {
    i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX })
}

/// A range to read, strictly between `low` and `high`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    low: (i64, String),
    high: (i64, String),
    limit: u32,
    /// Read from `low` upwards.
    pub(super) upwards: bool,
    /// What was read is to be turned round to be in the list's order.
    reversed: bool,
}

impl Range {
    pub(super) fn new(window: &Window, bounds: TimeBounds) -> Self {
        let bounds = Micros::from(bounds);
        let mut low = (bounds.from, String::new());
        let mut high = (bounds.to, BEHIND_ALL_IDS.to_owned());
        let place = |position: &Position| (position.at.as_microsecond(), position.id.clone());
        let (behind_low, before_high) =
            if window.ascending { (&window.after, &window.before) } else { (&window.before, &window.after) };
        if let Some(position) = behind_low {
            low = low.max(place(position));
        }
        if let Some(position) = before_high {
            high = high.min(place(position));
        }
        // The nearest items before a place are met first when one walks away from it.
        let reversed = window.before.is_some();
        Self { low, high, limit: window.limit, upwards: window.ascending != reversed, reversed }
    }

    /// `$1` to `$5` of the statement: the range, and one more than the limit, which tells whether there are more.
    pub(super) fn args(&self) -> Vec<Arg> {
        vec![
            self.low.0.into(),
            (&self.low.1).into(),
            self.high.0.into(),
            (&self.high.1).into(),
            Arg::count(u64::from(self.limit) + 1),
        ]
    }

    /// What the statement gave, as the caller wants it.
    pub(super) fn listed<T>(&self, mut items: Vec<T>) -> Listed<T> {
        let has_more = cut(&mut items, self.limit);
        if self.reversed {
            items.reverse();
        }
        Listed { items, has_more }
    }
}

/// Drops the item beyond the limit; `true` when there was one.
pub(super) fn cut<T>(items: &mut Vec<T>, limit: u32) -> bool {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = items.len() > limit;
    items.truncate(limit);
    has_more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: i128) -> Timestamp {
        Timestamp::from_nanosecond(nanos).unwrap()
    }

    #[test]
    fn bounds_finer_than_the_store_move_inside() {
        let check = |bounds, from, to| assert_eq!(Micros::from(bounds), Micros { from, to }, "{bounds:?}");
        check(TimeBounds::default(), i64::MIN, i64::MAX);
        check(TimeBounds { gte: Some(at(5000)), lte: Some(at(9000)), ..TimeBounds::default() }, 5, 9);
        check(TimeBounds { gt: Some(at(5000)), lt: Some(at(9000)), ..TimeBounds::default() }, 6, 8);
        check(TimeBounds { gte: Some(at(5001)), lte: Some(at(9001)), ..TimeBounds::default() }, 6, 9);
        check(TimeBounds { gt: Some(at(5001)), lt: Some(at(9001)), ..TimeBounds::default() }, 6, 9);
        check(TimeBounds { gte: Some(at(-1)), lte: Some(at(-1)), ..TimeBounds::default() }, 0, -1);
        check(TimeBounds { gt: Some(at(1000)), gte: Some(at(7000)), ..TimeBounds::default() }, 7, i64::MAX);
    }

    #[test]
    fn a_page_before_a_place_walks_away_from_it() {
        let place = Position { at: at(7000), id: "b".to_owned() };
        let window = Window { limit: 2, ascending: false, after: None, before: Some(place) };
        let range = Range::new(&window, TimeBounds::default());
        assert_eq!((range.low.clone(), range.upwards), ((7, "b".to_owned()), true));
        assert_eq!(range.listed(vec!["c", "d", "e"]), Listed { items: vec!["d", "c"], has_more: true });
    }
}
