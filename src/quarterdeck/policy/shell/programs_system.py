"""What options can do, by program: files, texts and processes.

``program_entry`` says what the fields mean.
"""

from .program_entry import ProgramOptions, entry

__all__ = ["PLAIN", "PROGRAMS"]

PROGRAMS: dict[str, ProgramOptions] = {
    "tar": entry(
        names="gtar bsdtar",
        bundled=True,
        short="IFgPT",
        valued="fCXKVHbN",
        long=(
            "--to-command --checkpoint-action --use-compress-program --rsh-command "
            "--rmt-command --info-script --new-volume-script --index-file --volno-file "
            "--absolute-names --files-from --listed-incremental --transform --xform "
            "--passphrase --recursive-unlink --unlink-first --overwrite "
            "--keep-directory-symlink --set-mtime-command --remove-files --backup --suffix"
        ),
        code=(
            "-I -F --to-command --checkpoint-action --use-compress-program --rsh-command "
            "--info-script --new-volume-script"
        ),
        harmless=(
            "--sort -a --newer --after-date --create --file --directory --exclude-from "
            "--one-top-level --force-local --extract --get --list --verbose --gzip --bzip2 "
            "--xz --zstd --exclude --strip-components --checkpoint --overwrite-dir "
            "--wildcards --totals --compress --auto-compress --no-auto-compress --format "
            "--to-stdout --label --test-label --show-omitted-dirs --show-transformed-names "
            "--show-stored-names --quoting-style --utc --full-time --verbatim-files-from "
            "--restrict --exclude-ignore --exclude-ignore-recursive --exclude-caches "
            "--exclude-vcs --exclude-vcs-ignores --occurrence --seek --warning --check-device "
            "--set-mtime-format"
        ),
    ),
    "zip": entry(
        short="TOb@Pm",
        valued="tnx",
        long=(
            "--unzip-command --test --output-file --out --temp-path --move --logfile-path "
            "--names-stdin --copy-entries --password --delete -TT --log-append --log-info"
        ),
        starts="-TT @",
        code="-TT --unzip-command",
        harmless="-j -U -dc -DF -AC -A -J -sc -ws --recurse-paths --quiet --symlinks --exclude",
    ),
    "unzip": entry(
        short="dPo:",
        valued="x",
        harmless="-l -t -v -z -p -Z -T",
    ),
    "find": entry(
        names="gfind",
        single=True,
        long="-fprint -fprint0 -fprintf -fls -files0-from -delete",
        harmless="-exec -execdir -ok -okdir",
    ),
    "fd": entry(
        names="fdfind",
        short="xXC",
        valued="deEtSoc",
        long=(
            "--exec --exec-batch --base-directory --search-path --ignore-file "
            "--gen-completions --list-details"
        ),
        code="-x -X --exec --exec-batch",
        harmless="--exclude --extension",
    ),
    "rg": entry(
        open=True,
        short="f",
        valued="egjmtTABCErMd",
        long=(
            "--pre --hostname-bin --file --ignore-file --generate --search-zip --hyperlink-format"
        ),
        harmless=(
            "-c --count --count-matches --max-depth -p --pretty --pre-glob --files "
            "--files-with-matches --files-without-match --file-separator "
            "--ignore-file-case-insensitive --no-pre --heading --regexp --passthru "
            "--include-zero --hidden --no-ignore-files --sort --sortr "
            "--field-context-separator --field-match-separator --stats --json --engine "
            "--type-add --type --glob --iglob --replace --color --colors --path-separator "
            "--context-separator --null-data --debug --trace --no-config --no-search-zip "
            "--one-file-system --line-buffered --block-buffered -z"
        ),
    ),
    "grep": entry(
        names="egrep fgrep zgrep ggrep",
        open=True,
        short="f",
        valued="eABCmdD",
        long="--file",
        harmless=(
            "--files-with-matches --files-without-match --regexp --include --exclude "
            "--exclude-from --exclude-dir --fixed-strings --no-filename --with-filename "
            "--color --colour --label --null --only-matching --line-buffered --binary-files "
            "--initial-tab"
        ),
    ),
    "sort": entry(
        names="gsort",
        short="oT",
        valued="ktS",
        long="--output --compress-program --files0-from --temporary-directory --random-source",
        code="--compress-program",
        harmless="--parallel -u --unique --reverse --random-sort --numeric-sort",
    ),
    "sed": entry(
        names="gsed",
        operands=r"(?:^|[;{}\s\d/$,!])[ewr](?:\s|$)|[/|#,:@][gipm0-9]*[ew]",
        short="if",
        valued="el",
        long="--in-place --file --expression-file",
        code="-e --expression",
        harmless=(
            "-E -r -u --expression --quiet --silent --regexp-extended --follow-symlinks "
            "--separate --null-data --sandbox --debug --posix --unbuffered --line-length "
            "--zero-terminated -n"
        ),
    ),
    "awk": entry(
        names="gawk mawk nawk",
        operands=r"system|getline|[|>]|@load|@include|close\s*[(]",
        short="fileEopdDvWh",
        valued="F",
        long=(
            "--file --include --load --exec --dump-variables --pretty-print --profile --debug "
            "--source --lint --gen-pot --assign --random"
        ),
        starts="BEGIN{system",
        harmless=(
            "--field-separator --version --help --posix --re-interval --sandbox --traditional "
            "--usage --dump -W"
        ),
    ),
    "man": entry(
        names="apropos whatis",
        short="PHCMXTtEeRLlp",
        valued="sSm",
        long=(
            "--pager --html --config-file --manpath --preprocessor --gxditview --troff "
            "--troff-device --browser --local-file --recode --extension --systems --encoding "
            "--locale"
        ),
        code="-P --pager -H --html",
        harmless=(
            "-r -V --global-apropos --apropos --whatis --where --where-cat --all --debug "
            "--update --default --warnings --prompt --no-justification --no-hyphenation "
            "--no-subpages --regex --wildcard --names-only --location --location-cat --catman "
            "--ascii --ditroff --ignore-case --match-case --sections"
        ),
    ),
    "less": entry(
        names="more zless most lesspipe",
        short="okOKTtpD",
        valued="bhjxyzP",
        long=(
            "--log-file --LOG-FILE --lesskey-file --lesskey-src --lesskey-content --tag "
            "--tag-file --pattern --cmd"
        ),
        starts="+",
        code="+ --cmd -P",
        harmless="--no-init --quit-if-one-screen --chop-long-lines --line-numbers",
    ),
    "vim": entry(
        names=(
            "vi nvim view ex gvim rvim rview vimdiff emacs emacsclient nano pico ed red joe "
            "micro hx helix kak code subl"
        ),
        short="cSsuUwWirtq",
        valued="T",
        long=(
            "--cmd --startuptime --servername --remote --remote-send --remote-expr "
            "--remote-silent --remote-wait --remote-tab --embed --listen --eval --load "
            "--script --funcall --batch --directory --init-directory --insert --kill --log "
            "--user --rcfile --backupdir --speller --socketid --windowid --literal --headless "
            "--api-info --server"
        ),
        starts="+",
        code="-c + --cmd --eval -e --funcall",
    ),
    "xargs": entry(
        names="gxargs",
        short="a",
        valued="nPLdEsI",
        long="--arg-file --process-slot-var",
        harmless=(
            "--null --no-run-if-empty --max-args --max-procs --delimiter --verbose --exit "
            "--replace --interactive --open-tty --show-limits --max-chars --max-lines --eof "
            "-i -I -l -L -o -p -r -t -x"
        ),
    ),
    "echo": entry(
        open=True,
        harmless="-n -e -E",
    ),
    "tee": entry(
        harmless="--append -a --ignore-interrupts --output-error -p",
    ),
    "diff": entry(
        names="colordiff sdiff diff3 cmp gdiff",
        open=True,
        short="o",
        valued="UCFIxXWLS",
        long="--output --diff-program --to-file --from-file --exclude-from",
        code="--diff-program",
        harmless=(
            "-D --unified --brief --recursive --color --ignore-file-name-case "
            "--no-ignore-file-name-case --exclude --show-c-function --show-function-line "
            "--starting-file --line-format --label --horizon-lines --ifdef "
            "--GTYPE-group-format --LTYPE-line-format --paginate -l --new-file "
            "--unidirectional-new-file --no-dereference --suppress-common-lines "
            "--suppress-blank-empty --left-column -y -e --ed -n --rcs -c -u -q -s -d "
            "--minimal --normal"
        ),
    ),
    "patch": entry(
        names="gpatch",
        short="oidrBzYD",
        valued="pFgV",
        long=(
            "--output --input --directory --reject-file --get --prefix --suffix "
            "--basename-prefix --ifdef --follow-symlinks"
        ),
        harmless=(
            "--dry-run --strip --reverse --forward --verbose --silent --quiet --fuzz --merge "
            "--batch --force --backup --backup-if-mismatch --no-backup-if-mismatch --binary "
            "--posix --quoting-style --read-only --reject-format --remove-empty-files "
            "--ignore-whitespace --set-utc --set-time --unified --context --ed --normal "
            "--debug -e --version-control"
        ),
    ),
    "jq": entry(
        names="yq gojq jaq",
        operands=r"import|include|input_filename|\$ENV|\benv\b",
        short="fLiC",
        long=(
            "--from-file --rawfile --slurpfile --library-path --in-place --inplace "
            "--run-tests --split-exp --split-exp-file"
        ),
        harmless=(
            "--raw-output --raw-output0 --raw-input --compact-output --slurp --sort-keys "
            "--null-input --exit-status --arg --argjson --args --jsonargs --join-output "
            "--ascii-output --color-output --monochrome-output --tab --indent --unbuffered "
            "--stream --stream-errors --seq --build-configuration -n -j"
        ),
    ),
}

_PLAIN_NAMES = (
    "cp mv mkdir rmdir touch ln chmod chown chgrp install rm unlink mktemp truncate cat "
    "head tail wc ls tree stat file du df cut tr uniq nl od xxd strings column comm join "
    "paste fold fmt pr tac rev split csplit shuf seq basename dirname realpath readlink "
    "md5sum sha1sum sha256sum sha512sum cksum b2sum base64 base32 gzip gunzip bzip2 xz "
    "zstd zcat echo printf true false : test [ pwd cd pushd popd read set shift return "
    "exit break continue wait sleep date whoami id groups uname hostname nproc uptime "
    "which type whereis ps kill pkill killall pgrep jobs fg bg umask ulimit export unset "
    "local declare typeset readonly getopts times ping dig nslookup host lsof free top "
    "htop clear reset tput stty tty yes expr bc dc factor numfmt iconv dos2unix sync cloc "
    "tokei scc bat exa eza lsd delta svn hg tig code-insiders open xdg-open "
)
PLAIN = frozenset(_PLAIN_NAMES.split())
"""Programs that run no program that their words name, besides those with an entry."""
