//! Plots as SVG, small enough to be kept beside the text that shows them.

use std::fmt::Write;

/// Lines over one axis that is all panels'.
#[derive(Clone, Debug)]
pub struct Panel {
    /// With the unit.
    pub title: String,
    /// A name and its values, as many as the axis has.
    pub lines: Vec<(String, Vec<f64>)>,
}

const WIDTH: f64 = 800.0;
const HEIGHT: f64 = 130.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 24.0;
/// Of one panel with its title and its axis.
const STEP: f64 = HEIGHT + 60.0;
/// Told apart by those who don't see colours well, too.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#555555"];

/// One panel below the other, over `axis`, which is `named`. Vertical axes begin at 0.
///
/// # Panics
///
/// If a line has another number of values than the axis.
#[must_use]
pub fn svg(named: &str, axis: &[f64], panels: &[Panel]) -> String {
    let height = STEP * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{height}\" \
         viewBox=\"0 0 {0} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 20.0
    );
    for (index, panel) in panels.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate({LEFT},{})\">", TOP + STEP * index as f64);
        draw(&mut out, named, axis, panel);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, named: &str, axis: &[f64], panel: &Panel) {
    let values = panel.lines.iter().flat_map(|(_, values)| values);
    let top = round_up(values.copied().fold(0.0, f64::max));
    let (first, last) = (axis.first().copied().unwrap_or(0.0), axis.last().copied().unwrap_or(1.0));
    let x = |at: f64| (at - first) / (last - first).max(f64::MIN_POSITIVE) * WIDTH;
    let y = |value: f64| HEIGHT - value / top * HEIGHT;
    let _ = writeln!(out, "<text y=\"-8\" font-weight=\"bold\">{}</text>", panel.title);
    for part in [0.0, 0.5, 1.0] {
        let (value, at) = (top * part, y(top * part));
        let _ = writeln!(
            out,
            "<line y1=\"{at:.1}\" x2=\"{WIDTH}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"-6\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>",
            at + 4.0
        );
    }
    for (at, value, anchor) in [(0.0, first, "start"), (WIDTH, last, "end")] {
        let below = HEIGHT + 16.0;
        let _ = writeln!(
            out,
            "<text x=\"{at}\" y=\"{below}\" text-anchor=\"{anchor}\">{value:.0} {named}</text>"
        );
    }
    for (index, ((name, values), colour)) in panel.lines.iter().zip(COLOURS).enumerate() {
        assert_eq!(values.len(), axis.len(), "{name}");
        let points = axis.iter().zip(values);
        let points: Vec<String> =
            points.map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
             <text x=\"{}\" y=\"-8\" fill=\"{colour}\">{name}</text>",
            points.join(" "),
            WIDTH - 110.0 * (panel.lines.len() - index) as f64
        );
    }
}

/// The next of 1, 2, 5, 10, 20 and so on; 1 for 0.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    let tops = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    tops.into_iter().find(|top| *top >= value && value > 0.0).unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        let tops = [0.0, 0.03, 1.0, 1.1, 4.9, 300.0, 999.0].map(round_up);
        for (top, expected) in tops.into_iter().zip([1.0, 0.05, 1.0, 2.0, 5.0, 500.0, 1000.0]) {
            assert!((top - expected).abs() < 1e-9, "{top} {expected}");
        }
    }

    #[test]
    fn a_line_goes_from_corner_to_corner() {
        let line = ("up".to_owned(), vec![0.0, 1.0]);
        let panel = Panel { title: "t, ms".to_owned(), lines: vec![line] };
        let drawn = svg("min", &[0.0, 60.0], &[panel]);
        assert!(drawn.contains("points=\"0.0,130.0 800.0,0.0\""), "{drawn}");
        assert!(drawn.contains("60 min"), "{drawn}");
    }
}
