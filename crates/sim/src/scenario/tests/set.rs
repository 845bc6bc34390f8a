//! Tests the values of `--set` and of sweeps, which replace values of the file.

use super::*;
use crate::scenario::report::outcome;

const THREE: &str = r#"
run = { duration = "1s" }
[[tenant]]
name = "2"
work = [{ pattern = "loop", size = "64K", rate = 10 }]
[[tenant]]
name = "a"
work = [{ pattern = "loop", size = "64K", rate = 10 }]
[[tenant]]
name = "b"
work = [{ pattern = "loop", size = "64K", rate = 10 }]
"#;

/// Regression: if `--set` assigned a swept key, the sweep's values were run instead, without a
/// message. An error in the assigned value was blamed on the sweep.
#[test]
fn a_set_value_replaces_a_swept_one() {
    let text = format!("{MIXED}\n[sweep]\n\"run.seed\" = [1, 2, 3]\n");
    let of = |set: &[&str]| plans(&text, set).runs.len();
    assert_eq!((of(&[]), of(&["run.seed=5"]), of(&["sweep={}"])), (3, 1, 1));
    assert_eq!(plans(&text, &["run.seed=5"]).runs[0].file.run.seed, 5);
    let reported = complaint(&text, &["run.polcy=x"]);
    assert!(
        reported.contains("with --set") && !reported.contains("run.seed"),
        "{reported}"
    );
    // A tenant's key has two spellings, and a table may be set as a whole.
    let text = format!("{THREE}\n[sweep]\n\"tenant.1.memory-max\" = [\"1M\", \"2M\"]\n");
    for set in ["tenant.a.memory-max=4M", "tenant.1.memory-max=4M"] {
        let plans = plans(&text, &[set]);
        let max = plans.runs[0].file.tenant[1].get_ref().memory_max;
        assert_eq!(
            (plans.runs.len(), max.map(|max| max.0)),
            (1, Some(4 << 20)),
            "{set}"
        );
    }
    let tenant = "{name=\"x\", work=[{pattern=\"loop\", size=\"64K\", rate=10}]}";
    assert_eq!(plans(&text, &[&format!("tenant=[{tenant}]")]).runs.len(), 1);
    assert_eq!(plans(&text, &["tenant.b.memory-max=4M"]).runs.len(), 2);
    let renamed = ["tenant.a.memory-max=4M", "tenant.a.name=web"];
    assert_eq!(plans(&text, &renamed).runs.len(), 1);
    let work = "[{pattern=\"loop\", size=\"64K\", rate=10}]";
    let text = format!("{THREE}\n[sweep]\n\"tenant.a.work\" = [{work}, {work}]\n");
    let reported = complaint(&text, &["tenant.1.work.0.rate=5"]);
    assert!(reported.contains("part of `tenant.a.work`"), "{reported}");
}

/// Regression: if tenants had numbers as names, the wrong tenant was limited.
#[test]
fn a_tenants_name_comes_before_its_number() {
    let plans = plans(THREE, &["tenant.2.memory-max=4M", "tenant.1.memory-max=8M"]);
    let max = |n: usize| plans.runs[0].file.tenant[n].get_ref().memory_max;
    let max = [0, 1, 2].map(|n| max(n).map(|max| max.0 >> 20));
    assert_eq!(max, [Some(4), Some(8), None]);
}

/// Regression: a policy of `--set` had no column, a name of `--set` was not shown, and a sweep over
/// two and three tenants panicked.
#[test]
fn tables_are_of_the_runs_made() {
    let reported = |text: &str, set: &[&str]| {
        let plans = plans(text, set);
        let run = |plan| Course::run(plan, plans.runs.len() == 1, &mut |_| ());
        let courses: Vec<_> = plans.runs.iter().map(run).collect();
        outcome(&plans, &courses).tables
    };
    let aged = ["run.age-every=100ms", "run.policy=multi-gen"];
    let set = [
        &aged[..],
        &["tenant.a.name=web", "tenant.b.policy={by=\"fit\"}"],
    ]
    .concat();
    let tables = reported(THREE, &set);
    assert!(
        tables[0]
            .columns
            .contains(&"left by policy (pages)".to_owned())
    );
    assert!(
        tables[1].columns.contains(&"web (MiB)".to_owned()),
        "{:?}",
        tables[1].columns
    );
    assert_eq!(tables[1].rows.len(), 10, "a course of time");
    let tenant = |name: &str| {
        format!("{{name=\"{name}\", work=[{{pattern=\"loop\", size=\"64K\", rate=10}}]}}")
    };
    let (x, y) = (tenant("x"), tenant("y"));
    let sweep = format!("{THREE}\n[sweep]\ntenant = [[{x}], [{x}, {y}]]\n");
    assert!(
        complaint(&sweep, &[]).contains("other tenants"),
        "{}",
        complaint(&sweep, &[])
    );
}

/// Regression: 1073741824 and "2G" were in one column, the one as 1073741824 and the other as 2048
/// MiB.
#[test]
fn swept_values_have_one_unit() {
    let mixed = format!("{THREE}\n[sweep]\n\"run.memory\" = [1073741824, \"2G\"]\n");
    assert!(complaint(&mixed, &[]).contains("numbers beside texts"));
}
