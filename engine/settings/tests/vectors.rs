//! Golden vectors: what Docker Compose does with a text. Every case of every file is run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ambient_settings::dotenv::Document;
use ambient_settings::interpolate::{InterpolateError, interpolate};
use ambient_settings::quote;
use serde::Deserialize;
use serde::de::DeserializeOwned;

type Variables = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DotenvCase {
    name: String,
    input: String,
    #[serde(default)]
    env: Variables,
    expected: Option<Variables>,
    #[serde(default)]
    error: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterpolateCase {
    name: String,
    template: String,
    env: Variables,
    expected: Option<String>,
    error: Option<ExpectedError>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum ExpectedError {
    Invalid,
    Required { variable: String, message: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuoteCase {
    name: String,
    value: String,
    encoded: Option<String>,
    #[serde(default)]
    read_back_by: Vec<String>,
    #[serde(default, rename = "not_by")]
    _not_by: Vec<String>,
}

fn cases<T: DeserializeOwned>(file: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data").join(file);
    let text = fs::read_to_string(&path).expect("the vectors are part of the repository");
    let cases: Vec<T> = serde_json::from_str(&text).expect("the vectors have the form that is described here");
    assert!(!cases.is_empty(), "{file} holds no case");
    cases
}

fn read(input: &str, env: &Variables) -> Result<Variables, String> {
    let evaluated = Document::parse(input)
        .and_then(|document| document.evaluate(&|name: &str| env.get(name).cloned()))
        .map_err(|error| error.to_string())?;
    Ok(evaluated.variables.into_iter().map(|(name, variable)| (name, variable.value)).collect())
}

#[test]
fn a_dotenv_file_is_read_as_compose_reads_it() {
    let all = cases::<DotenvCase>("dotenv.json").into_iter().chain(cases("dotenv_env.json"));
    for case in all {
        let result = read(&case.input, &case.env);
        match (case.expected, case.error) {
            (Some(expected), false) => assert_eq!(result, Ok(expected), "{}", case.name),
            (None, true) => assert!(result.is_err(), "{}: {result:?}", case.name),
            (Some(_), true) | (None, false) => panic!("{}: neither values nor an error", case.name),
        }
    }
}

#[test]
fn a_template_is_replaced_as_compose_replaces_it() {
    for case in cases::<InterpolateCase>("interpolate.json") {
        let result = interpolate(&case.template, &|name: &str| case.env.get(name).cloned());
        match (case.expected, case.error) {
            (Some(expected), None) => assert_eq!(result, Ok(expected), "{}", case.name),
            (None, Some(ExpectedError::Invalid)) => {
                assert_eq!(result, Err(InterpolateError::Invalid), "{}", case.name);
            }
            (None, Some(ExpectedError::Required { variable, message })) => {
                assert_eq!(result, Err(InterpolateError::Required { variable, message }), "{}", case.name);
            }
            (Some(_), Some(_)) | (None, None) => panic!("{}: neither a value nor an error", case.name),
        }
    }
}

#[test]
fn a_written_value_is_read_back_by_us_and_by_dotenvy() {
    for case in cases::<QuoteCase>("dotenv_roundtrip.json") {
        let encoded = quote::encode(&case.value).ok();
        assert_eq!(encoded, case.encoded, "{}", case.name);
        let Some(encoded) = encoded else { continue };
        let file = format!("BEFORE=1\nNAME={encoded}\nAFTER=2\n");
        let expected: Variables = [("AFTER", "2"), ("BEFORE", "1"), ("NAME", &case.value)]
            .map(|(name, value)| (name.into(), value.into()))
            .into();
        assert_eq!(read(&file, &Variables::new()), Ok(expected.clone()), "{}", case.name);
        assert!(case.read_back_by.iter().any(|reader| reader == "dotenvy"), "{}", case.name);
        let by_dotenvy: Variables = dotenvy::from_read_iter(file.as_bytes())
            .collect::<Result<_, _>>()
            .unwrap_or_else(|error| panic!("{}: dotenvy: {error}", case.name));
        assert_eq!(by_dotenvy, expected, "{}: dotenvy", case.name);
    }
}
