//! The untyped tree: what a YAML file says, before anybody knows what its keys mean.

use indexmap::IndexMap;

/// Where something stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Which of the project's files, in the order in which they are merged.
    pub(crate) file: usize,
    /// The line, from 1; 0 for what no file says.
    pub(crate) line: usize,
}

/// A mapping, in the order of the file.
pub(crate) type Map = IndexMap<String, Node>;

/// A value and where it stands. Two nodes are equal when their values are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) data: Data,
}

/// A value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Data {
    #[default]
    Null,
    Switch(bool),
    Whole(i128),
    Decimal(f64),
    Text(String),
    /// A date without quotes, which no key of a compose file takes.
    Date(String),
    List(Vec<Node>),
    Map(Map),
    /// `!reset`: whatever the base says here is gone.
    Reset,
    /// `!override`: this stands alone, whatever the base says.
    Alone(Box<Node>),
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data
    }
}

impl Node {
    pub(crate) fn new(place: Place, data: Data) -> Self {
        Self { place, data }
    }

    pub(crate) fn text(place: Place, text: impl Into<String>) -> Self {
        Self::new(place, Data::Text(text.into()))
    }

    pub(crate) fn is_null(&self) -> bool {
        self.data == Data::Null
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            Data::Null
            | Data::Switch(_)
            | Data::Whole(_)
            | Data::Decimal(_)
            | Data::Date(_)
            | Data::List(_)
            | Data::Map(_)
            | Data::Reset
            | Data::Alone(_) => None,
        }
    }

    pub(crate) fn as_map(&self) -> Option<&Map> {
        if let Data::Map(map) = &self.data { Some(map) } else { None }
    }

    pub(crate) fn as_map_mut(&mut self) -> Option<&mut Map> {
        if let Data::Map(map) = &mut self.data { Some(map) } else { None }
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        if let Data::List(list) = &self.data { Some(list) } else { None }
    }

    /// The value under a key of a mapping; a null there counts as nothing.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.as_map()?.get(key).filter(|found| !found.is_null())
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Self> {
        self.as_map_mut()?.get_mut(key)
    }

    /// A scalar as text, numbers as Go prints them; `None` for collections. A null is empty.
    pub(crate) fn printed(&self) -> Option<String> {
        match &self.data {
            Data::Null => Some(String::new()),
            Data::Switch(on) => Some(on.to_string()),
            Data::Whole(number) => Some(number.to_string()),
            Data::Decimal(number) => Some(super::scalar::print_decimal(*number)),
            Data::Text(text) => Some(text.clone()),
            Data::Date(_) | Data::List(_) | Data::Map(_) | Data::Reset | Data::Alone(_) => None,
        }
    }

    /// What kind of value this is, for a message.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.data {
            Data::Null => "nothing",
            Data::Switch(_) => "true or false",
            Data::Whole(_) | Data::Decimal(_) => "a number",
            Data::Text(_) => "text",
            Data::Date(_) => "a date; quote it to make it text",
            Data::List(_) => "a list",
            Data::Map(_) => "a mapping",
            Data::Reset => "`!reset`",
            Data::Alone(_) => "`!override`",
        }
    }
}
