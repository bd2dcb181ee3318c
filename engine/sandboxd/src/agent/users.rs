//! The sandbox's users and groups, from its own files.

use std::fs;

const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// A user of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: String,
}

impl User {
    /// The user of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        users(&text(PASSWD)).find(|user| user.name == name)
    }

    /// Every group it is in, its own first.
    pub(super) fn groups(&self) -> Vec<u32> {
        let mut groups = vec![self.gid];
        groups.extend(groups_with(&text(GROUP), &self.name).filter(|gid| *gid != self.gid));
        groups
    }
}

/// Name of a user; the number where it has none.
pub(super) fn user_name(uid: u32) -> String {
    name_of(&text(PASSWD), uid)
}

/// Name of a group; the number where it has none.
pub(super) fn group_name(gid: u32) -> String {
    name_of(&text(GROUP), gid)
}

/// A root without these files has no users.
fn text(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

fn users(text: &str) -> impl Iterator<Item = User> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        let home = fields.nth(1)?;
        Some(User { name: name.to_owned(), uid, gid, home: home.to_owned() })
    })
}

fn groups_with(text: &str, member: &str) -> impl Iterator<Item = u32> {
    text.lines().filter_map(move |line| {
        let mut fields = line.split(':');
        let gid = fields.nth(2)?.parse().ok()?;
        fields.next()?.split(',').any(|name| name == member).then_some(gid)
    })
}

fn name_of(text: &str, id: u32) -> String {
    let id = id.to_string();
    let name = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    });
    name.unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::{User, groups_with, name_of, users};

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\nbroken line\nuser:x:1000:1001:,,,:/home/user:/bin/bash\n";
    const GROUP: &str = "root:x:0:\nsudo:x:27:user,other\nvideo:x:44:username\nuser:x:1001:\n";

    #[test]
    fn users_are_found_by_name_and_broken_lines_are_passed_over() {
        let user = users(PASSWD).find(|user| user.name == "user");
        let wanted = User { name: "user".to_owned(), uid: 1000, gid: 1001, home: "/home/user".to_owned() };
        assert_eq!(user, Some(wanted));
        assert_eq!(users(PASSWD).count(), 2);
    }

    #[test]
    fn a_member_is_a_whole_name() {
        assert_eq!(groups_with(GROUP, "user").collect::<Vec<_>>(), [27]);
    }

    #[test]
    fn a_number_without_a_name_stays_a_number() {
        assert_eq!(name_of(PASSWD, 1000), "user");
        assert_eq!(name_of(GROUP, 27), "sudo");
        assert_eq!(name_of(GROUP, 4242), "4242");
    }
}
