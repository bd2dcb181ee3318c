//! Whole blocks of Markdown as lines for a terminal.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::inline::{Paragraph, Style};
use super::{Look, printable};

/// What code stands behind.
const CODE_MARGIN: &str = "    ";
const QUOTE_MARGIN: &str = "│ ";
const BULLET: &str = "• ";
/// Narrower than this nothing is wrapped sensibly.
const LEAST_COLUMNS: usize = 20;
/// Wider than this lines are hard to read.
const MOST_COLUMNS: usize = 100;

/// Blocks as lines, each with its line break.
pub(super) fn render(markdown: &str, look: Look) -> String {
    let mut page = Page { look, ..Page::default() };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        page.take(event);
    }
    page.end_paragraph();
    page.lines.into_iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// A list that is open.
#[derive(Debug)]
struct List {
    /// The number of the next item, in a numbered list.
    next: Option<u64>,
}

/// A table that is open.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<Vec<(String, usize)>>,
}

#[derive(Debug)]
struct Page {
    look: Look,
    lines: Vec<String>,
    paragraph: Paragraph,
    style: Style,
    lists: Vec<List>,
    /// What stands before every line, by depth.
    margins: Vec<String>,
    /// What stands before the next line instead of the last margin.
    marker: Option<String>,
    is_code_block: bool,
    link: Option<String>,
    link_text: String,
    table: Option<Table>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            look: Look { columns: MOST_COLUMNS, is_styled: false },
            lines: Vec::new(),
            paragraph: Paragraph::default(),
            style: Style::default(),
            lists: Vec::new(),
            margins: Vec::new(),
            marker: None,
            is_code_block: false,
            link: None,
            link_text: String::new(),
            table: None,
        }
    }
}

impl Page {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_code_block => self.code(&text),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                let around = std::mem::replace(&mut self.style.is_code, true);
                self.text(&text);
                self.style.is_code = around;
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.paragraph.line_break(),
            Event::Rule => {
                self.gap();
                let line = "─".repeat(self.columns().min(40));
                self.line(&line);
            }
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
            Event::TaskListMarker(is_done) => self.text(if is_done { "[x] " } else { "[ ] " }),
        }
    }

    fn begin(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock | Tag::FootnoteDefinition(_) => self.gap(),
            Tag::Heading { .. } => {
                self.gap();
                self.style.is_bold = true;
            }
            Tag::BlockQuote(_) => {
                self.gap();
                self.margins.push(QUOTE_MARGIN.to_owned());
            }
            Tag::CodeBlock(_) => {
                self.gap();
                self.is_code_block = true;
            }
            Tag::List(next) => {
                self.end_paragraph();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(List { next });
            }
            Tag::Item => {
                self.end_paragraph();
                let marker = match self.lists.last_mut().and_then(|list| list.next.as_mut()) {
                    Some(number) => {
                        let marker = format!("{number}. ");
                        *number += 1;
                        marker
                    }
                    None => BULLET.to_owned(),
                };
                self.margins.push(" ".repeat(marker.chars().count()));
                self.marker = Some(marker);
            }
            Tag::Table(_) => {
                self.gap();
                self.table = Some(Table::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::Emphasis => self.style.is_italic = true,
            Tag::Strong => self.style.is_bold = true,
            Tag::Strikethrough => self.style.is_struck = true,
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some(dest_url.into_string());
                self.link_text.clear();
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::FootnoteDefinition => self.end_paragraph(),
            TagEnd::Heading(_) => {
                self.end_paragraph();
                self.style.is_bold = false;
            }
            TagEnd::BlockQuote(_) => {
                self.end_paragraph();
                self.margins.pop();
            }
            TagEnd::CodeBlock => self.is_code_block = false,
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::Item => {
                self.end_paragraph();
                self.margins.pop();
                self.marker = None;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.paragraph).line();
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => self.end_table(),
            TagEnd::Emphasis => self.style.is_italic = false,
            TagEnd::Strong => self.style.is_bold = false,
            TagEnd::Strikethrough => self.style.is_struck = false,
            TagEnd::Link | TagEnd::Image => {
                let link = self.link.take().unwrap_or_default();
                if !link.is_empty() && link != self.link_text {
                    self.text(&format!(" ({link})"));
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.link.is_some() {
            self.link_text.push_str(text);
        }
        self.paragraph.push(text, self.style, self.look);
    }

    fn code(&mut self, text: &str) {
        for line in printable(text).lines() {
            self.line(&format!("{CODE_MARGIN}{line}"));
        }
    }

    /// An empty line between blocks, though not in lists, which stay tight.
    fn gap(&mut self) {
        self.end_paragraph();
        if self.lists.is_empty() && self.lines.last().is_some_and(|line| !line.is_empty()) && self.marker.is_none() {
            let is_first_in_quote = !self.margins.is_empty() && self.lines.last().is_some_and(String::is_empty);
            if !is_first_in_quote {
                self.lines.push(String::new());
            }
        }
    }

    fn end_paragraph(&mut self) {
        if self.table.is_some() || self.paragraph.is_empty() {
            return;
        }
        let columns = self.columns();
        for line in std::mem::take(&mut self.paragraph).lines(columns) {
            self.line(&line);
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        let columns = table.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |at: usize| table.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.1).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(widest).collect();
        for (number, row) in table.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|((text, used), width)| text.clone() + &" ".repeat(width - used));
            self.line(&cells.collect::<Vec<_>>().join("  "));
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                self.line(&rules.join("  "));
            }
        }
    }

    /// Adds a line behind the margins.
    fn line(&mut self, text: &str) {
        let mut line = String::new();
        let inner = self.margins.len().saturating_sub(1);
        for (depth, margin) in self.margins.iter().enumerate() {
            let marker = if depth == inner { self.marker.take() } else { None };
            line.push_str(marker.as_deref().unwrap_or(margin));
        }
        line.push_str(text);
        self.lines.push(line);
    }

    /// Columns that are left for text.
    fn columns(&self) -> usize {
        let margins: usize = self.margins.iter().map(|margin| margin.chars().count()).sum();
        self.look.columns.min(MOST_COLUMNS).saturating_sub(margins).max(LEAST_COLUMNS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(markdown: &str) -> String {
        render(markdown, Look { columns: 30, is_styled: false })
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(plain("one two three four five six seven eight"), "one two three four five six\nseven eight\n");
        assert_eq!(plain("a  \nb"), "a\nb\n");
        assert_eq!(plain("日本語日本語 日本語日本語日本語"), "日本語日本語\n日本語日本語日本語\n");
    }

    #[test]
    fn lists_keep_their_numbers_and_their_depth() {
        assert_eq!(
            plain("3. three\n   - inner words that are longer than a line\n4. four\n\n\n* a\n* b"),
            "3. three\n   • inner words that are\n     longer than a line\n4. four\n\n• a\n• b\n"
        );
    }

    #[test]
    fn quotes_code_tables_and_links_are_told_apart() {
        assert_eq!(plain("> quoted\n> text\n\nbehind"), "│ quoted text\n\nbehind\n");
        assert_eq!(plain("```rust\nfn a() {\n    b\n}\n```"), "    fn a() {\n        b\n    }\n");
        assert_eq!(
            plain("| time | what |\n|---|---|\n| 1:02 | a **door** |"),
            "time  what\n────  ──────\n1:02  a door\n"
        );
        assert_eq!(plain("[here](https://h/x), <https://h/y>"), "here (https://h/x),\nhttps://h/y\n");
    }

    #[test]
    fn style_is_codes_around_words() {
        let styled = render("**bold**, `code` and\n# Head", Look { columns: 80, is_styled: true });
        assert_eq!(styled, "\u{1b}[1mbold\u{1b}[0m, \u{1b}[36mcode\u{1b}[0m and\n\n\u{1b}[1mHead\u{1b}[0m\n");
    }
}
