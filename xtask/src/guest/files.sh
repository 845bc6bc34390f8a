#!/bin/sh
# Puts programs of this machine into a guest's files: files.sh ROOT TESTS COMMAND [WORD]... ROOT is the folder with the
# guest's files, TESTS the folder `tests` of the sources.
set -eu
root=$1 tests=$2 programs=$2/programs
shift 2

# copy FILE PATH: the libraries that the file names keep their paths. A static program names none.
copy() {
    mkdir -p "$root/$(dirname "$2")"
    cp --dereference "$1" "$root/$2"
    chmod 755 "$root/$2"
    for library in $(ldd "$1" 2>/dev/null | sed -n 's/^[^/]*\(\/[^ ]*\) (0x.*/\1/p'); do
        [ -e "$root/$library" ] || copy "$library" "$library"
    done
}

# compile NAME SOURCE...: static, to files/NAME.
compile() {
    program=$root/files/$1
    shift
    cc -O2 -static -pthread -o "$program" "$@" -lm
}

# suite SCRIPT...: scripts of tests/guest, what they share, and the programs that they name in comment lines.
suite() {
    mkdir -p "$root/suite"
    cp "$tests/guest/lib" "$root/suite"
    for script; do cp "$tests/guest/$script" "$root/suite"; done
    for source in "$tests"/guest/*.c; do compile "$(basename "$source" .c)" "$source"; done
    for name in $(named programs); do
        if [ -d "$programs/$name" ]; then
            compile "$name" "$programs/$name"/*.c
        else
            compile "$name" "$programs/$name.c"
        fi
    done
    for name in $(named installed); do copy "/usr/bin/$name" "/usr/bin/$name"; done
    if grep -q '^# real:' "$root"/suite/*.sh; then real; fi
}

# named WORD: what scripts name in their lines `# WORD: NAME...`, each once.
named() {
    sed -n "s/^# $1: *//p" "$root"/suite/*.sh | tr ' ' '\n' | sort -u
}

# Real programs: PostgreSQL of Debian 12, as in the end-to-end tests, with the folder that initdb(1) copies from; the C
# compiler with preprocessed sources to compile, for the guest has no headers; a pre-fork server; a program in Go.
real() {
    postgres=/usr/lib/postgresql/15
    for file in bin/initdb bin/postgres bin/psql bin/pgbench bin/pg_isready lib/plpgsql.so lib/dict_snowball.so; do
        copy "$postgres/$file" "$postgres/$file"
    done
    mkdir -p "$root/usr/share/postgresql"
    cp --recursive --dereference /usr/share/postgresql/15 "$root/usr/share/postgresql"
    # The compiler's driver has this name in every version; it says where the compiler itself and the assembler are. A name
    # without a folder is one of the search path.
    for program in cc "$(cc -print-prog-name=cc1)" "$(cc -print-prog-name=as)"; do
        case $program in
        /*) copy "$program" "$program" ;;
        *) copy "/usr/bin/$program" "/usr/bin/$program" ;;
        esac
    done
    mkdir -p "$root/files/sources"
    for source in "$programs"/hostile/*.c; do
        cc -E "$source" -o "$root/files/sources/$(basename "$source" .c).i"
    done
    compile workers "$programs/workers.c"
    CGO_ENABLED=0 go build -o "$root/files/gc" "$programs/gc.go"
}

"$@"
