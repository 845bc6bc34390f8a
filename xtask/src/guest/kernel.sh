#!/bin/sh
# Finishes the files of a guest: kernel.sh VERSION PACKAGES ROOT MODULE...
#
# VERSION is that of a Debian kernel for clouds, such as 6.12. PACKAGES is a folder where unpacked packages are kept; what
# is in it is complete, because a package is unpacked elsewhere and then renamed. ROOT has the guest's files. The script
# adds busybox, the kernel's configuration, and the named modules with those that they need. Beside ROOT it writes the
# kernel, and the archive that the kernel unpacks. The archive is not compressed, because an emulated processor unpacks
# slower than it copies memory.
set -eu
version=$1 packages=$2 root=$3
shift 3
mkdir -p "$packages"

# Fetches a package and unpacks it, unless that was done before.
package() {
    [ ! -d "$packages/$1" ] || return 0
    echo "guest: fetching $1" >&2
    scratch=$(mktemp -d)
    # apt's user for downloads cannot write here, and would print a warning at each download.
    if ! (cd "$scratch" && apt-get -q -o APT::Sandbox::User=root -o Acquire::http::Timeout=60 download "$1" >&2 &&
        dpkg-deb -x ./*.deb "$packages/.$$" && mv -T "$packages/.$$" "$packages/$1"); then
        rm -rf "$scratch" "$packages/.$$"
        echo "cannot fetch Debian's package $1, which the guests need. Is there a network, and are apt's lists fresh" \
            "(apt-get update)? Or fetch it elsewhere and unpack it: dpkg-deb -x FILE $packages/$1" >&2
        exit 1
    fi
    rm -rf "$scratch"
}

# The newest package of the kernel among those on standard input. The signed and the unsigned packages have the same
# kernel; for some versions the archive has only one of them.
newest() {
    grep -E "^linux-image-$version\..*-cloud-amd64(-unsigned)?\$" | sort --version-sort | tail -n 1
}

# A package that is there is used even if there is a newer one: tests should not wait for a download.
kernel=$(ls "$packages" | newest)
if [ -z "$kernel" ]; then
    kernel=$(apt-cache search --names-only '^linux-image-.*-cloud-amd64' | cut -d ' ' -f 1 | newest)
fi
if [ -z "$kernel" ]; then
    echo "apt knows no package of Debian's kernel $version (linux-image-$version.*-cloud-amd64): run apt-get update; Debian" \
        "12 with its security updates has it. Or fetch it elsewhere and unpack it: dpkg-deb -x FILE $packages/NAME" >&2
    exit 1
fi
package "$kernel"
package busybox-static
# Folders that are mount points, or are written to.
for folder in bin dev etc files proc run sys tmp; do mkdir -p "$root/$folder"; done
printf '%s:/tmp:/bin/sh\n' root:x:0:0:root nobody:x:65534:65534:nobody >"$root/etc/passwd"
printf '%s:\n' root:x:0 nogroup:x:65534 >"$root/etc/group"
chmod 755 "$root/init" "$root/program"

kernel=$packages/$kernel busybox=$packages/busybox-static
if [ -e "$busybox/usr/bin/busybox" ]; then busybox=$busybox/usr; fi
cp "$busybox/bin/busybox" "$root/bin/busybox"
cp "$kernel"/boot/config-* "$root/config"
cp "$kernel"/boot/vmlinuz-* "$root/../vmlinuz"

# Debian 13 has the modules below /usr.
base=$kernel
if [ -d "$kernel/usr/lib/modules" ]; then base=$kernel/usr; fi
release=$(ls "$base/lib/modules")
rm -rf "$root/modules"
mkdir "$root/modules"
/sbin/depmod --basedir "$base" "$release"
for module; do
    /sbin/modprobe --dirname "$base" --set-version "$release" --show-depends "$module" >"$root/modules/needed"
    # The other lines are of modules that are built into the kernel.
    sed -n 's/^insmod //p' "$root/modules/needed" | while read -r file _; do
        name=$(basename "$file" .xz)
        [ ! -e "$root/modules/$name" ] || continue
        case $file in
        *.xz) xz -dc "$file" >"$root/modules/$name" ;;
        *) cp "$file" "$root/modules/$name" ;;
        esac
        echo "$name" >>"$root/modules/order"
    done
done

cd "$root"
find . -print0 | sort -z |
    cpio --null --create --quiet --format=newc --owner=0:0 --reproducible >../initrd
