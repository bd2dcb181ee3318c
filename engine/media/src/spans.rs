//! The indexes of several stretches of one file, by one look at it.
//!
//! Opening a film of hours takes ffprobe longer than listing a stretch of it, so pictures far apart are looked up together. What was listed is one heap
//! of packets with holes; a stretch that may have a hole in it is left to a look of its own.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::args::probe::Stretch;
use crate::error::MediaError;
use crate::facts::Facts;
use crate::header::Clock;
use crate::index::{Index, Stamp};
use crate::look::BEHIND_NANOS;
use crate::media::Media;

/// Packets further apart than this may have others between them that were not listed.
const HOLE_NANOS: i128 = 1_000_000_000;

impl Media {
    /// For each span of ticks the pictures from the one on screen at its beginning up to its end; `None` where [`Media::index`] has to look.
    pub(crate) async fn indexes(
        &self,
        facts: &Facts,
        spans: &[(i64, i64)],
        stop: &CancellationToken,
    ) -> Result<Vec<Option<Arc<Index>>>, MediaError> {
        let Facts { opened, video, first, .. } = facts;
        let is_plain = opened.container.seeks_by_index() && matches!(video.clock, Clock::Stored);
        if spans.len() < 2 || facts.whole.is_some() || !is_plain {
            return Ok(vec![None; spans.len()]);
        }
        let base = video.timeline.base();
        let stretches: Vec<Stretch> = spans
            .iter()
            .map(|&(from, to)| Stretch {
                from: Some(base.nanos(from)).filter(|_nanos| from > *first),
                to: Some(base.nanos(to).saturating_add(BEHIND_NANOS)),
            })
            .collect();
        let listed = self.packets(opened, &video.clock, Some(video.index), &stretches, stop).await?;
        let heap = ordered(listed, video.index);
        let index = |&(from, to): &(i64, i64)| {
            let beyond = base.floor(base.nanos(to).saturating_add(BEHIND_NANOS));
            let piece = piece(&heap, from, beyond)?;
            let times = piece.iter().map(|stamp| Some(base.nanos(stamp.decoded?))).collect::<Option<Vec<_>>>()?;
            let has_hole = times.windows(2).any(|pair| pair[1] - pair[0] > HOLE_NANOS);
            let index = Index::build(piece, video.index, false)?.with_packets(piece, video.index);
            (!has_hole && index.shown_at(from).is_some()).then(|| Arc::new(index))
        };
        Ok(spans.iter().map(index).collect())
    }
}

/// The packets of a stream in the order of decoding, each once; none if one lacks its time.
fn ordered(mut listed: Vec<Stamp>, stream: u32) -> Vec<Stamp> {
    listed.retain(|stamp| stamp.stream == stream);
    if listed.iter().any(|stamp| stamp.decoded.is_none()) {
        return Vec::new();
    }
    listed.sort_by_key(|stamp| stamp.decoded);
    listed.dedup_by_key(|stamp| stamp.decoded);
    listed
}

/// From the last key frame that is on screen at `from` to the last packet before `beyond`.
fn piece(heap: &[Stamp], from: i64, beyond: i64) -> Option<&[Stamp]> {
    let begin = heap.iter().rposition(|stamp| stamp.is_key && stamp.shown.is_some_and(|shown| shown <= from))?;
    let behind = &heap[begin..];
    Some(&behind[..behind.partition_point(|stamp| stamp.decoded <= Some(beyond))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::parse_packets;

    /// Two stretches that overlap, then one far behind.
    const LISTED: &[u8] = b"0,0,0,10,9,48,K_\n0,10,10,10,9,49,__\n0,20,20,10,9,50,__\n\
        0,0,0,10,9,48,K_\n0,10,10,10,9,49,__\n0,20,20,10,9,50,__\n0,30,30,10,9,51,K_\n0,40,40,10,9,52,__\n\
        0,900,900,10,9,80,K_\n0,910,910,10,9,81,__\n";

    fn decoded(from: i64, beyond: i64) -> Vec<i64> {
        let heap = ordered(parse_packets(LISTED), 0);
        piece(&heap, from, beyond).unwrap_or_default().iter().filter_map(|stamp| stamp.decoded).collect()
    }

    #[test]
    fn a_piece_begins_at_a_key_frame_and_has_each_packet_once() {
        assert_eq!(decoded(10, 20), [0, 10, 20]);
        assert_eq!(decoded(35, 60), [30, 40]);
        assert_eq!(decoded(905, 2000), [900, 910]);
        assert_eq!(decoded(-5, 20), Vec::<i64>::new());
    }

    #[test]
    fn packets_without_times_are_not_put_in_order() {
        assert_eq!(ordered(parse_packets(b"0,0,N/A,10,9,48,K_\n"), 0), Vec::new());
    }
}
