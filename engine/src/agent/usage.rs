//! Tokens and money: every server's way of counting, brought to one form.

use serde_json::Value;

use super::catalogue::Pricing;
use crate::events::body::ModelUsage;
use crate::store::records::{UsageShare, UsageTotals};

/// Characters that stand for a token when a server does not count.
const CHARACTERS_A_TOKEN: usize = 4;

/// What one request used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Prompt tokens, cached ones included.
    pub input_tokens: u64,
    /// Answer tokens, reasoning included.
    pub output_tokens: u64,
    /// Prompt tokens read from the server's cache.
    pub cache_read: u64,
    /// Prompt tokens written to it.
    pub cache_write: u64,
    /// US dollars; `None` when neither the server nor the catalogue says.
    pub cost: Option<f64>,
    /// The server did not count: these are characters over four.
    pub estimated: bool,
}

impl Measured {
    /// Takes the server's counts, or estimates from characters of prompt and answer.
    pub fn new(usage: Option<&Value>, pricing: Option<&Pricing>, prompt_chars: usize, answer_chars: usize) -> Self {
        let mut measured = usage.and_then(counted).unwrap_or_else(|| Self {
            input_tokens: (prompt_chars / CHARACTERS_A_TOKEN).max(1) as u64,
            output_tokens: (answer_chars / CHARACTERS_A_TOKEN) as u64,
            estimated: true,
            ..Self::default()
        });
        let told = usage.and_then(|usage| first_number(usage, &["/cost", "/total_cost"])).filter(|cost| *cost >= 0.0);
        measured.cost = told.or_else(|| pricing.map(|pricing| measured.price(pricing)));
        measured
    }

    fn price(&self, pricing: &Pricing) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        let times = |tokens: u64, price: f64| tokens as f64 * price;
        let fresh = self.input_tokens.saturating_sub(self.cache_read);
        times(fresh, pricing.prompt)
            + times(self.output_tokens, pricing.completion)
            + times(self.cache_read, pricing.cache_read)
            + times(self.cache_write, pricing.cache_write)
    }

    /// As the event says it.
    pub fn event(&self) -> ModelUsage {
        ModelUsage {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_input_tokens: self.cache_read,
            cache_creation_input_tokens: self.cache_write,
        }
    }

    /// The cost as an event shows it: to a millionth of a dollar. Sums are made of the full number.
    pub fn shown_cost(&self) -> Option<f64> {
        self.cost.map(|cost| (cost * 1e6).round() / 1e6)
    }

    /// As something to add to a session's usage. `turns` is 1 for a turn of the agent, 0 for a tool's question.
    pub fn totals(&self, source: &str, model: &str, turns: u64) -> UsageTotals {
        let share = UsageShare {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cost: self.cost.unwrap_or(0.0),
            requests: 1,
        };
        UsageTotals {
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            cache_read_input_tokens: self.cache_read,
            cache_creation_input_tokens: self.cache_write,
            cost: self.cost.unwrap_or(0.0),
            requests: 1,
            turns,
            runs: 0,
            by_source: [(source.to_owned(), share.clone())].into(),
            by_model: [(model.to_owned(), share)].into(),
        }
    }
}

/// Counts under the names that servers use. `None` when there are none.
fn counted(usage: &Value) -> Option<Measured> {
    let count = |names: &[&str]| names.iter().find_map(|name| usage.pointer(name).and_then(whole));
    let input_tokens = count(&["/prompt_tokens", "/input_tokens"]);
    let output_tokens = count(&["/completion_tokens", "/output_tokens"]);
    if input_tokens.is_none() && output_tokens.is_none() {
        return None;
    }
    Some(Measured {
        input_tokens: input_tokens.unwrap_or(0),
        output_tokens: output_tokens.unwrap_or(0),
        cache_read: count(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/cache_read_input_tokens",
            "/prompt_cache_hit_tokens",
            "/cached_tokens",
        ])
        .unwrap_or(0),
        cache_write: count(&["/prompt_tokens_details/cache_write_tokens", "/cache_creation_input_tokens"]).unwrap_or(0),
        cost: None,
        estimated: false,
    })
}

/// Some servers write counts as `12.0`.
fn whole(value: &Value) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a count just before")]
    let from_float = |number: f64| (0.0..1e15).contains(&number).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(from_float))
}

fn first_number(usage: &Value, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| usage.pointer(name).and_then(Value::as_f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PRICES: Pricing = Pricing { prompt: 1e-6, completion: 2e-6, cache_read: 1e-7, cache_write: 0.0 };

    #[test]
    fn counts_are_read_under_their_many_names() {
        let usage =
            json!({"prompt_tokens": 100, "completion_tokens": 10.0, "prompt_tokens_details": {"cached_tokens": 40}});
        let measured = Measured::new(Some(&usage), Some(&PRICES), 0, 0);
        assert_eq!((measured.input_tokens, measured.output_tokens, measured.cache_read), (100, 10, 40));
        assert!(!measured.estimated);
        let wanted = 60.0 * 1e-6 + 10.0 * 2e-6 + 40.0 * 1e-7;
        assert!((measured.cost.unwrap() - wanted).abs() < 1e-12);
        let usage = json!({"input_tokens": 5, "output_tokens": 2, "cache_creation_input_tokens": 1, "cost": 0.5});
        let measured = Measured::new(Some(&usage), Some(&PRICES), 0, 0);
        assert_eq!((measured.input_tokens, measured.cache_write, measured.cost), (5, 1, Some(0.5)));
    }

    #[test]
    fn what_is_not_counted_is_estimated_and_says_so() {
        for usage in [None, Some(json!({})), Some(json!({"prompt_tokens": null}))] {
            let measured = Measured::new(usage.as_ref(), None, 400, 40);
            assert_eq!((measured.input_tokens, measured.output_tokens), (100, 10));
            assert!(measured.estimated);
            assert_eq!(measured.cost, None);
        }
    }

    #[test]
    fn small_costs_are_not_rounded_away_in_sums() {
        let usage = json!({"prompt_tokens": 1, "completion_tokens": 0, "cost": 1e-7});
        let measured = Measured::new(Some(&usage), None, 0, 0);
        assert_eq!(measured.shown_cost(), Some(0.0));
        let mut totals = UsageTotals::default();
        for _ in 0..10 {
            totals.add(&measured.totals("agent", "m", 1));
        }
        assert!((totals.cost - 1e-6).abs() < 1e-15);
        assert_eq!((totals.turns, totals.by_source["agent"].requests), (10, 10));
    }
}
