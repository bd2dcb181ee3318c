//! What a picture of H.264 is to the others, from the first bytes of its slices.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// More parts than this has no picture of an encoder that anybody uses.
const MOST_UNITS: usize = 512;
/// Where the boxes of a sample description begin: behind `stsd`'s head, its count, and the fixed part of the first entry.
const BOXES_FROM: usize = 8 + 8 + 8 + 78;

/// How many bytes tell the length of a part. Invariant: 1, 2 or 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LengthSize(u32);

/// What a picture is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An IDR picture: nothing behind it leans on anything before it.
    Beginning,
    /// Others may lean on it.
    LeanedOn,
    /// No other picture leans on it.
    LeanedOnByNone,
}

impl LengthSize {
    /// From an `stsd` box with one H.264 entry; `None` for another.
    pub(super) fn of(description: &[u8]) -> Option<Self> {
        let is_one = description.get(12..16)? == [0, 0, 0, 1];
        let is_h264 = matches!(description.get(20..24)?, b"avc1" | b"avc3");
        if !is_one || !is_h264 {
            return None;
        }
        let mut boxes = description.get(BOXES_FROM..)?;
        loop {
            let size = usize::try_from(u32::from_be_bytes(boxes.get(..4)?.try_into().ok()?)).ok()?;
            if boxes.get(4..8)? == b"avcC" {
                let bytes = u32::from(*boxes.get(12)? & 3) + 1;
                return matches!(bytes, 1 | 2 | 4).then_some(Self(bytes));
            }
            boxes = boxes.get(size.max(8)..)?;
        }
    }
}

/// Reads the heads of a packet's parts; `None` if it is not made as H.264 in MP4 is.
pub(super) fn role(file: &File, offset: u64, size: u32, length_size: LengthSize) -> io::Result<Option<Role>> {
    let LengthSize(bytes) = length_size;
    let mut at = 0_u64;
    let (mut has_slice, mut is_leaned_on, mut is_beginning) = (false, false, false);
    for _unit in 0..MOST_UNITS {
        if at + u64::from(bytes) + 1 > u64::from(size) {
            let role = match (is_beginning, is_leaned_on) {
                (true, _) => Role::Beginning,
                (false, true) => Role::LeanedOn,
                (false, false) => Role::LeanedOnByNone,
            };
            return Ok((has_slice && at == u64::from(size)).then_some(role));
        }
        let mut head = [0; 5];
        let head = &mut head[..=usize::try_from(bytes).map_err(io::Error::other)?];
        file.read_exact_at(head, offset + at)?;
        let (length, kind) = head.split_at(head.len() - 1);
        let length = length.iter().fold(0_u64, |length, &byte| length << 8 | u64::from(byte));
        let (kind, reference) = (kind[0] & 0x1f, kind[0] >> 5 & 3);
        match kind {
            1..=5 => {
                has_slice = true;
                is_leaned_on |= reference > 0;
                is_beginning |= kind == 5;
            }
            // Layers and views of the extensions lean on each other in ways of their own.
            14 | 15 | 20 | 21 => return Ok(None),
            _ => {}
        }
        at += u64::from(bytes) + length;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn role_of(units: &[(u8, usize)]) -> Option<Role> {
        let mut file = tempfile::tempfile().unwrap();
        let mut packet = vec![0xaa; 3];
        for &(head, length) in units {
            packet.extend(u32::try_from(length).unwrap().to_be_bytes());
            packet.push(head);
            packet.extend(vec![0; length - 1]);
        }
        file.write_all(&packet).unwrap();
        role(&file, 3, u32::try_from(packet.len() - 3).unwrap(), LengthSize(4)).unwrap()
    }

    #[test]
    fn slices_tell_what_a_picture_is() {
        assert_eq!(role_of(&[(0x09, 2), (0x67, 9), (0x65, 50)]), Some(Role::Beginning));
        assert_eq!(role_of(&[(0x06, 7), (0x41, 50), (0x41, 50)]), Some(Role::LeanedOn));
        assert_eq!(role_of(&[(0x01, 50)]), Some(Role::LeanedOnByNone));
        // Two fields in a packet: the second one leans on the first.
        assert_eq!(role_of(&[(0x41, 50), (0x01, 50)]), Some(Role::LeanedOn));
    }

    #[test]
    fn what_is_made_otherwise_has_no_role() {
        assert_eq!(role_of(&[(0x06, 7)]), None, "no slice");
        assert_eq!(role_of(&[(0x6e, 7), (0x01, 50)]), None, "layers");
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0, 0, 0, 90, 0x01, 0, 0, 0]).unwrap();
        assert_eq!(role(&file, 0, 8, LengthSize(4)).unwrap(), None, "a part that is longer than its packet");
    }

    #[test]
    fn the_length_of_lengths_stands_in_the_description() {
        let mut description = vec![0; BOXES_FROM];
        description[15] = 1;
        description[20..24].copy_from_slice(b"avc1");
        description.extend([0, 0, 0, 10, b'p', b'a', b's', b'p', 0, 0]);
        description.extend([0, 0, 0, 13, b'a', b'v', b'c', b'C', 1, 100, 0, 31, 0xff]);
        assert_eq!(LengthSize::of(&description), Some(LengthSize(4)));
        description[20..24].copy_from_slice(b"hvc1");
        assert_eq!(LengthSize::of(&description), None);
    }
}
