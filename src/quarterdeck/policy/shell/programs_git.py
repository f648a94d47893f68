"""What options can do, by program: git.

``program_entry`` says what the fields mean.
"""

from .program_entry import ProgramOptions, entry

__all__ = ["PROGRAMS"]

PROGRAMS: dict[str, ProgramOptions] = {
    "git": entry(
        closed=True,
        short="cC",
        flags="pPhv",
        long=(
            "--exec-path --config-env --git-dir --work-tree --super-prefix --attr-source "
            "--list-cmds"
        ),
        starts="ext:: fd::",
        long_flags=(
            "--no-pager --paginate --no-optional-locks --no-replace-objects "
            "--literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs "
            "--no-lazy-fetch --no-advice --bare --version --help --html-path --man-path "
            "--info-path"
        ),
        long_valued="--namespace",
        harmless=(
            "-n --dry-run --path --ignore-missing --chmod -i --worktree-attributes --local "
            "--worktree --show-origin --show-scope -X --dirstat --relative --quiet -d "
            "--dir-diff --trust-exit-code --write-fetch-head --auto-maintenance --auto-gc "
            "--full-name --numbered-files --exclude-per-directory --verify "
            "--reschedule-failed-exec --verify-signatures"
        ),
        sub={
            "add": entry(open=True, short="e", long="--edit --pathspec-from-file"),
            "am": entry(short="i", valued="CpS", long="--directory --interactive"),
            "apply": entry(valued="Cp", long="--directory --unsafe-paths --build-fake-ancestor"),
            "archive": entry(
                short="o",
                long="--output --exec --remote --add-file --add-virtual-file",
            ),
            "bisect": entry(starts="run"),
            "blame": entry(
                open=True,
                valued="LSCMn",
                long="--contents --ignore-revs-file --textconv",
            ),
            "branch": entry(valued="u", long="--edit-description"),
            "bundle": entry(starts="create"),
            "cat-file": entry(long="--textconv --filters --batch-command"),
            "checkout": entry(valued="bBU", long="--pathspec-from-file"),
            "checkout-index": entry(long="--prefix --temp"),
            "cherry-pick": entry(short="e", valued="mXS", long="--strategy --edit"),
            "clean": entry(valued="e"),
            "clone": entry(
                short="cu",
                valued="bojl",
                long=(
                    "--config --upload-pack --template --separate-git-dir "
                    "--recurse-submodules --recursive --bundle-uri --reference "
                    "--reference-if-able"
                ),
            ),
            "commit": entry(
                open=True,
                short="ceCt",
                valued="mFSu",
                long="--exec --edit --template --reedit-message --file --pathspec-from-file",
                text="-m --message -am -qm -sm -aqm --author --date --trailer",
            ),
            "config": entry(
                operands=r"^(?:edit|alias|core|diff|filter|merge|pager|include|includeif|credential|gpg|url|remote|submodule|sequence|browser|man|uploadpack|receive|hook|protocol|ssh|trailer|safe|init|http|interactive|difftool|mergetool|guitool|tar|web|instaweb|sendemail|svn|fsck|commit|rebase|extensions|fetch|transfer|branch|imap|pull|push)(?:$|[.])",
                short="fe",
                long="--file --edit --global --system --blob",
            ),
            "describe": entry(open=True),
            "diff": entry(
                open=True,
                short="O",
                valued="GSUMCBlL",
                long="--ext-diff --textconv --output --no-index",
            ),
            "diff-files": entry(short="O", valued="GSUMCBl", long="--ext-diff --textconv --output"),
            "diff-index": entry(short="O", valued="GSUMCBl", long="--ext-diff --textconv --output"),
            "diff-tree": entry(short="O", valued="GSUMCBl", long="--ext-diff --textconv --output"),
            "difftool": entry(short="xtO", long="--extcmd --tool --output --gui"),
            "fetch": entry(
                open=True,
                short="u",
                valued="jo",
                long="--upload-pack --recurse-submodules --stdin --refmap --update-head-ok",
            ),
            "filter-branch": entry(
                short="d",
                long=(
                    "--env-filter --tree-filter --index-filter --msg-filter --commit-filter "
                    "--tag-name-filter --parent-filter --subdirectory-filter --setup"
                ),
            ),
            "format-patch": entry(
                short="oO",
                valued="GSUMCBlv",
                long=(
                    "--output-directory --output --ext-diff --textconv --signature-file "
                    "--description-file"
                ),
            ),
            "fsck": entry(),
            "gc": entry(),
            "grep": entry(
                open=True,
                short="O",
                valued="efABCmU",
                long="--open-files-in-pager --ext-grep --textconv --no-index",
            ),
            "hash-object": entry(long="--path --stdin-paths"),
            "help": entry(short="wim", long="--web --info --man"),
            "init": entry(long="--template --separate-git-dir"),
            "interpret-trailers": entry(long="--in-place"),
            "log": entry(
                open=True,
                short="O",
                valued="GSUMCBlLn",
                long="--ext-diff --textconv --output",
                text="--format --pretty --grep --author --since --until --after --before -S -G",
            ),
            "ls-files": entry(open=True, valued="xX", long="--exclude-from"),
            "ls-remote": entry(valued="o", long="--upload-pack --exec"),
            "ls-tree": entry(open=True),
            "maintenance": entry(starts="register start"),
            "merge": entry(
                short="es",
                valued="mXSF",
                long="--strategy --edit --file",
                text="-m --message",
            ),
            "merge-file": entry(),
            "mergetool": entry(short="tO", long="--tool --gui"),
            "mv": entry(),
            "notes": entry(
                valued="m",
                long="--file --reedit-message --reuse-message",
                starts="edit",
                text="-m --message",
            ),
            "prune": entry(),
            "pull": entry(
                short="su",
                valued="XSj",
                long="--upload-pack --strategy --edit --recurse-submodules",
            ),
            "push": entry(valued="o", long="--receive-pack --exec --recurse-submodules"),
            "range-diff": entry(short="O", valued="GSUMCBl", long="--ext-diff --textconv --output"),
            "rebase": entry(
                short="xsi",
                valued="XSC",
                long="--exec --strategy --interactive --edit-todo",
            ),
            "reflog": entry(
                open=True,
                short="O",
                valued="GSUMCBlLn",
                long="--ext-diff --textconv --output",
            ),
            "remote": entry(valued="tm"),
            "request-pull": entry(short="p"),
            "reset": entry(long="--pathspec-from-file"),
            "restore": entry(valued="sU", long="--pathspec-from-file"),
            "rev-list": entry(open=True, valued="n"),
            "rev-parse": entry(open=True),
            "revert": entry(short="e", valued="mXS", long="--strategy --edit"),
            "rm": entry(long="--pathspec-from-file"),
            "send-email": entry(
                long=(
                    "--smtp-server --sendmail-cmd --to-cmd --cc-cmd --header-cmd --compose "
                    "--annotate --identity --transfer-encoding --smtp-ssl-cert-path"
                ),
            ),
            "send-pack": entry(long="--receive-pack --exec"),
            "shortlog": entry(open=True, valued="wn"),
            "show": entry(
                open=True,
                short="O",
                valued="GSUMCBlLn",
                long="--ext-diff --textconv --output",
                text="--format --pretty",
            ),
            "show-ref": entry(open=True),
            "sparse-checkout": entry(),
            "stash": entry(
                short="O",
                valued="GSUMCBlm",
                long="--ext-diff --textconv --output --pathspec-from-file",
                text="-m --message",
            ),
            "status": entry(open=True, valued="u"),
            "submodule": entry(
                valued="bj",
                long="--reference",
                starts="foreach update add set-url",
            ),
            "switch": entry(valued="cC"),
            "tag": entry(short="e", valued="mFun", long="--edit --file", text="-m --message"),
            "update-index": entry(),
            "var": entry(),
            "worktree": entry(valued="bB"),
            "annotate": entry(long="--contents --textconv"),
            "cherry": entry(),
            "name-rev": entry(),
            "merge-base": entry(open=True),
            "merge-tree": entry(long="--strategy-option"),
            "for-each-ref": entry(open=True),
            "show-branch": entry(),
            "symbolic-ref": entry(),
            "count-objects": entry(),
            "check-ignore": entry(),
            "check-attr": entry(),
            "check-mailmap": entry(),
            "check-ref-format": entry(),
            "verify-commit": entry(),
            "verify-tag": entry(),
            "verify-pack": entry(),
            "version": entry(),
            "write-tree": entry(),
            "update-ref": entry(),
            "pack-refs": entry(),
            "rerere": entry(),
            "repack": entry(),
            "stripspace": entry(),
            "patch-id": entry(),
            "commit-tree": entry(),
            "mktree": entry(),
            "mktag": entry(),
            "unpack-objects": entry(),
            "index-pack": entry(short="o"),
            "show-index": entry(),
            "pack-objects": entry(),
            "prune-packed": entry(),
            "pack-redundant": entry(),
            "diff-pairs": entry(),
            "backfill": entry(),
            "refs": entry(),
            "fmt-merge-msg": entry(),
            "get-tar-commit-id": entry(),
            "whatchanged": entry(
                open=True,
                short="O",
                valued="GSUMCBlLn",
                long="--ext-diff --textconv --output",
            ),
        },
    ),
}
