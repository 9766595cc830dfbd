//! The figures as SVG: a panel each, with a bar for each side from zero on.

use std::fmt::{self, Write as _};

use super::report::{Figure, Report};
use crate::bench::report::number;

const COLUMNS: usize = 2;
const PANEL_WIDTH: usize = 470;
const MARGIN: usize = 20;
const HEAD: usize = 78;
const TITLE: usize = 26;
const BAR: usize = 16;
const STEP: usize = 22;
const GAP: usize = 18;
/// Room for the sides' names, and for the numbers behind the bars.
const NAMES: usize = 96;
const NUMBERS: usize = 74;
/// Told apart by who cannot tell red from green, too.
const COLOURS: [&str; 6] = [
    "#2563eb", "#0d9488", "#d97706", "#7c3aed", "#be185d", "#4b5563",
];
/// Letters of a side's name that there is room for.
const MAX_LETTERS: usize = 16;
/// Letters of a line of the head.
const LINE_LETTERS: usize = 150;

/// Draws a report.
pub(super) fn draw(report: &Report) -> String {
    let mut svg = String::new();
    // A String takes everything.
    let _ = write_all(report, &mut svg);
    svg
}

fn write_all(report: &Report, svg: &mut String) -> fmt::Result {
    let panel_height = TITLE + report.sides.len() * STEP + GAP;
    let rows = report.figures.len().div_ceil(COLUMNS);
    let width = COLUMNS * PANEL_WIDTH + (COLUMNS + 1) * MARGIN;
    let height = HEAD + rows * panel_height + MARGIN;
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" font-family="system-ui, sans-serif" font-size="12">"#
    )?;
    writeln!(
        svg,
        "<title>The same watches over {}</title>",
        escaped(&report.sides.join(", "))
    )?;
    writeln!(
        svg,
        r##"<rect width="{width}" height="{height}" fill="#ffffff"/>"##
    )?;
    writeln!(
        svg,
        r##"<text x="{MARGIN}" y="28" font-size="17" font-weight="600" fill="#111827">The same watches over {}</text>"##,
        escaped(&report.sides.join(", "))
    )?;
    for (place, line) in wrapped(&report.setting()).iter().enumerate() {
        writeln!(
            svg,
            r##"<text x="{MARGIN}" y="{}" font-size="11" fill="#4b5563">{}</text>"##,
            46 + place * 15,
            escaped(line)
        )?;
    }
    for (place, figure) in report.figures.iter().enumerate() {
        let x = MARGIN + place % COLUMNS * (PANEL_WIDTH + MARGIN);
        let y = HEAD + place / COLUMNS * panel_height;
        panel(report, figure, (x, y), svg)?;
    }
    writeln!(svg, "</svg>")
}

fn panel(
    report: &Report,
    figure: &Figure,
    (x, y): (usize, usize),
    svg: &mut String,
) -> fmt::Result {
    writeln!(
        svg,
        r##"<text x="{x}" y="{}" font-size="13" font-weight="600" fill="#111827">{}</text>"##,
        y + 16,
        escaped(&figure.title())
    )?;
    let hint = match figure.name.as_str() {
        // As many as were scheduled.
        "deliveries, fixed rate" => "the same for all",
        _ if figure.name.contains("a second") => "more is better",
        _ => "less is better",
    };
    writeln!(
        svg,
        r##"<text x="{}" y="{}" font-size="11" text-anchor="end" fill="#6b7280">{hint}</text>"##,
        x + PANEL_WIDTH - MARGIN,
        y + 16
    )?;
    let most = figure.medians.iter().flatten().copied().fold(0.0, f64::max);
    let room = (PANEL_WIDTH - NAMES - NUMBERS) as f64;
    for (place, (side, median)) in report.sides.iter().zip(&figure.medians).enumerate() {
        let top = y + TITLE + place * STEP;
        let base = top + BAR - 4;
        writeln!(
            svg,
            r##"<text x="{x}" y="{base}" fill="#374151">{}</text>"##,
            escaped(&shortened(side))
        )?;
        let length = median
            .filter(|_| most > 0.0)
            .map_or(0.0, |value| value / most * room);
        let left = x + NAMES;
        let colour = COLOURS[place % COLOURS.len()];
        writeln!(
            svg,
            r##"<rect x="{left}" y="{top}" width="{:.1}" height="{BAR}" rx="2" fill="{colour}"/>"##,
            length.max(1.0)
        )?;
        writeln!(
            svg,
            r##"<text x="{:.1}" y="{base}" fill="#111827">{}</text>"##,
            left as f64 + length.max(1.0) + 6.0,
            median.map(number).unwrap_or_else(|| "–".into())
        )?;
    }
    Ok(())
}

/// A target's address without what all of them have.
fn shortened(side: &str) -> String {
    let side = side.strip_prefix("http://").unwrap_or(side);
    match side.chars().count() <= MAX_LETTERS {
        true => side.to_owned(),
        false => side.chars().take(MAX_LETTERS - 1).chain(['…']).collect(),
    }
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let letters = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + letters < LINE_LETTERS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}
