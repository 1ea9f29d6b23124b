//! LaTeX with booktabs.

use super::Table;

impl Table {
    /// The table as a LaTeX `table`; needs `\usepackage{booktabs}`.
    pub fn to_latex(&self) -> String {
        let align: String = (0..self.columns.len())
            .map(|at| if self.is_text(at) { 'l' } else { 'r' })
            .collect();
        let mut out = format!(
            "% needs \\usepackage{{booktabs}}\n\\begin{{table}}\n  \\centering\n  \
             \\caption{{{}. {} Guarantee: {}.}}\n  \\label{{tab:{}}}\n  \
             \\begin{{tabular}}{{{align}}}\n    \\toprule\n",
            escape(&self.title),
            escape(&self.caption),
            escape(&self.guarantee),
            self.id
        );
        if self.has_groups() {
            let (mut heads, mut rules, mut at) = (Vec::new(), String::new(), 1);
            for (group, span) in self.groups() {
                if group.is_empty() {
                    heads.extend(vec![String::new(); span]);
                } else {
                    heads.push(format!("\\multicolumn{{{span}}}{{c}}{{{}}}", escape(group)));
                    rules.push_str(&format!("\\cmidrule(lr){{{at}-{}}}", at + span - 1));
                }
                at += span;
            }
            out.push_str(&format!(
                "    {} \\\\\n    {rules}\n",
                heads.join(" & ").trim_start()
            ));
        }
        let heads: Vec<String> = self
            .columns
            .iter()
            .map(|column| escape(&column.head))
            .collect();
        out.push_str(&format!("    {} \\\\\n    \\midrule\n", heads.join(" & ")));
        for row in 0..self.rows.len() {
            let cell = |column| {
                let (text, bold) = self.shown(row, column);
                let text = escape(&text);
                if bold {
                    format!("\\textbf{{{text}}}")
                } else {
                    text
                }
            };
            let cells: Vec<String> = (0..self.columns.len()).map(cell).collect();
            out.push_str(&format!("    {} \\\\\n", cells.join(" & ")));
        }
        out.push_str("    \\bottomrule\n  \\end{tabular}\n\\end{table}\n");
        out
    }
}

/// Plain LaTeX for any text: special characters escaped, our signs spelled out.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' | '>' => out.extend(['$', c, '$']),
            'σ' => out.push_str("$\\sigma$"),
            'ρ' => out.push_str("$\\rho$"),
            'α' => out.push_str("$\\alpha$"),
            'η' => out.push_str("$\\eta$"),
            '≥' => out.push_str("$\\geq$"),
            '≤' => out.push_str("$\\leq$"),
            '−' => out.push_str("$-$"),
            '–' => out.push_str("--"),
            '\n' | '\r' => out.push(' '),
            _ => out.push(c),
        }
    }
    out
}
