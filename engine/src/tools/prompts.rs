//! What the models are told about and by the tools, in one place.

/// Tells the video model how its times count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// It gets a clip, which begins at 00:00.
    OfTheClip,
    /// It gets frames, each behind its time in the video.
    OfTheVideo,
}

impl Clock {
    fn rule(self) -> &'static str {
        match self {
            Self::OfTheClip => {
                "You are given a clip of a longer video. Count time from the beginning of the clip, which is 00:00."
            }
            Self::OfTheVideo => {
                "You are given frames of a part of a longer video, each right behind its time in that video. They are all \
                 you know of it: what happens between two of them you do not see. Use the times that stand at the frames."
            }
        }
    }
}

const CITE: &str = "Put every time that you name into a tag: <citation>mm:ss</citation> for a moment, \
    <citation>mm:ss::mm:ss</citation> for a stretch. No other form of time.";

const HONEST: &str = "Report only what can be seen, read or heard. Where something is not there or not clear, say so: a wrong \
    finding costs more than none.";

/// For `search_clip`: a question about a window.
pub(crate) fn search(clock: Clock) -> String {
    format!(
        "You answer a question about a part of a video for somebody who cannot see it. {}\n\
         First look through all of it and note what bears on the question, between <overview> and </overview>. Then answer, \
         between <answer> and </answer>, with everything that was asked for and the times at which it can be seen.\n\
         {CITE}\n{HONEST}",
        clock.rule()
    )
}

/// For `focus_clip`: what happens in a window.
pub(crate) fn focus(clock: Clock) -> String {
    format!(
        "You describe a part of a video for somebody who cannot see it and has to rely on you. {}\n\
         Between <video_description> and </video_description>, tell in the order of time what is seen and heard: who and what \
         is there and where, what changes, what is done, words that can be read or are spoken, cuts and camera moves.\n\
         {CITE}\n{HONEST}",
        clock.rule()
    )
}

/// For `annotate_frames`: boxes on frames.
pub(crate) const ANNOTATE: &str = "You find things in frames of a video for somebody who cannot see them. Each frame stands \
    right behind its number and time. For each frame that shows what is asked for, write\n\
    <annotation frame=\"NUMBER\">[{\"box\": [y_min, x_min, y_max, x_max], \"label\": \"what it is\"}]</annotation>\n\
    with a box for each thing, on a grid from 0 to 1000 over the height and width of the frame, tight around it. Then say in \
    one or two sentences what the frames show about the request. Leave out a frame that does not show it, and say so if none \
    does.";

/// Of the video as a window, in `parts` of a question.
pub(crate) fn clip_caption(window: &str) -> String {
    format!("Clip of the video from {window}:")
}

/// Before the frames of a window.
pub(crate) fn frames_caption(count: usize, window: &str) -> String {
    format!("{count} frames of the video from {window}, each behind its time:")
}

/// Before a picture: when it is seen.
pub(crate) fn frame_label(time: &str) -> String {
    format!("Frame at {time}:")
}

pub(crate) const SEARCH_CLIP: &str = "Ask the video model a question about a window of the video. It watches the window and \
    answers with times. Use it to find where something happens, or to get one fact out of a stretch; ask several windows side \
    by side to cover a long video. A window is at most 300 seconds long.";

pub(crate) const FOCUS_CLIP: &str = "Have the video model watch a window of the video closely and tell in detail what happens \
    in it, with times. Use it once you know where to look. A window is at most 300 seconds long; shorter ones are told more \
    exactly.";

pub(crate) const SHOW_CLIP: &str = "Look at a window of the video yourself: you get it as a clip, or as frames with their \
    times, in the next message. Start with wide windows side by side, then narrow ones where it matters. A window is at most \
    300 seconds long; the shorter it is, the more you see of each second.";

pub(crate) const GRAB_FRAMES: &str = "Get up to 6 still frames of the video, evenly over a span of at most 5 seconds, each with \
    its exact time. Use them to read text, count things, or settle a moment to the fraction of a second.";

pub(crate) const ANNOTATE_FRAMES: &str = "Have the video model find things in up to 6 frames, evenly over a span of at most 5 \
    seconds. You get a box for each thing (on a grid of 0 to 1000: y_min, x_min, y_max, x_max) with the time of its frame, and \
    what the frames show.";

pub(crate) const DRAW_BOUNDING_BOX: &str = "Draw labelled boxes on the frame that is shown at a moment, and get the picture to \
    check that they sit right. Coordinates count from 0 to 1000 over the height and the width of the frame, whatever its size \
    in pixels: [y_min, x_min, y_max, x_max], from the upper left corner.";

pub(crate) const DRAW_POINT: &str = "Mark labelled points on the frame that is shown at a moment, and get the picture to check \
    them, with their places in pixels. Coordinates count from 0 to 1000 over the width and the height of the frame: [x, y], \
    from the upper left corner.";

pub(crate) const READ_IMAGE: &str = "Look at a picture file (JPEG or PNG) in the session's workspace, such as one that a shell \
    command made.";

pub(crate) const UPLOAD_ARTIFACT: &str = "Put a file of the session's workspace where the user can download it, and get the \
    link to give to the user.";

pub(crate) const BASH: &str = "Run a command with `/bin/sh -c` in the session's workspace, where the video lies as a read-only \
    file; ffmpeg and ffprobe are usually there. You get the exit code and the output, long output cut in the middle. The \
    command has no terminal and no input. What it leaves in the background may go on until the session ends.";

pub(crate) const START_TIME: &str = "Where the window begins, in seconds of the video.";
pub(crate) const END_TIME: &str = "Where the window ends, in seconds of the video.";
pub(crate) const VIDEO_PATH: &str = "Another video file instead of the session's own: the path of a file in the session's \
    workspace. Leave it out for the session's video.";
pub(crate) const FRAME_TIMESTAMP: &str = "The moment, in seconds of the video.";
pub(crate) const LABEL: &str = "What it is, in a word or two.";

/// Behind a picture with boxes or points.
pub(crate) const VERIFY: &str = "Check on the picture, in the next message, that each mark sits where you meant it; if one does \
    not, call the tool again with better coordinates.";
