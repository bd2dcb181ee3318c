//! Statements of a policy, as far as they give a right of ours.

use serde_json::Value;

use crate::Permission;

/// The right that a statement gives on this bucket, where action and resource fit each other as AWS wants them to.
pub(crate) fn allowed(statement: &str, bucket: &str) -> Result<Permission, String> {
    let statement: Value = serde_json::from_str(statement).map_err(|error| error.to_string())?;
    let word = |name: &str| statement.get(name).and_then(Value::as_str).ok_or_else(|| format!("there is no `{name}`"));
    if word("Effect")? != "Allow" {
        return Err("it does not allow anything".to_owned());
    }
    let (whole, objects) = (format!("arn:aws:s3:::{bucket}"), format!("arn:aws:s3:::{bucket}/*"));
    let (permission, wanted) = match word("Action")? {
        "s3:GetObject" => (Permission::Get, objects),
        "s3:PutObject" => (Permission::Put, objects),
        "s3:DeleteObject" => (Permission::Delete, objects),
        "s3:ListBucket" => (Permission::List, whole),
        other => return Err(format!("there is no action `{other}`")),
    };
    let found = word("Resource")?;
    if found == wanted { Ok(permission) } else { Err(format!("`{found}` is not `{wanted}`")) }
}
