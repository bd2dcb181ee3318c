//! Arguments of a model, read into types once, with messages that it can act on.
//!
//! All faults are told at once. Models are taken as they are: a number may come as text, a time as `mm:ss`, a list as the
//! text of its JSON; what was meant is plain in each case.

use serde_json::Value;

use super::Arguments;
use super::times::parse_clock;

/// Arguments on their way into types.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    tool: &'static str,
    fields: &'a Arguments,
    asked: Vec<&'static str>,
    faults: Vec<String>,
}

impl<'a> Input<'a> {
    /// Begins to read the arguments of a tool. Every argument that the tool has must be asked for, even if an earlier one
    /// was bad: what is not asked for counts as unknown.
    pub(crate) fn new(tool: &'static str, fields: &'a Arguments) -> Self {
        Self { tool, fields, asked: Vec::new(), faults: Vec::new() }
    }

    /// The value of an argument; null is as good as none.
    fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.asked.push(name);
        self.fields.get(name).filter(|value| !value.is_null())
    }

    fn fault<T>(&mut self, text: String) -> Option<T> {
        self.faults.push(text);
        None
    }

    /// A text that has to be there and say something.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<String> {
        match self.value(name) {
            None => self.fault(format!("`{name}` is missing: give a text")),
            Some(Value::String(text)) if text.trim().is_empty() => {
                self.fault(format!("`{name}` is empty: give a text"))
            }
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => self.fault(format!("`{name}` has to be a text, not {}", kind(other))),
        }
    }

    /// A text that may be left out.
    pub(crate) fn optional_text(&mut self, name: &'static str) -> Option<String> {
        match self.value(name) {
            None => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => self.fault(format!("`{name}` has to be a text, not {}", kind(other))),
        }
    }

    /// A time in seconds of the video.
    pub(crate) fn seconds(&mut self, name: &'static str) -> Option<f64> {
        let Some(value) = self.value(name) else {
            return self.fault(format!("`{name}` is missing: give a number of seconds"));
        };
        let seconds = number(value).or_else(|| value.as_str().and_then(|text| parse_clock(text.trim())));
        match seconds.filter(|seconds| seconds.is_finite()) {
            Some(seconds) => Some(seconds),
            None => self.fault(format!("`{name}` has to be a number of seconds, not {}", shown(value))),
        }
    }

    /// A whole number above 0 that may be left out.
    pub(crate) fn optional_count(&mut self, name: &'static str) -> Option<u64> {
        let value = self.value(name)?;
        match number(value).filter(|number| number.is_finite() && *number > 0.0) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "above 0; `as` saturates")]
            Some(number) => Some(number.ceil() as u64),
            None => self.fault(format!("`{name}` has to be a whole number above 0, not {}", shown(value))),
        }
    }

    /// A list of one to `most` things, each read by `read`, which says what is wrong with one.
    pub(crate) fn list<T>(
        &mut self,
        name: &'static str,
        most: usize,
        read: impl Fn(&Value) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let Some(value) = self.value(name) else {
            return self.fault(format!("`{name}` is missing: give a list of 1 to {most}"));
        };
        let parsed: Option<Value> = value.as_str().and_then(|text| serde_json::from_str(text).ok());
        let Some(items) = parsed.as_ref().unwrap_or(value).as_array() else {
            return self.fault(format!("`{name}` has to be a list, not {}", kind(value)));
        };
        if items.is_empty() || items.len() > most {
            return self.fault(format!("`{name}` holds {} entries: give 1 to {most}", items.len()));
        }
        let mut read_items = Vec::with_capacity(items.len());
        for (number, item) in items.iter().enumerate() {
            match read(item) {
                Ok(item) => read_items.push(item),
                Err(reason) => self.faults.push(format!("`{name}[{number}]` {reason}")),
            }
        }
        (read_items.len() == items.len()).then_some(read_items)
    }

    /// What was read, if nothing was wrong.
    ///
    /// # Errors
    /// All that was wrong, and which arguments there are.
    pub(crate) fn finish<T>(mut self, read: Option<T>) -> Result<T, String> {
        for name in self.fields.keys() {
            if !self.asked.contains(&name.as_str()) {
                let name: String = name.chars().take(60).collect();
                self.faults.push(format!("`{name}` is no argument of this tool"));
            }
        }
        match read {
            Some(read) if self.faults.is_empty() => Ok(read),
            Some(_) | None => {
                let known: Vec<String> = self.asked.iter().map(|name| format!("`{name}`")).collect();
                Err(format!(
                    "`{}` was not run: {}. Its arguments are {}.",
                    self.tool,
                    self.faults.join("; "),
                    known.join(", ")
                ))
            }
        }
    }
}

/// A number, or the text of one.
pub(crate) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().trim_end_matches('s').parse().ok())
}

/// Exactly `N` finite numbers.
pub(crate) fn numbers<const N: usize>(value: &Value) -> Option<[f64; N]> {
    let items = value.as_array()?;
    let read: Option<Vec<f64>> = items.iter().map(|item| number(item).filter(|number| number.is_finite())).collect();
    read?.try_into().ok()
}

/// What a value is, in words.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A value for a message: itself where it is short, else what it is.
pub(crate) fn shown(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 40 { format!("`{text}`") } else { kind(value).to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(value: &Value) -> Arguments {
        value.as_object().expect("an object").clone()
    }

    fn read(value: &Value) -> Result<(String, f64, Option<u64>), String> {
        let fields = fields(value);
        let mut input = Input::new("look", &fields);
        let (query, start, count) = (input.text("query"), input.seconds("start"), input.optional_count("count"));
        input.finish(query.zip(start).map(|(query, start)| (query, start, count)))
    }

    #[test]
    fn values_are_taken_as_models_send_them() {
        for (sent, seconds) in [(json!(1.5), 1.5), (json!("1.5"), 1.5), (json!("2s"), 2.0), (json!("1:05"), 65.0)] {
            assert_eq!(read(&json!({"query": "q", "start": sent, "count": null})), Ok(("q".into(), seconds, None)));
        }
        assert_eq!(read(&json!({"query": "q", "start": 0, "count": 3.0})), Ok(("q".into(), 0.0, Some(3))));
    }

    #[test]
    fn all_faults_are_told_at_once_with_the_arguments_that_there_are() {
        assert_eq!(
            read(&json!({"start": "soon", "count": -1, "from": 3})),
            Err("`look` was not run: `query` is missing: give a text; `start` has to be a number of seconds, not \
                 `\"soon\"`; `count` has to be a whole number above 0, not `-1`; `from` is no argument of this tool. \
                 Its arguments are `query`, `start`, `count`."
                .into())
        );
        assert!(read(&json!({"query": 7, "start": true})).is_err());
        assert!(read(&json!({"query": " ", "start": 1})).is_err());
    }

    #[test]
    fn lists_say_which_entry_is_wrong() {
        let read = |value: &Value| {
            let fields = fields(value);
            let mut input = Input::new("draw", &fields);
            let list = input.list("points", 2, |item| numbers::<2>(item).ok_or_else(|| "needs two numbers".to_owned()));
            input.finish(list)
        };
        assert_eq!(read(&json!({"points": [[1, "2"]]})), Ok(vec![[1.0, 2.0]]));
        assert_eq!(read(&json!({"points": "[[1, 2]]"})), Ok(vec![[1.0, 2.0]]));
        assert!(read(&json!({"points": [[1, 2], [3]]})).unwrap_err().contains("`points[1]` needs two numbers"));
        for bad in [json!({"points": []}), json!({"points": [[1, 2], [1, 2], [1, 2]]}), json!({"points": 3}), json!({})]
        {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }
}
