//! Archives of COPY steps: uploaded once for each content and team.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use camino::Utf8PathBuf;
use futures::{Stream, StreamExt as _};
use tokio::io::AsyncWriteExt as _;

use crate::config::Team;
use crate::folders::Folders;
use crate::names;

/// Addresses of one team that were given out and not yet used. The oldest make room.
const MOST_ADDRESSES: usize = 1_000;

/// An archive saves uploads while a template is worked on; later it only takes room, and clients send it again.
const KEPT: Duration = Duration::from_hours(7 * 24);

/// Why an archive was not kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveFailure {
    #[error("Invalid files hash")]
    BadHash,
    #[error("this address allows no upload; ask for another")]
    UnknownAddress,
    #[error("the upload broke off: {0}")]
    CutOff(String),
    #[error("the archive cannot be kept")]
    Io(#[from] io::Error),
}

/// The archives.
#[derive(Debug)]
pub(crate) struct Archives {
    folders: Arc<Folders>,
    addresses: Mutex<Addresses>,
}

/// Who has the word in an address may upload the archive that it stands for.
#[derive(Debug, Default)]
struct Addresses {
    places: HashMap<String, Utf8PathBuf>,
    /// The words of each team, oldest first; used ones among them.
    given: HashMap<Team, VecDeque<String>>,
}

impl Addresses {
    fn add(&mut self, team: &Team, word: String, place: Utf8PathBuf) {
        let given = self.given.entry(team.clone()).or_default();
        if given.len() >= MOST_ADDRESSES
            && let Some(oldest) = given.pop_front()
        {
            self.places.remove(&oldest);
        }
        given.push_back(word.clone());
        self.places.insert(word, place);
    }
}

impl Archives {
    pub(crate) fn new(folders: Arc<Folders>) -> Self {
        Self { folders, addresses: Mutex::default() }
    }

    /// Removes archives that were uploaded long ago.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        for team in std::fs::read_dir(self.folders.archives())? {
            for archive in std::fs::read_dir(team?.path())? {
                let archive = archive?;
                // One from the future is as good as new.
                let age = archive.metadata()?.modified()?.elapsed().unwrap_or_default();
                if age > KEPT {
                    std::fs::remove_file(archive.path())?;
                }
            }
        }
        Ok(())
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where an archive is, or would be.
    pub(crate) fn place(&self, team: &Team, hash: &str) -> Result<Utf8PathBuf, ArchiveFailure> {
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hash {
            return Err(ArchiveFailure::BadHash);
        }
        Ok(self.folders.archives().join(team.name()).join(hash))
    }

    /// The word for an address at which this archive may be uploaded once.
    pub(crate) fn open_address(&self, team: &Team, place: Utf8PathBuf) -> String {
        let word = names::token();
        self.addresses().add(team, word.clone(), place);
        word
    }

    /// Keeps what is uploaded, once it is whole.
    pub(crate) async fn store<E: std::fmt::Display>(
        &self,
        word: &str,
        mut bytes: impl Stream<Item = Result<Bytes, E>> + Unpin,
    ) -> Result<(), ArchiveFailure> {
        let place = self.addresses().places.get(word).cloned().ok_or(ArchiveFailure::UnknownAddress)?;
        let folder = place.parent().unwrap_or(&place);
        tokio::fs::create_dir_all(folder).await?;
        let (file, partial) = tempfile::NamedTempFile::new_in(self.folders.unfinished())?.into_parts();
        let mut file = tokio::fs::File::from_std(file);
        while let Some(next) = bytes.next().await {
            let next = next.map_err(|error| ArchiveFailure::CutOff(error.to_string()))?;
            file.write_all(&next).await?;
        }
        file.flush().await?;
        partial.persist(&place).map_err(|error| error.error)?;
        self.addresses().places.remove(word);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;
    use secrecy::SecretString;

    use super::{Addresses, MOST_ADDRESSES};
    use crate::config::Teams;

    #[test]
    fn the_oldest_addresses_of_a_team_make_room_and_those_of_no_other() {
        let teams = Teams::new(&[SecretString::from("e2b_a"), SecretString::from("e2b_b")]);
        let (ours, theirs) = (teams.find("e2b_a").unwrap(), teams.find("e2b_b").unwrap());
        let mut addresses = Addresses::default();
        let add = |addresses: &mut Addresses, team, word: String| addresses.add(team, word, Utf8PathBuf::new());
        add(&mut addresses, &theirs, "theirs".to_owned());
        for number in 0..=MOST_ADDRESSES {
            add(&mut addresses, &ours, format!("ours {number}"));
        }
        let known = |word: &str| addresses.places.contains_key(word);
        assert_eq!((known("ours 0"), known("ours 1"), known("theirs")), (false, true, true));
        assert_eq!(addresses.places.len(), MOST_ADDRESSES + 1);
    }
}
