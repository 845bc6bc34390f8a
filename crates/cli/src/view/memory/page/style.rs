//! Style sheet of the HTML page, without that of its pictures ([`pictures::STYLE`], which also
//! defines all colours).

/// The style sheet.
pub(super) const CSS: &str = "\
*{box-sizing:border-box}body{font:15px/1.45 system-ui,sans-serif;margin:0;color:var(--ink);background:var(--back)}\
main{max-width:900px;margin:0 auto;padding:1.2em 1.2em 3em}\
h1{font-size:1.4em;margin:.4em 0 .1em;overflow-wrap:anywhere}h2{font-size:1.15em;margin:2em 0 .7em}\
p.sub,small,dt,summary{color:var(--dim)}p.sub{margin-top:0}\
.cards{display:flex;flex-wrap:wrap;gap:.8em;margin:1.2em 0}\
.cards div{flex:1 1 7.5em;background:var(--paper);border:1px solid var(--line);border-radius:8px;\
padding:.6em .9em;display:flex;flex-direction:column}\
.cards b{font-size:1.5em;font-variant-numeric:tabular-nums}\
.scroll{overflow-x:auto;border:1px solid var(--line);background:var(--paper)}\
.scroll:focus-visible,summary:focus-visible{outline:2px solid var(--a5);outline-offset:2px}\
.scroll table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}\
.scroll th,.scroll td{padding:.2em .7em;border-bottom:1px solid var(--line);text-align:right;\
vertical-align:top;white-space:nowrap}.scroll th{font-weight:600;color:var(--dim)}\
.scroll th.name,.scroll td.name{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:9em}.scroll .command{min-width:16em}\
details{margin:.6em 0 1.2em}summary{cursor:pointer;margin-bottom:.4em}\
dl{display:grid;grid-template-columns:fit-content(38%) minmax(0,1fr);gap:.2em 1em;font-size:14px}dd{margin:0}\
@media print{main{max-width:none;padding:0}.scroll{overflow:visible;border:0}h2{break-after:avoid}\
tr{break-inside:avoid}.cards{break-inside:avoid}}\
@media(max-width:520px){main{padding:.6em .8em 2em}.scroll th,.scroll td{padding:.2em .45em}}";
