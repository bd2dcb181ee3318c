//! Which form of a video a model gets: the video itself, frames of it, or nothing.
//!
//! Pure: from the step, the endpoint, the catalogue and what the server refused before. A model that nobody knows is
//! taken for one that sees everything, and what it refuses is learned.

use super::catalogue::{Catalogue, Modalities};
use super::endpoint::{Endpoint, Service};
use super::quirks::Known;

/// What the media is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The whole video, once, at the front of the conversation.
    Context,
    /// A window of it.
    Clip,
    /// Single frames.
    Frames,
}

/// The form that the media takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plan {
    /// The video itself.
    Video,
    /// Frames of it, evenly.
    Frames {
        /// At most so many.
        max_frames: usize,
        /// At most so often.
        frames_per_second: f64,
    },
    /// The model sees nothing.
    Nothing,
}

impl Step {
    /// Frames and rate that this step may spend.
    fn budget(self) -> (usize, f64) {
        match self {
            Self::Context => (500, 1.0),
            Self::Clip => (300, 2.0),
            Self::Frames => (30, 1.0),
        }
    }
}

/// The longest side of frames and clips, in pixels, when nothing else says so.
pub const MAX_DIMENSION: u32 = 768;
/// Pictures that a server of no known service takes in one request.
const DIRECT_IMAGE_CAP: usize = 1000;
/// Pictures that Vercel's gateway takes in one request.
const VERCEL_IMAGE_CAP: usize = 200;

/// What a model takes, as far as anybody knows.
pub fn accepted(endpoint: &Endpoint, catalogue: &Catalogue, known: &Known) -> Modalities {
    let listed = catalogue.modalities(&endpoint.model).unwrap_or(Modalities::UNKNOWN);
    Modalities { video: listed.video && !known.refused.video, image: listed.image && !known.refused.images, ..listed }
}

/// Pictures that one request may hold, all in all.
pub fn image_cap(endpoint: &Endpoint, catalogue: &Catalogue) -> usize {
    match endpoint.service() {
        Service::Direct => DIRECT_IMAGE_CAP,
        Service::Vercel => VERCEL_IMAGE_CAP,
        Service::OpenRouter => catalogue.route(&endpoint.model).image_cap,
    }
}

/// Decides.
pub fn plan(step: Step, endpoint: &Endpoint, catalogue: &Catalogue, known: &Known) -> Plan {
    let takes = accepted(endpoint, catalogue, known);
    let (frames, frames_per_second) = step.budget();
    let in_frames = Plan::Frames { max_frames: frames.min(image_cap(endpoint, catalogue)), frames_per_second };
    if takes.video && step != Step::Frames {
        let is_direct = endpoint.service() == Service::Direct;
        let is_routed = endpoint.service() == Service::OpenRouter && step == Step::Context && {
            let route = catalogue.route(&endpoint.model);
            route.video && route.provider.is_some()
        };
        if is_direct || is_routed || !takes.image {
            return Plan::Video;
        }
    }
    if takes.image { in_frames } else { Plan::Nothing }
}

/// How many frames of a span are worth sending: as many as the rate gives, at least one, at most the cap.
pub fn frame_count(span_seconds: f64, max_frames: usize, frames_per_second: f64) -> usize {
    let wanted = (span_seconds.max(0.0) * frames_per_second).ceil();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 0; `as` saturates"
    )]
    let wanted = wanted as usize;
    wanted.clamp(1, max_frames.max(1))
}

/// How clips are made for a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quality {
    pub frames_per_second: f64,
    pub max_dimension: u32,
    pub max_size_bytes: u64,
}

impl Quality {
    /// What Gemini takes well; other models get the settings' quality.
    const GEMINI: Self =
        Self { frames_per_second: 2.0, max_dimension: MAX_DIMENSION, max_size_bytes: 14 * 1024 * 1024 };

    /// For a model, with the settings' quality as the default.
    pub fn of(model: &str, default: Self) -> Self {
        if model.to_lowercase().contains("gemini") { Self::GEMINI } else { default }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str, model: &str) -> Endpoint {
        Endpoint { base_url: base_url.into(), api_key: None, model: model.into(), trusted: true }
    }

    fn decide(step: Step, base_url: &str, model: &str, known: &Known) -> Plan {
        plan(step, &endpoint(base_url, model), &Catalogue::built_in(), known)
    }

    const OWN: &str = "http://127.0.0.1:8000/v1";
    const ROUTER: &str = "https://openrouter.ai/api/v1";

    #[test]
    fn an_own_server_gets_videos_until_it_refuses_them() {
        let mut known = Known::default();
        assert_eq!(decide(Step::Context, OWN, "nobody/knows-this", &known), Plan::Video);
        assert_eq!(decide(Step::Clip, OWN, "qwen/qwen3.5-27b", &known), Plan::Video);
        known.refused.video = true;
        assert_eq!(
            decide(Step::Context, OWN, "nobody/knows-this", &known),
            Plan::Frames { max_frames: 500, frames_per_second: 1.0 }
        );
        known.refused.images = true;
        assert_eq!(decide(Step::Context, OWN, "nobody/knows-this", &known), Plan::Nothing);
    }

    #[test]
    fn a_router_gets_videos_only_where_its_provider_takes_them() {
        let known = Known::default();
        assert_eq!(decide(Step::Context, ROUTER, "google/gemini-2.5-pro", &known), Plan::Video);
        assert_eq!(
            decide(Step::Clip, ROUTER, "google/gemini-2.5-pro", &known),
            Plan::Frames { max_frames: 200, frames_per_second: 2.0 }
        );
        assert_eq!(
            decide(Step::Context, ROUTER, "qwen/qwen3.5-27b", &known),
            Plan::Frames { max_frames: 100, frames_per_second: 1.0 }
        );
        assert_eq!(
            decide(Step::Context, "https://ai-gateway.vercel.sh/v1", "google/gemini-2.5-pro", &known),
            Plan::Frames { max_frames: 200, frames_per_second: 1.0 }
        );
    }

    #[test]
    fn words_alone_get_nothing() {
        for step in [Step::Context, Step::Clip, Step::Frames] {
            assert_eq!(decide(step, OWN, "deepseek/deepseek-v3.2", &Known::default()), Plan::Nothing);
        }
    }

    #[test]
    fn a_short_video_gives_few_frames() {
        assert_eq!(frame_count(10.0, 500, 1.0), 10);
        assert_eq!(frame_count(10_000.0, 500, 1.0), 500);
        assert_eq!(frame_count(0.0, 500, 1.0), 1);
        assert_eq!(frame_count(f64::NAN, 500, 1.0), 1);
    }
}
