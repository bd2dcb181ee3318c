//! A measured value, the bound that it has to keep, and how they are printed.

use std::io::{self, Write as _};
use std::time::Duration;

/// One measured value.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    bound: Bound,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    Below(f64),
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    /// Good when the value is below `bound`.
    pub(crate) fn below(what: impl Into<String>, value: f64, bound: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, unit, bound: Bound::Below(bound) }
    }

    /// Good when the value is not above `bound`.
    pub(crate) fn at_most(what: impl Into<String>, value: f64, bound: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, unit, bound: Bound::AtMost(bound) }
    }

    /// Good when the value is at least `bound`.
    pub(crate) fn at_least(what: impl Into<String>, value: f64, bound: f64, unit: &'static str) -> Self {
        Self { what: what.into(), value, unit, bound: Bound::AtLeast(bound) }
    }

    fn holds(&self) -> bool {
        match self.bound {
            Bound::Below(bound) => self.value < bound,
            Bound::AtMost(bound) => self.value <= bound,
            Bound::AtLeast(bound) => self.value >= bound,
        }
    }

    fn line(&self) -> String {
        // Room to spare: above 1 the bound is kept, so figures of different kinds can be read side by side.
        let (word, bound, room) = match self.bound {
            Bound::Below(bound) => ("below", bound, bound / self.value.max(f64::MIN_POSITIVE)),
            Bound::AtMost(bound) => ("at most", bound, bound / self.value.max(f64::MIN_POSITIVE)),
            Bound::AtLeast(bound) if bound == 0.0 => ("at least", bound, 1.0),
            Bound::AtLeast(bound) => ("at least", bound, self.value / bound),
        };
        let verdict = if self.holds() { "ok  " } else { "OVER" };
        let unit = self.unit;
        format!(
            "{verdict} {:<62} {:>10.2} {unit:<3} {word} {bound:>8.2} {unit:<3} ratio {room:.2}",
            self.what, self.value
        )
    }
}

/// All figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    kept: usize,
    missed: usize,
}

impl Report {
    /// Prints figures as they come.
    pub(crate) fn add(&mut self, figures: Vec<Figure>) {
        for figure in figures {
            print(&figure.line());
            if figure.holds() {
                self.kept += 1;
            } else {
                self.missed += 1;
            }
        }
    }

    /// The last line; `true` when all bounds were kept.
    pub(crate) fn print_verdict(&self) -> bool {
        print(&format!("{} figures within their bounds, {} out of them", self.kept, self.missed));
        self.missed == 0
    }
}

/// A line on stdout, at once.
pub(crate) fn print(line: &str) {
    let mut stdout = io::stdout().lock();
    let _reader_may_be_gone = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Milliseconds, with their fraction.
pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// The value below which `share` (0 to 1) of the values lie; 0 for none.
pub(crate) fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    #[expect(clippy::cast_precision_loss, reason = "there are fewer values than a double can count")]
    let place = last as f64 * share;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and the last place")]
    let place = place.round() as usize;
    values[place.min(last)]
}

/// Bytes as a number of `unit` bytes.
pub(crate) fn bytes_in(bytes: u64, unit: u32) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "memory sizes are far below 2^52")]
    let bytes = bytes as f64;
    bytes / f64::from(unit)
}

/// A count as a number to divide by.
pub(crate) fn number(count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
    let count = count as f64;
    count
}
