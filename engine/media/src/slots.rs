//! The times of pictures that can only be counted.
//!
//! Some files store when a picture is decoded and not when it is shown (H.264 with B-frames in AVI), or tell it for a few pictures only (H.264 in a
//! program stream). What is sure there is the order in which a decoder gives the pictures from the first one on. So they are decoded once from the
//! beginning and counted, and the picture with number `n` gets the `n`th time; every later call counts from the beginning too, so that it means the
//! same pictures. That costs a decoder's run up to the asked place, and is exact.

/// How many jumps a filter expression may hold; beyond it the file is taken for one of constant rate.
const MOST_JUMPS: usize = 4000;

/// The time of each picture, in ticks. Invariant: ascends without doubles, and is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    ticks: Vec<i64>,
    step: i64,
}

impl Slots {
    /// `None` if the times do not ascend, or jump too often to be told to a filter.
    pub(crate) fn new(ticks: Vec<i64>) -> Option<Self> {
        if ticks.is_empty() || !ticks.is_sorted_by(|one, next| one < next) {
            return None;
        }
        let mut steps: Vec<i64> = ticks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        steps.sort_unstable();
        let step = steps.get(steps.len() / 2).copied().unwrap_or(1);
        let slots = Self { ticks, step };
        (slots.jumps().len() <= MOST_JUMPS).then_some(slots)
    }

    /// `count` pictures, one a tick, from tick `first` on.
    pub(crate) fn even(first: i64, count: usize) -> Option<Self> {
        Self::new((first..).take(count).collect())
    }

    pub(crate) fn ticks(&self) -> &[i64] {
        &self.ticks
    }

    /// The usual distance of two pictures.
    pub(crate) const fn step(&self) -> i64 {
        self.step
    }

    /// Where the distance is another one: the number of the picture behind it, and by how much.
    fn jumps(&self) -> Vec<(usize, i64)> {
        let steps = self.ticks.windows(2).enumerate().map(|(number, pair)| (number + 1, pair[1] - pair[0] - self.step));
        steps.filter(|(_number, extra)| *extra != 0).collect()
    }

    /// The time of picture `N` as an expression of a filter.
    pub(crate) fn expression(&self) -> String {
        let terms: Vec<String> =
            self.jumps().into_iter().map(|(number, extra)| format!("gte(N\\,{number})*({extra})")).collect();
        let jumps = if terms.is_empty() { String::new() } else { format!("+{}", sum(&terms)) };
        format!("({})+N*{}{jumps}", self.ticks[0], self.step)
    }
}

/// A sum of halves, since ffmpeg's parser does not bear long chains.
fn sum(terms: &[String]) -> String {
    match terms {
        [] => "0".to_owned(),
        [one] => one.clone(),
        many => {
            let (front, back) = many.split_at(many.len() / 2);
            format!("({}+{})", sum(front), sum(back))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_rate_is_a_product() {
        assert_eq!(Slots::even(7, 100).unwrap().expression(), "(7)+N*1");
        assert_eq!(Slots::new(vec![-3600, 0, 3600]).unwrap().expression(), "(-3600)+N*3600");
        assert_eq!(Slots::new(vec![5]).unwrap().expression(), "(5)+N*1");
    }

    #[test]
    fn gaps_are_added_from_the_picture_behind_them() {
        let slots = Slots::new(vec![0, 1, 4, 5, 6, 9, 10, 11]).unwrap();
        assert_eq!(slots.expression(), "(0)+N*1+(gte(N\\,2)*(2)+gte(N\\,5)*(2))");
    }

    #[test]
    fn times_that_do_not_ascend_are_no_slots() {
        assert_eq!(Slots::new(vec![0, 2, 2]), None);
        assert_eq!(Slots::new(Vec::new()), None);
    }
}
