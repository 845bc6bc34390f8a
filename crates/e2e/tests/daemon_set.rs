//! `dist/kubernetes/daemonset.yaml`: what a container of it may do and sees, made by namespaces, mounts and capabilities, is what
//! pagetide takes; and each capability is for something.
//!
//! No container runtime takes part, so what one adds (its filter of system calls) is not shown here.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use e2e::guard::{Outcome, Run, Running};
use e2e::memcg::MemoryGroup;
use e2e::packages::done;
use e2e::root::Root;
use e2e::sleeper::Sleeper;
use e2e::temp::{TempDir, serial};
use e2e::tenants::Groups;
use e2e::zram::Swap;
use e2e::{pagetide, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const MIB: u64 = 32;
/// Namespaces that a pod has of its own: all but those of users and of processes (hostPID).
const NAMESPACES: [&str; 4] = ["--net", "--ipc", "--uts", "--cgroup"];
/// What a container sees: /proc whose settings it may not change, a /sys that it may not write, the node's control groups,
/// three devices, its configuration, and nothing of its own that it could write.
const MOUNTS: &str = "mount --bind \"$0\" \"$0\"
mount -t proc proc \"$0/proc\"
for d in bus fs irq sys; do mount --bind \"$0/proc/$d\" \"$0/proc/$d\"; mount -o remount,bind,ro \"$0/proc/$d\"; done
mount --bind /sys \"$0/sys\"; mount -o remount,bind,ro \"$0/sys\"
mount --rbind /sys/fs/cgroup \"$0/sys/fs/cgroup\"
mount -t tmpfs tmpfs \"$0/dev\"
for d in null zero urandom; do cp -a /dev/$d \"$0/dev/\"; done
mount -o remount,bind,ro \"$0\"";

/// A container of the manifest's, as root, with these capabilities.
struct Pod {
    manifest: String,
    root: Root,
    /// The pod's own, that its control group namespace begins at.
    group: MemoryGroup,
}

impl Pod {
    fn new() -> Pod {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/kubernetes/daemonset.yaml");
        let manifest = std::fs::read_to_string(file).expect("the manifest is there");
        // setpriv(1) and what pagetide is linked with.
        let root = Root::of_packages(&["libc6", "libgcc-s1", "util-linux"]);
        std::fs::copy(pagetide::binary(), root.at("usr/bin/pagetide")).expect("it can be copied");
        std::fs::create_dir(root.at("etc/pagetide")).expect("a folder can be made");
        std::fs::write(root.at("etc/pagetide/pagetide.toml"), config(&manifest))
            .expect("a file can be written");
        Pod {
            manifest,
            root,
            group: MemoryGroup::new(),
        }
    }

    /// The capabilities that it adds, as setpriv(1) has them.
    fn capabilities(&self) -> Vec<String> {
        let lines = self.manifest.lines().map(str::trim);
        let added = lines.skip_while(|line| *line != "add:").skip(1);
        let added = added.take_while(|line| line.starts_with(['-', '#']));
        let names = added.filter_map(|line| line.strip_prefix("- "));
        names.map(str::to_lowercase).collect()
    }

    /// The words that it starts pagetide with.
    fn args(&self) -> Vec<String> {
        let line = self
            .manifest
            .lines()
            .find_map(|line| line.trim().strip_prefix("args: "));
        let words: Vec<String> = serde_json::from_str(line.expect("it has args")).expect("a list");
        words
    }

    /// `pagetide WORDS` in it.
    fn pagetide(&self, capabilities: &[String], words: &[&str]) -> Run {
        let set: Vec<String> = capabilities.iter().map(|name| format!("+{name}")).collect();
        let set = format!("-all,{}", set.join(","));
        let own = [
            "setpriv",
            "--bounding-set",
            &set,
            "--inh-caps",
            "-all",
            "--no-new-privs",
        ];
        let words = [&own[..], &["/usr/bin/pagetide"], words].concat();
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        let shell = ["sh", "-c", script, &self.group.path()].map(str::to_owned);
        self.root.within(&NAMESPACES, MOUNTS, &words).under(shell)
    }

    fn doctor(&self, capabilities: &[String]) -> Value {
        let outcome = self
            .pagetide(capabilities, &["doctor", "--json"])
            .finish(LIMIT);
        parse(&outcome)
    }
}

/// What stands in the ConfigMap.
fn config(manifest: &str) -> String {
    let (_, text) = manifest
        .split_once("  pagetide.toml: |\n")
        .expect("it has a configuration");
    let (text, _) = text.split_once("\n---").expect("it ends");
    text.lines()
        .map(|line| format!("{}\n", line.trim()))
        .collect()
}

fn parse(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", outcome.stdout, outcome.stderr))
}

/// What the doctor says on a topic; ok where it says nothing.
fn state(doctor: &Value, topic: &str) -> String {
    let all = doctor["findings"].as_array().expect("a list");
    let found = all.iter().find(|finding| finding["topic"] == topic);
    found
        .map_or("ok", |found| found["state"].as_str().unwrap_or_default())
        .to_owned()
}

#[test]
fn each_capability_is_for_something_and_none_is_missing() {
    let _serial = serial();
    let pod = Pod::new();
    let all = pod.capabilities();
    let doctor = pod.doctor(&all);
    for topic in [
        "ages of pages",
        "clearing bits",
        "right to page tables",
        "right to others",
        "locked memory",
        "control groups",
    ] {
        assert_eq!(state(&doctor, topic), "ok", "{topic}: {doctor:#}");
    }
    let without = [
        ("bpf", "ages of pages"),
        ("perfmon", "ages of pages"),
        ("sys_ptrace", "right to others"),
        ("dac_override", "right to others"),
        ("sys_nice", "right to act"),
        ("ipc_lock", "locked memory"),
    ];
    assert_eq!(all, without.map(|(name, _)| name.to_owned()));
    let before = state(&doctor, "right to act");
    assert_ne!(before, "missing", "swap is the node's own; all else it may");
    for (name, topic) in without {
        let rest: Vec<String> = all.iter().filter(|one| *one != name).cloned().collect();
        let found = state(&pod.doctor(&rest), topic);
        assert!(
            found != "ok" && found != before || found == "missing",
            "{name}: {topic} is {found}"
        );
    }
}

/// A process of somebody else's, in a group of its own, as a pod of the node has it.
fn other(group: &MemoryGroup, folder: &TempDir) -> Sleeper {
    let program = folder.file("sleeper");
    std::fs::copy(e2e::programs::c("sleeper"), program).expect("it can be copied");
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
    let (nobody, group) = (
        "setpriv --reuid 65534 --regid 65534 --clear-groups",
        group.path(),
    );
    let words = ["sh", "-c", script, &group]
        .into_iter()
        .chain(nobody.split(' '));
    Sleeper::start(words.map(str::to_owned), MIB)
}

/// `pagetide serve` as the manifest starts it, for a group of the test's and a tree of its own.
struct Serving {
    running: Running,
    name: String,
    _groups: Groups,
}

impl Serving {
    fn start(pod: &Pod, host: &MemoryGroup) -> Serving {
        let name = format!("{}/tree", host.name());
        let groups = Groups::named(&name);
        let args = pod.args();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let host = host.name();
        let own = [
            "--root",
            &name,
            "--host",
            &host,
            "--manage-host",
            "--age-every",
            "1s",
        ];
        let mut running = pod
            .pagetide(&pod.capabilities(), &[&args[..], &own].concat())
            .start();
        wait::until("it serves", LIMIT, || {
            let ended = running.ended();
            assert!(ended.is_none(), "{ended:?}: {}", running.stderr());
            running.stdout().contains("serving")
        });
        Serving {
            running,
            name,
            _groups: groups,
        }
    }

    /// `pagetide WORDS` as `kubectl exec` runs it: in the same pod, so in its network.
    fn ask(&self, words: &[&str]) -> Run {
        let net = format!("--net=/proc/{}/ns/net", self.running.pid());
        let binary = pagetide::binary();
        let own = ["nsenter", &net, &binary, words[0], "--root", &self.name];
        Run::new(
            [&own[..], &words[1..]]
                .concat()
                .into_iter()
                .map(str::to_owned),
        )
    }
}

#[test]
fn it_sees_and_takes_what_other_users_do_not_use() {
    let _serial = serial();
    let _swap = Swap::new(64);
    let (pod, group, folder) = (Pod::new(), MemoryGroup::new(), TempDir::public());
    let sleeper = other(&group, &folder);
    let serving = Serving::start(&pod, &group);
    let report = parse(&done(&serving.ask(&["report", "/host", "--json"])));
    assert_eq!(report["age_source"], "page-tables", "{report:#}");
    let resident = report["resident_bytes"].as_u64().unwrap_or(0);
    assert!(resident >= MIB << 20, "{report:#}");
    wait::until("its memory leaves", LIMIT, || {
        let _ = serving.ask(&["reclaim", "/host", "16M"]).finish(LIMIT);
        sleeper.status("VmSwap") >= 16 << 20
    });
    // Nothing of it is lost.
    let _ = sleeper.touch();
}
