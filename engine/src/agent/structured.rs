//! Answers that have to fit a JSON Schema: the schema at the door, the form in which a server is told of it, and the
//! check of what came.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// Bytes of a schema; more would crowd the question out of the prompt.
const SCHEMA_LIMIT: usize = 64 * 1024;
/// Faults of an answer that are named, to the model and to the client.
const FAULTS_NAMED: usize = 5;
/// Places in an answer's prose at which its JSON may begin.
const STARTS_TRIED: usize = 64;
/// Characters of one named fault: some quote the whole answer.
const FAULT_LIMIT: usize = 300;

/// Checks a client's schema, before anything is stored.
///
/// # Errors
/// What is wrong with it, for the client.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    Structure::new(schema).map(|_| ())
}

/// A schema that answers have to fit.
#[derive(Debug)]
pub struct Structure {
    schema: Value,
    validator: Validator,
}

impl Structure {
    /// Compiles a schema. References lead nowhere but into the schema itself.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(schema: &Value) -> Result<Self, String> {
        if !schema.is_object() {
            return Err("`output_structure` has to be a JSON Schema object".to_owned());
        }
        let length = schema.to_string().len();
        if length > SCHEMA_LIMIT {
            return Err(format!("`output_structure` has {length} bytes; at most {SCHEMA_LIMIT} are taken"));
        }
        let validator = jsonschema::validator_for(schema)
            .map_err(|fault| format!("`output_structure` is no valid JSON Schema: {}", named(&fault)))?;
        Ok(Self { schema: schema.clone(), validator })
    }

    /// The schema as the client gave it.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// The `response_format` of a request. Objects that say nothing of further properties are closed, which every answer
    /// that fits the result fits the original with; where that would not hold, the server is not told to be strict. The
    /// schema's own references, recursive ones too, stay as they are.
    pub fn response_format(&self) -> Value {
        let mut schema = self.schema.clone();
        let is_strict = !composes(&schema) && close(&mut schema);
        let schema = if is_strict { schema } else { self.schema.clone() };
        json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": is_strict, "schema": schema}})
    }

    /// Finds the value in an answer and checks it; gives it as JSON text.
    ///
    /// # Errors
    /// What is wrong, in a few lines.
    pub fn check(&self, answer: &str) -> Result<String, String> {
        let value = find_value(answer).ok_or("the answer is no JSON")?;
        let faults: Vec<String> =
            self.validator.iter_errors(&value).take(FAULTS_NAMED).map(|fault| named(&fault)).collect();
        if faults.is_empty() { Ok(value.to_string()) } else { Err(faults.join("; ")) }
    }
}

fn named(fault: &jsonschema::ValidationError<'_>) -> String {
    let text: String = fault.to_string().chars().take(FAULT_LIMIT).collect();
    let path = fault.instance_path().to_string();
    if path.is_empty() { text } else { format!("at `{path}`: {text}") }
}

/// The JSON value of an answer: the whole text, a fenced block, or what can be read in prose.
fn find_value(answer: &str) -> Option<Value> {
    let text = answer.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let fenced = text.split("```").skip(1).step_by(2).map(|block| {
        let block = block.trim_start();
        block.strip_prefix("json").or_else(|| block.strip_prefix("JSON")).unwrap_or(block).trim()
    });
    if let Some(value) = fenced.filter_map(|block| serde_json::from_str(block).ok()).last() {
        return Some(value);
    }
    // In prose: the first place from which a whole object or list can be read.
    let starts = text.match_indices(['{', '[']).map(|(start, _)| start).take(STARTS_TRIED);
    starts
        .filter_map(|start| serde_json::Deserializer::from_str(text.get(start..)?).into_iter::<Value>().next())
        .find_map(Result::ok)
}

/// Whether a schema joins others, so that closing one part would refuse what another part allows.
fn composes(schema: &Value) -> bool {
    const JOINING: &[&str] = &[
        "allOf",
        "not",
        "if",
        "dependentSchemas",
        "unevaluatedProperties",
        "patternProperties",
        "propertyNames",
        "$dynamicRef",
    ];
    match schema {
        Value::Object(fields) => JOINING.iter().any(|key| fields.contains_key(*key)) || fields.values().any(composes),
        Value::Array(items) => items.iter().any(composes),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Closes every object schema in place; `false` when one is open on purpose or leaves properties out at will, which
/// strict servers do not take.
fn close(schema: &mut Value) -> bool {
    let Value::Object(fields) = schema else { return true };
    let mut is_strict = true;
    if fields.get("type") == Some(&json!("object")) || fields.contains_key("properties") {
        is_strict &= closes(fields);
    }
    for key in ["properties", "$defs", "definitions"] {
        for (_, inner) in fields.get_mut(key).and_then(Value::as_object_mut).into_iter().flatten() {
            is_strict &= close(inner);
        }
    }
    for key in ["anyOf", "oneOf", "prefixItems"] {
        for inner in fields.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten() {
            is_strict &= close(inner);
        }
    }
    if let Some(items) = fields.get_mut("items") {
        is_strict &= close(items);
    }
    is_strict
}

fn closes(fields: &mut Map<String, Value>) -> bool {
    let Some(properties) = fields.get("properties").and_then(Value::as_object) else { return false };
    let required = fields.get("required").and_then(Value::as_array);
    let all_required = properties
        .keys()
        .all(|name| required.is_some_and(|list| list.iter().any(|entry| entry.as_str() == Some(name))));
    match fields.get("additionalProperties") {
        Some(Value::Bool(false)) => all_required,
        None => {
            fields.insert("additionalProperties".to_owned(), Value::Bool(false));
            all_required
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person() -> Value {
        json!({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"]})
    }

    fn tree() -> Value {
        json!({"$defs": {"node": {"type": "object", "properties": {"name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["name", "children"]}},
               "$ref": "#/$defs/node"})
    }

    #[test]
    fn a_bad_schema_is_refused_at_the_door() {
        for bad in [
            json!("text"),
            json!([]),
            json!({"type": "objekt"}),
            json!({"properties": 3}),
            json!({"$ref": "#/$defs/none"}),
        ] {
            assert!(check_schema(&bad).is_err(), "{bad}");
        }
        assert!(check_schema(&json!({"$ref": "https://example.com/schema.json"})).is_err());
        assert!(check_schema(&json!({"$ref": "file:///etc/passwd"})).is_err());
        assert!(check_schema(&json!({"description": "x".repeat(SCHEMA_LIMIT)})).is_err());
        for good in [person(), tree(), json!({})] {
            check_schema(&good).unwrap();
        }
    }

    #[test]
    fn the_value_is_found_in_what_models_wrap_around_it() {
        let structure = Structure::new(&person()).unwrap();
        let wanted = r#"{"name":"Ada","age":36}"#;
        for answer in [
            wanted.to_owned(),
            format!("  {wanted}\n"),
            format!("```json\n{wanted}\n```"),
            format!("Here it is:\n```\n{wanted}\n```\nDone."),
            format!("The {{answer}} is {wanted}. Ask {{me}} more."),
        ] {
            assert_eq!(structure.check(&answer).unwrap(), wanted, "{answer}");
        }
    }

    #[test]
    fn faults_name_their_place() {
        let structure = Structure::new(&person()).unwrap();
        let fault = structure.check(r#"{"name":"Ada","age":"x"}"#).unwrap_err();
        assert!(fault.contains("/age"), "{fault}");
        assert_eq!(structure.check("no idea").unwrap_err(), "the answer is no JSON");
    }

    #[test]
    fn recursion_is_kept_and_checked() {
        let structure = Structure::new(&tree()).unwrap();
        let format = structure.response_format();
        assert_eq!(
            format.pointer("/json_schema/schema/$defs/node/properties/children/items/$ref"),
            Some(&json!("#/$defs/node"))
        );
        assert_eq!(format.pointer("/json_schema/strict"), Some(&json!(true)));
        structure.check(r#"{"name":"a","children":[{"name":"b","children":[]}]}"#).unwrap();
        assert!(structure.check(r#"{"name":"a","children":[{"name":1,"children":[]}]}"#).is_err());
    }

    #[test]
    fn only_what_stays_the_same_schema_is_strict() {
        let format = Structure::new(&person()).unwrap().response_format();
        assert_eq!(format["json_schema"]["strict"], true);
        assert_eq!(format["json_schema"]["schema"]["additionalProperties"], false);
        assert_eq!(format["json_schema"]["name"], "answer");
        for open in [
            json!({"type": "object", "properties": {"a": {}}}),
            json!({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": true}),
            json!({"type": "object"}),
            json!({"allOf": [person()]}),
        ] {
            let format = Structure::new(&open).unwrap().response_format();
            assert_eq!(format["json_schema"], json!({"name": "answer", "strict": false, "schema": open}));
        }
    }
}
