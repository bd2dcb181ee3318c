//! Switches the loopback interface of a new network on.
//!
//! One netlink message (`RTM_NEWLINK` that sets `IFF_UP`), written out: the sandbox's root need not have `ip`, and the host's is no longer
//! there.

use std::io;
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket};

/// The kernel numbers it so in every network.
const LOOPBACK_INDEX: i32 = 1;
const RTM_NEWLINK: u16 = 16;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLMSG_ERROR: u16 = 2;
const IFF_UP: u32 = 1;
const MESSAGE_BYTES: u32 = 32;

/// Switches it on.
pub(super) fn switch_on() -> io::Result<()> {
    let socket = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    sendto(socket.as_raw_fd(), &message(), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = [0_u8; 1024];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let error = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, error) {
        (Some(NLMSG_ERROR), Some(0)) if length >= 20 => Ok(()),
        (Some(NLMSG_ERROR), Some(code)) if length >= 20 => Err(io::Error::from_raw_os_error(-code)),
        _ => Err(io::Error::other("the kernel's answer to a netlink message cannot be read")),
    }
}

/// `struct nlmsghdr`, then `struct ifinfomsg`.
fn message() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MESSAGE_BYTES as usize);
    bytes.extend(MESSAGE_BYTES.to_ne_bytes());
    bytes.extend(RTM_NEWLINK.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    bytes.extend(1_u32.to_ne_bytes()); // sequence
    bytes.extend(0_u32.to_ne_bytes()); // sender: the kernel fills it in
    bytes.extend([0, 0]); // family, padding
    bytes.extend(0_u16.to_ne_bytes()); // device type
    bytes.extend(LOOPBACK_INDEX.to_ne_bytes());
    bytes.extend(IFF_UP.to_ne_bytes()); // flags
    bytes.extend(IFF_UP.to_ne_bytes()); // which flags to change
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_message_is_as_long_as_it_says() {
        let message = super::message();
        assert_eq!(message.len(), super::MESSAGE_BYTES as usize);
        assert_eq!(message[..4], super::MESSAGE_BYTES.to_ne_bytes());
    }
}
