//! The page: one file, nothing loaded, light and dark.

use std::fmt::Write;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #656d76; --ground: #ffffff;
  --panel: #f6f8fa; --rule: #d0d7de; --bad: #b42318;
  --c0: #3b6fd4; --c1: #d9822b; --c2: #2f9e6e; --c3: #c4476d; --c4: #8a5cd1; --c5: #14899c;
  --c6: #a8871f; --c7: #7a828c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --ground: #0d1117;
  --panel: #161b22; --rule: #30363d; --bad: #ff7b72;
  --c0: #6ea0ff; --c1: #f0a45d; --c2: #56c596; --c3: #ef7fa2; --c4: #b58cf5; --c5: #4fc0d4;
  --c6: #d9b948; --c7: #a2a9b3; } }
body { margin: 2rem auto; max-width: 56rem; padding: 0 1rem; background: var(--ground);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin-bottom: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .25rem; }
p { margin: .25rem 0; } .dim { color: var(--dim); } .bad { color: var(--bad); }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(6.8rem, 1fr));
  gap: .75rem; margin: 1.5rem 0; }
.numbers div { background: var(--panel); border: 1px solid var(--rule); border-radius: 6px;
  padding: .6rem .8rem; }
.numbers b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
.numbers span { color: var(--dim); font-size: .85rem; }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; }
svg .tick { fill: var(--dim); } svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .bar { fill: var(--c0); }
.line.c0 { stroke: var(--c0); } .line.c1 { stroke: var(--c1); } .line.c2 { stroke: var(--c2); }
.line.c3 { stroke: var(--c3); } .line.c4 { stroke: var(--c4); } .line.c5 { stroke: var(--c5); }
.line.c6 { stroke: var(--c6); } .line.c7 { stroke: var(--c7); }
.legend span { margin-right: 1rem; white-space: nowrap; font-size: .85rem; }
.legend i { display: inline-block; width: .9rem; height: .25rem; border-radius: 2px;
  margin-right: .35rem; vertical-align: middle; }
i.c0 { background: var(--c0); } i.c1 { background: var(--c1); } i.c2 { background: var(--c2); }
i.c3 { background: var(--c3); } i.c4 { background: var(--c4); } i.c5 { background: var(--c5); }
i.c6 { background: var(--c6); } i.c7 { background: var(--c7); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .2rem .6rem; border-bottom: 1px solid var(--rule); }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere; min-width: 7rem; }
@media print { body { margin: 0; max-width: none; } h2 { break-after: avoid; }
  svg, table { break-inside: avoid; } }
";

/// The page as it grows.
pub struct Page(String);

impl Page {
    pub fn new(title: &str, below: &[String]) -> Page {
        let name = escape(title);
        let mut out = format!(
            "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
             <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
             <title>{name}</title>\n<style>{STYLE}</style>\n<h1>{name}</h1>\n"
        );
        for line in below {
            let _ = writeln!(out, "<p class=dim>{}</p>", escape(line));
        }
        Page(out)
    }

    /// What matters most, large.
    pub fn numbers(&mut self, all: &[(String, &str)]) {
        self.0.push_str("<div class=numbers>");
        for (value, name) in all {
            let (value, name) = (escape(value), escape(name));
            let _ = write!(self.0, "<div><b>{value}</b><span>{name}</span></div>");
        }
        self.0.push_str("</div>\n");
    }

    pub fn head(&mut self, text: &str) {
        let _ = writeln!(self.0, "<h2>{}</h2>", escape(text));
    }

    /// A plot of ours, which is markup already.
    pub fn plot(&mut self, markup: &str) {
        self.0.push_str(markup);
        self.0.push('\n');
    }

    pub fn say(&mut self, class: &str, text: &str) {
        let _ = writeln!(self.0, "<p class={class}>{}</p>", escape(text));
    }

    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let cells = |tag: &str, cells: &mut dyn Iterator<Item = String>| {
            let all: String = cells
                .map(|cell| format!("<{tag}>{}", escape(&cell)))
                .collect();
            format!("<tr>{all}\n")
        };
        self.0.push_str("<div class=wide><table>");
        self.0.push_str(&cells(
            "th",
            &mut head.iter().map(|cell| (*cell).to_string()),
        ));
        for row in rows {
            self.0.push_str(&cells("td", &mut row.iter().cloned()));
        }
        self.0.push_str("</table></div>\n");
    }

    pub fn into_html(self) -> String {
        self.0
    }
}

/// Text that somebody else wrote, as text.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in crate::text::clean(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}
