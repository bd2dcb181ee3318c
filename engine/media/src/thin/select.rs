//! Which packets are needed to show certain pictures. Pure.

use super::nal::Role;

/// A picture, in the order of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) offset: u64,
    pub(super) size: u32,
    /// When it is shown, in ticks.
    pub(super) shown: i64,
    /// When it is decoded, in ticks.
    pub(super) decoded: i64,
    /// How long it is shown, in ticks; 0 if the file does not say.
    pub(super) length: i64,
    pub(super) role: Role,
    pub(super) is_needed: bool,
}

/// Those that are needed, and those that they may lean on.
pub(super) fn kept(packets: &[Packet]) -> Vec<Packet> {
    let mut kept = Vec::new();
    let begins = |_before: &Packet, packet: &Packet| packet.role != Role::Beginning;
    for run in packets.chunk_by(begins) {
        let Some(last) = run.iter().rposition(|packet| packet.is_needed) else { continue };
        kept.extend(run[..=last].iter().filter(|packet| packet.is_needed || packet.role != Role::LeanedOnByNone));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures by their roles: `I` begins a run, `P` is leaned on, `b` by none; a capital `W` or small `w` are a `P` and a `b` that are wanted.
    fn kept_of(roles: &str) -> String {
        let packet = |(number, role): (usize, char)| Packet {
            offset: number as u64,
            size: 1,
            shown: 0,
            decoded: 0,
            length: 0,
            role: match role {
                'I' => Role::Beginning,
                'P' | 'W' => Role::LeanedOn,
                _ => Role::LeanedOnByNone,
            },
            is_needed: matches!(role, 'W' | 'w'),
        };
        let packets: Vec<Packet> = roles.chars().enumerate().map(packet).collect();
        let roles: Vec<char> = roles.chars().collect();
        let role = |packet: &&Packet| roles[usize::try_from(packet.offset).expect("one of the packets above")];
        kept(&packets).iter().map(|packet| role(&packet)).collect()
    }

    #[test]
    fn what_nobody_leans_on_and_nobody_wants_goes() {
        assert_eq!(kept_of("IPbbPbwPbbW"), "IPPwPW");
        assert_eq!(kept_of("IPPW"), "IPPW");
    }

    #[test]
    fn a_run_ends_with_its_last_wanted_picture() {
        assert_eq!(kept_of("IPwPPPPbbIPPWbPP"), "IPwIPPW");
        assert_eq!(kept_of("IPPPIwPPIPP"), "Iw", "a run without one goes whole");
        assert_eq!(kept_of("IPPP"), "");
    }
}
