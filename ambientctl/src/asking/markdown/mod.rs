//! The Markdown of answers on a terminal, block by block while it is still being written.
//!
//! What is written is a model's, perhaps led by what stands in a video, so no control character of it reaches the
//! terminal: it could move the cursor, or worse. Without colour the same text comes out without any codes.

mod inline;
mod render;

use render::render;

/// How a terminal is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Columns; lines are wrapped there.
    pub(super) columns: usize,
    /// Whether codes for bold and colour are wanted.
    pub(super) is_styled: bool,
}

/// Text that is being written, given out in whole blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    look: Look,
    pending: String,
    has_begun: bool,
}

impl Blocks {
    pub(super) fn new(look: Look) -> Self {
        Self { look, pending: String::new(), has_begun: false }
    }

    /// Takes more text in, and gives what can be shown now.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.pending.push_str(text);
        match end_of_blocks(&self.pending) {
            0 => String::new(),
            end => {
                let rest = self.pending.split_off(end);
                let whole = std::mem::replace(&mut self.pending, rest);
                self.show(&whole)
            }
        }
    }

    /// Gives the rest.
    pub(super) fn finish(mut self) -> String {
        let rest = std::mem::take(&mut self.pending);
        self.show(&rest)
    }

    fn show(&mut self, markdown: &str) -> String {
        let shown = render(markdown, self.look);
        if shown.is_empty() {
            return shown;
        }
        // Blocks have an empty line between them.
        if std::mem::replace(&mut self.has_begun, true) { format!("\n{shown}") } else { shown }
    }
}

/// Where the last block ends that nothing can be added to: before an empty line that is in no fence and is followed by
/// the beginning of something else, not by a line that goes on with a list or its content.
fn end_of_blocks(text: &str) -> usize {
    let (mut end, mut at) = (0, 0);
    let mut fence: Option<String> = None;
    let mut is_behind_empty_line = false;
    for line in text.split_inclusive('\n') {
        let content = line.trim();
        let starts_block = is_behind_empty_line
            && !content.is_empty()
            && !line.starts_with([' ', '\t'])
            && !may_be_item(content)
            && fence.is_none();
        if starts_block {
            end = at;
        }
        let ticks = content.chars().take_while(|letter| *letter == '`' || *letter == '~').count();
        match &fence {
            Some(open) => {
                if content.starts_with(open.as_str()) && content.chars().all(|letter| open.starts_with(letter)) {
                    fence = None;
                }
            }
            None => fence = (ticks >= 3).then(|| content.chars().take(ticks).collect()),
        }
        is_behind_empty_line = content.is_empty() && fence.is_none();
        at += line.len();
    }
    end
}

/// Whether a line may be an item of a list, as far as its first letters tell.
fn may_be_item(content: &str) -> bool {
    let behind_number = content.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered =
        behind_number.len() < content.len() && (behind_number.is_empty() || behind_number.starts_with(['.', ')']));
    is_numbered || content.starts_with(['-', '*', '+'])
}

/// A text that does nothing to a terminal but stand there.
pub(super) fn printable(text: &str) -> String {
    let harmless = |letter: &char| !letter.is_control() || matches!(letter, '\n' | '\t');
    text.chars().filter(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Look = Look { columns: 40, is_styled: false };

    #[test]
    fn blocks_come_as_soon_as_they_are_whole() {
        let mut blocks = Blocks::new(PLAIN);
        assert_eq!(blocks.push("First **line**"), "");
        assert_eq!(blocks.push(" ends.\n\n"), "");
        assert_eq!(blocks.push("Sec"), "First line ends.\n");
        assert_eq!(blocks.push("ond.\n\n```\na\n\nb\n"), "\nSecond.\n");
        assert_eq!(blocks.push("```\n\nThird"), "\n    a\n\n    b\n");
        assert_eq!(blocks.finish(), "\nThird\n");
    }

    #[test]
    fn a_list_with_empty_lines_stays_one() {
        let mut blocks = Blocks::new(PLAIN);
        assert_eq!(blocks.push("1. one\n\n2. two\n\n   more\n\n10"), "");
        assert_eq!(blocks.push("0 men\n"), "1. one\n2. two\n   more\n");
        assert_eq!(blocks.finish(), "\n100 men\n");
    }

    #[test]
    fn however_it_is_cut_the_same_is_shown() {
        let text = "# A\n\nb *c*\nd\n\n- e\n- f\n\n> g\n\n| h | i |\n|---|---|\n| 1 | 2 |\n\nend";
        let mut whole = Blocks::new(PLAIN);
        let mut shown = whole.push(text);
        shown.push_str(&whole.finish());
        for length in 1..8 {
            let mut cut = Blocks::new(PLAIN);
            let letters: Vec<char> = text.chars().collect();
            let mut pieces = String::new();
            for piece in letters.chunks(length) {
                pieces.push_str(&cut.push(&piece.iter().collect::<String>()));
            }
            pieces.push_str(&cut.finish());
            assert_eq!(pieces, shown, "in pieces of {length}");
        }
    }

    #[test]
    fn nothing_of_it_commands_the_terminal() {
        let mut blocks = Blocks::new(Look { columns: 80, is_styled: false });
        let mut shown = blocks.push("a\u{1b}[2Jb `c\u{1b}]0;x\u{7}` \u{9b}1m\n\n```\n\u{1b}c\n```\n");
        shown.push_str(&blocks.finish());
        assert!(!shown.chars().any(|letter| letter.is_control() && letter != '\n'), "{shown:?}");
        assert_eq!(printable("a\u{1b}\tb\r\n"), "a\tb\n");
    }
}
