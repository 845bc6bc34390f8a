//! The style sheet of the pictures. The reader's system setting chooses between light and dark.
//!
//! Invariant: every colour is one of the variables at the top, which have values for light and for
//! dark.

/// The style sheet of all pictures of this crate; print is always light. Colours of ages go from
/// warm (in use) to dark blue (cold). Unknown age is grey, swapped memory is violet. The more
/// memory a cell of a heat map has, the more its shade differs from the page's background.
pub const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2329;--dim:#58616b;--back:#fcfcfb;--paper:#fff;--line:#dfe2e5;\
--a0:#d9531e;--a1:#ee9336;--a2:#f3c969;--a3:#a9cbd9;--a4:#6ba3c8;--a5:#3a76ae;--a6:#1f4a7d;\
--unknown:#a6acb2;--out:#8a5aa8;--wait:#b3402c;\
--h1:#e6f0f5;--h2:#cbe1ec;--h3:#a6cbdf;--h4:#7bb0d0;--h5:#5091bd;--h6:#2f71a4;--h7:#1c5285;--h8:#0f3460}\
@media screen and (prefers-color-scheme:dark){:root{--ink:#e4e7ea;--dim:#9aa4ae;--back:#14171a;\
--paper:#1b1f23;--line:#30363c;--a3:#bcdcea;--a4:#7db5da;--a5:#4a88c4;--a6:#3561a3;\
--unknown:#6d747b;--out:#a779c6;--wait:#e2745f;\
--h1:#1d2a35;--h2:#1f3a4e;--h3:#224d6b;--h4:#28658d;--h5:#3a82b0;--h6:#5fa3cc;--h7:#93c5e2;--h8:#d3ebf8}}\
.fig{margin:0 0 1.6em}.fig figcaption{font-weight:600;margin:0 0 .4em}\
.plot{display:grid;grid-template-columns:4.6em minmax(0,1fr)}\
.plot svg{display:block;width:100%;overflow:visible}\
.plot .field{background:var(--paper);box-shadow:0 0 0 1px var(--line);overflow:hidden}\
.plot .ys{height:100%}.plot .xs{grid-column:2;height:20px}\
.heat .field,.heat .ys{height:220px}.area .field,.area .ys{height:220px}.level .field,.level .ys{height:80px}\
.plot text{font:12px system-ui,sans-serif;fill:var(--dim)}.ys text,.xs .last{text-anchor:end}\
.xs .middle{text-anchor:middle}.plot path{vector-effect:non-scaling-stroke}\
.field{shape-rendering:crispEdges}.area .field{shape-rendering:auto}\
.grid{stroke:var(--line);fill:none}.hits rect{fill:transparent}.hits rect:hover{fill:var(--ink);fill-opacity:.15}\
.legend{font-size:13px;display:flex;flex-wrap:wrap;align-items:center;gap:.2em 1.1em;margin:.3em 0 0;padding-left:4.9em;\
color:var(--dim)}\
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}\
.legend .ramp{width:120px;height:10px}\
.missed .field,.missed .ys{height:220px}.missed .field{shape-rendering:auto}\
.curve{fill:none;stroke:var(--a5);stroke-width:2}\
.upright{fill:none;stroke-dasharray:4 3;stroke-width:1.5}.dot{fill:none;stroke-width:9;stroke-linecap:round}\
.limit{stroke:var(--a0);background:var(--a0)}.bend{stroke:var(--out);background:var(--out)}\
table.bars{width:100%;border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
.bars th,.bars td{padding:.15em 0;border:0;font-weight:400}.bars th{width:7.5em;text-align:right;color:var(--dim)}\
.bars td{padding-left:.7em;white-space:nowrap}.bars td:last-child{width:5.5em}.bars .agebar{height:16px}\
.strip{display:block;width:100%;height:21px;shape-rendering:crispEdges;background:var(--paper)}\
.agebar{display:block;width:100%;height:12px}\
.a0{fill:var(--a0);background:var(--a0)}.a1{fill:var(--a1);background:var(--a1)}\
.a2{fill:var(--a2);background:var(--a2)}.a3{fill:var(--a3);background:var(--a3)}\
.a4{fill:var(--a4);background:var(--a4)}.a5{fill:var(--a5);background:var(--a5)}\
.a6{fill:var(--a6);background:var(--a6)}.un{fill:var(--unknown);background:var(--unknown)}\
.kind{background:var(--dim)}.file{opacity:.55}.out{fill:var(--out);background:var(--out)}.back{fill:var(--out)}.waited{fill:var(--wait)}\
.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}\
.h5{fill:var(--h5)}.h6{fill:var(--h6)}.h7{fill:var(--h7)}.h8{fill:var(--h8)}\
.line{fill:none;stroke:var(--out);stroke-width:1.8;stroke-dasharray:5 3}\
@media print{:root{color-scheme:light}.fig{break-inside:avoid}.fig *{print-color-adjust:exact;-webkit-print-color-adjust:exact}}\
@media(max-width:520px){.bars th{width:6em}.xs .odd{display:none}.plot{grid-template-columns:3.7em minmax(0,1fr)}.legend{padding-left:0}}";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the variables that this part of the style sheet defines.
    fn defined(part: &str) -> Vec<&str> {
        let names = part
            .split([';', '{'])
            .filter_map(|item| item.trim().split_once(':'));
        let names = names
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("--"));
        names.collect()
    }

    #[test]
    fn every_colour_that_is_used_is_defined_and_nothing_is_loaded() {
        let (light, rest) = STYLE.split_once('}').expect("a rule");
        let all = defined(light);
        for used in STYLE.split("var(").skip(1) {
            let name = used.split(')').next().unwrap_or_default();
            assert!(all.contains(&name), "{name}");
        }
        let dark = rest.split_once("}}").expect("a rule in a query").0;
        for name in defined(dark) {
            assert!(all.contains(&name), "{name} is dark alone");
        }
        for outside in ["url(", "@import", "http"] {
            assert!(!STYLE.contains(outside), "{outside}");
        }
    }
}
