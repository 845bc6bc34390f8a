//! The style sheet of a page. The reader's system setting chooses between light and dark.
//!
//! Invariant: every color is one of the variables at the top, which have values for light and for
//! dark. Text in a picture is never smaller than 10 pixels: a picture (760 units wide, with text of
//! 12 units) shrinks no further, and on a narrow page it is scrolled.

/// The style sheet.
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2329;--soft:#58616b;--page:#fcfcfb;--line:#dfe2e5;\
--no:#fbe4dd;--c0:#2f6fb2;--c1:#c9561f;--c2:#2f8048;--c3:#8450a6;--c4:#a2780f;--c5:#a83a5e}\
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--soft:#a3adb7;--page:#15191d;\
--line:#343b42;--no:#4d251b;--c0:#6fb1ee;--c1:#f09262;--c2:#70c489;--c3:#c79de3;--c4:#dbb659;\
--c5:#ee8ba9}}\
body{font:15px/1.45 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;\
color:var(--ink);background:var(--page);overflow-wrap:break-word}\
h1{font-size:1.5em;margin-bottom:.1em}h2{font-size:1.1em;margin:2em 0 .4em}\
p.sub{color:var(--soft);margin-top:0}\
.scroll,figure div{overflow-x:auto}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{padding:.2em .5em;border-bottom:1px solid var(--line);text-align:right;\
vertical-align:top}\
th.name,td.name{text-align:left}td.name:first-child{min-width:8em}th{color:var(--soft);font-weight:600;vertical-align:bottom}\
tr.no td{background:var(--no)}details>summary{cursor:pointer;color:var(--soft)}\
figure{margin:0 0 2.4em}figure p{margin:.3em 0;font-size:13px;color:var(--soft)}\
figure p.along{text-align:center;margin-top:0}\
.legend span{display:inline-block;margin-right:1.4em;color:var(--ink)}\
.key{display:inline-block;box-sizing:border-box;width:14px;height:11px;margin-right:6px;\
background:var(--c)}\
.key.document{background:none;border:2px solid var(--c)}\
.joined .key,.key.rule{height:0;width:22px;vertical-align:middle;background:none;\
border:0 solid var(--c);border-top-width:3px}\
.joined .key.document{border-top-style:dashed}.key.rule,.joined .key.rule{border-top-style:dotted}\
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}\
.c5{--c:var(--c5)}.rule{--c:var(--soft)}\
svg{display:block;width:100%;min-width:640px;height:auto}\
svg text{font:12px system-ui,sans-serif;fill:var(--soft)}\
svg .value{font-size:11px;fill:var(--ink)}\
svg .strip{paint-order:stroke;stroke:var(--page);stroke-width:5px}\
svg .grid{stroke:var(--line)}svg .ground{stroke:var(--soft)}\
svg .bar{fill:var(--c)}\
svg .bar.document{fill-opacity:.15;stroke:var(--c);stroke-width:2}\
svg .line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}\
svg .line.document{stroke-dasharray:7 4}svg .line.rule{stroke-dasharray:2 4}\
svg .dot{fill:var(--c)}svg .dot.document{fill:var(--page);stroke:var(--c);stroke-width:2}";
