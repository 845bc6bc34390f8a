//! The examples in `--help`, for users to copy.

pub(super) const TOP: &str = "\
Examples:
  sudo pagetide demo                             see it work, in half a minute
  pagetide run --memory-max 512M -- ./program    a program in 512 MiB
  pagetide attach --memory-max 50% 1234          half of the most it used so far
  pagetide report 1234                           what it really needs
  pagetide top                                   what all need
  pagetide doctor                                what is missing here, and how to get it

Exit codes: the program's own for `run`; 1 a failure, 2 bad usage, 3 missing privilege or kernel
feature.";

pub(super) const DEMO: &str = "\
Examples:
  sudo pagetide demo
  sudo pagetide demo --json | jq '.claims[] | select(.state != \"holds\")'";

pub(super) const RUN: &str = "\
Examples:
  pagetide run --memory-max 512M -- python3 work.py
  pagetide run --evict-older-than 10s --every 40s -- redis-server
  pagetide run --evict-by promotion-rate:rate=0.2% --report report.json -- ./program
  pagetide run --memory-max 1G --best-effort -- java -jar app.jar
  pagetide run --memory-max 256M --dry-run --report report.json -- ./program
  pagetide run --dry-run --record prog.rec --age-every 1s -- ./program     then: pagetide mrc prog.rec
  pagetide run --fail-above 300M -- make test    ends with 4 if it needed more

The exit status is the program's own: pagetide becomes it. 126 and 127 are a shell's: it cannot be run,
or was not found. The report is written when the last process has ended, a moment after the program.";

pub(super) const RECOMMEND: &str = "\
Examples:
  sudo pagetide recommend                                  all units of this host
  sudo pagetide recommend redis.service --format systemd > /etc/systemd/system/redis.service.d/50-memory.conf
  sudo pagetide recommend --by pod --format k8s --for 10m
  sudo pagetide recommend web --for 1m                     a container by its name
  sudo pagetide recommend 1234 --cost 0.5%
  sudo pagetide recommend --format json | jq '.parts[] | [.name, .needed.bytes]'";

pub(super) const RESIZE: &str = "\
Examples:
  sudo pagetide resize redis.service --memory-max 256M
  sudo pagetide resize redis.service --memory-max 256M --dry-run
  sudo pagetide resize --cgroup batch/job --memory-max 1G --watch 10m --cost 0.5%
  pagetide resize prod/web-1/app --memory-max 300M         prints kubectl's command";

pub(super) const ATTACH: &str = "\
Examples:
  pagetide attach --memory-max 1G $(pgrep -o redis-server)
  pagetide attach --evict-older-than 1m --for 10m 1234
  pagetide attach --evict-by fit --dry-run 1234      the smallest limit that suits it
  pagetide attach --memory-high 2G --cgroup system.slice/nginx.service
  pagetide attach --dry-run --evict-older-than 10s --for 1m --json 1234
  pagetide attach --dry-run --record db.rec --age-every 1s --for 10m 1234";

pub(super) const DETACH: &str = "\
Examples:
  pagetide detach 1234
  pagetide detach --bring-back 1234      and everything of it is back in memory";

pub(super) const REPORT: &str = "\
Examples:
  pagetide report 1234                        watch it for 10 s, then say
  pagetide report --for 2m 1234               ages up to two minutes
  pagetide report --for 2m --curve 1234       what less memory would cost, and which size to choose
  pagetide report --cgroup system.slice/nginx.service
  pagetide report /web                        a tenant of `pagetide serve`
  pagetide report --all --html page.html      the whole host, with pictures
  pagetide report --watch 1234                each second again, until ^C
  pagetide report --watch=10s --csv 1234 >> history.csv
  pagetide report --for 2m --quantile 80% --node 0 --all     in how short a time 80% of a node was used
  pagetide report --json 1234 | jq '.page_age[].bins'";

pub(super) const TOP_TABLE: &str = "\
Examples:
  pagetide top
  pagetide top --by cgroup --sort cold
  pagetide top --by tenant                     of `pagetide serve`; r reclaims what is cold
  pagetide top --once --for 1m --rows 20
  pagetide top --every 10s --json | jq '.rows[0]'";

pub(super) const SERVE: &str = "\
Examples:
  pagetide serve --mount /run/pagetide/tenants       a directory, made before
  pagetide serve --mount /run/pagetide/tenants --memory-max 8G
  pagetide serve --config /etc/pagetide.toml         every key: dist/pagetide.toml
  pagetide serve --mount /run/pagetide/tenants --host none
  pagetide serve --listen 127.0.0.1:9477             metrics, and a page; off by default
  mkdir /run/pagetide/tenants/web && echo $$ > /run/pagetide/tenants/web/cgroup.procs
  echo 2G > /run/pagetide/tenants/web/memory.low
  echo 256M > /run/pagetide/tenants/memory.reclaim";

pub(super) const STAT: &str = "\
Examples:
  pagetide stat 1234
  pagetide stat --json 1234 | jq .workingset_refault_anon
  pagetide stat /web                           a tenant of `pagetide serve`
  pagetide stat / --all | column -t            all of them";

pub(super) const RECLAIM: &str = "\
Examples:
  pagetide reclaim 1234 256M
  pagetide reclaim 1234 --older-than 10s
  pagetide reclaim 1234 --all                    park it; detach --bring-back wakes it
  pagetide reclaim --cgroup user.slice 1G
  pagetide reclaim /web --older-than 1m          a tenant of `pagetide serve`";

pub(super) const SWAP: &str = "\
Examples:
  pagetide swap status
  sudo pagetide swap on
  sudo pagetide swap off";

pub(super) const SWAP_STATUS: &str = "\
Examples:
  pagetide swap status
  pagetide swap status --json | jq '.areas[] | select(.ours)'";

pub(super) const SWAP_ON: &str = "\
Examples:
  sudo pagetide swap on                              half of the host's memory, by lz4
  sudo pagetide swap on --size 2G --compress zstd
  sudo pagetide swap on --file /var/pagetide.swap    where there is no zram
  sudo pagetide swap on --name trial --size 1G       apart from the shared one";

pub(super) const SWAP_RECOMPRESS: &str = "\
Examples:
  sudo pagetide swap on --recompress zstd
  sudo pagetide swap recompress --older-than 1h";

pub(super) const SWAP_OFF: &str = "\
Examples:
  sudo pagetide swap off
  sudo pagetide swap off --name trial
  sudo pagetide swap off --force                     also while others need it";

pub(super) const SIM: &str = "\
Examples:
  pagetide sim --list
  pagetide sim noreuse --scale 16
  pagetide sim memcg-lru --seed 7 --html report.html --csv results/
  pagetide sim memcg-lru --scale 64 --json | jq '.claims[] | select(.holds | not)'
  pagetide sim examples/half-memory.toml --set run.seed=3 --out results/";

pub(super) const MRC: &str = "\
Examples:
  pagetide mrc OLTP.lis.zst
  pagetide mrc --policy lru,lru-gen,opt --html curve.html trace.oracleGeneral.zst
  pagetide mrc --policy all --json P3.lis.zst | jq .lru_gen_more_misses_mean
  pagetide mrc --sizes 64M,128M,10% --json trace.w10000.zst | jq '.sizes[].miss_ratio.lru'
  pagetide mrc --sampled 0.01 --columns id=5,time=2 --delimiter ';' huge.csv";

pub(super) const DOCTOR: &str = "\
Examples:
  pagetide doctor
  pagetide doctor --json | jq '.findings[] | select(.state != \"ok\")'";

pub(super) const COMPLETIONS: &str = "\
Examples:
  pagetide completions bash > /etc/bash_completion.d/pagetide
  pagetide completions zsh > ~/.zfunc/_pagetide
  pagetide completions fish > ~/.config/fish/completions/pagetide.fish";

pub(super) const MAN: &str = "\
Examples:
  pagetide man run | man -l -
  pagetide man swap on | man -l -
  pagetide man --to /usr/local/share/man/man1
  pagetide man --markdown > commands.md";
