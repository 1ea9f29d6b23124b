//! Markdown (GitHub's tables).

use super::Table;

impl Table {
    /// The table as Markdown, with its title, caption and guarantee.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("### {}\n\n", escape(&self.title));
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        out.push_str(&line(
            self.columns
                .iter()
                .map(|c| escape(&c.full_head()))
                .collect(),
        ));
        let rule = |at| if self.is_text(at) { ":--" } else { "--:" }.to_owned();
        out.push_str(&line((0..self.columns.len()).map(rule).collect()));
        for row in 0..self.rows.len() {
            let cell = |column| {
                let (text, bold) = self.shown(row, column);
                if bold {
                    format!("**{}**", escape(&text))
                } else {
                    escape(&text)
                }
            };
            out.push_str(&line((0..self.columns.len()).map(cell).collect()));
        }
        out.push_str(&format!(
            "\n{}\n\nGuarantee: {}.\n",
            self.caption, self.guarantee
        ));
        out
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '<' | '\\' => out.extend(['\\', c]),
            '\n' | '\r' => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}
