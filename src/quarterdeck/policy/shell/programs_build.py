"""What options can do, by program: building, testing and checking.

``program_entry`` says what the fields mean.
"""

from .program_entry import ProgramOptions, entry

__all__ = ["PROGRAMS"]

PROGRAMS: dict[str, ProgramOptions] = {
    "make": entry(
        names="gmake",
        operands=r"!=|=.*[$`/=;|&<>()]|^(?:.*(?:FLAGS|OPTS|CMD|COMMAND|SHELL|PATH|PROG|RUN|EXEC|BIN)|CC|CXX|CPP|LD|AR|AS|RM|CP|MV|LN|SED|AWK|GREP|INSTALL|MAKE|NPM|NPX|NODE|YARN|PNPM|CARGO|RUSTC|GO|PYTHON|PYTHON3|PIP|UV|PYTEST|DOCKER|GIT|SUDO|JAVA|MVN)[?:+]*=",
        short="fCIoWE",
        valued="jlO",
        long=(
            "--file --makefile --directory --include-dir --eval --environment-overrides "
            "--old-file --assume-old --what-if --new-file --assume-new"
        ),
        starts=(
            "SHELL= MAKEFLAGS= MAKE= .SHELLFLAGS= MAKEFILES= GNUMAKEFLAGS= CC= CXX= LD= AR= "
            "AS= RM= PYTHON= NODE= SUDO= DESTDIR= prefix= PREFIX= PATH= VPATH= CURDIR= "
            "MAKEFILE_LIST="
        ),
        harmless=(
            "-q --question -w -e -n -B -k -S -t --jobs --load-average --max-load "
            "--output-sync --trace --warn-undefined-variables --dry-run --just-print --recon "
            "--print-directory --no-print-directory --always-make"
        ),
    ),
    "pytest": entry(
        names="py.test pytest-3",
        open=True,
        short="pco",
        valued="kmnrW",
        long=(
            "--px --basetemp --rootdir --config-file --confcutdir --junitxml --junit-xml "
            "--junitprefix --override-ini --pdbcls --pdb --trace --debug --log-file "
            "--pastebin --import-mode --pyargs --noconftest --cov-config --cov-report "
            "--report-log --html --json-report-file --resultlog --result-log --plugins --ds "
            "--dc --dist --tx --rsyncdir --snapshot-update --profile-svg --alluredir "
            "--benchmark-json --benchmark-save --benchmark-storage --nbmake --cache-dir"
        ),
        harmless=(
            "--lfnf --last-failed-no-failures -V --hypothesis-profile -d --testrunuid "
            "--maxschedchunk -f --anyio-mode --asyncio-mode --co --collect-only --collectonly "
            "--cov --disable-warnings --disable-pytest-warnings --doctest-modules --tb "
            "--trace-config --co-only --color --code-highlight --cache-clear --cache-show "
            "--log-level --log-cli-level --log-format --log-date-format --log-cli-format "
            "--log-cli-date-format --log-file-level --log-file-format --log-file-date-format "
            "--log-file-mode --log-auto-indent --log-disable --capture --show-capture "
            "--last-failed --lf --ff --nf --new-first --failed-first --sw --stepwise "
            "--stepwise-skip --sw-skip --stepwise-reset --sw-reset --maxfail --strict "
            "--strict-config --strict-markers --continue-on-collection-errors --ignore "
            "--ignore-glob --deselect --keep-duplicates --collect-in-virtualenv --durations "
            "--durations-min --verbosity --setup-only --setup-show --setup-plan --fixtures "
            "--funcargs --fixtures-per-test --markers --runxfail --no-header --no-summary "
            "--no-fold-skipped --full-trace --showlocals --no-showlocals --xfail-tb "
            "--force-short-summary --exitfirst --assert --quiet --verbose --version --help "
            "--pythonwarnings --disable-plugin-autoload --doctest-glob --doctest-report "
            "--doctest-ignore-import-errors --doctest-continue-on-failure --timeout "
            "--timeout-method --reruns --numprocesses --maxprocesses --randomly-seed "
            "--looponfail --session-timeout -s -q -x -v -h"
        ),
    ),
    "pip": entry(
        names="pip3",
        anywhere=True,
        short="tercdibf",
        long=(
            "--target --prefix --root --editable --requirement --constraint --config-settings "
            "--global-option --build-option --install-option --index-url --extra-index-url "
            "--find-links --trusted-host --python --cache-dir --log --log-file --src --dest "
            "--wheel-dir --build --build-dir --proxy --cert --client-cert --keyring-provider "
            "--report --pre-install --no-build-isolation --use-pep517 --user "
            "--break-system-packages --group --editor --global --site "
            "--requirements-from-script --output"
        ),
        starts="git+ hg+ svn+ bzr+ http: https: file:",
        harmless=(
            "--upgrade --quiet --verbose --no-deps --dry-run --pre --format --outdated "
            "--uptodate --local --progress-bar --disable-pip-version-check --no-input "
            "--no-color --no-cache-dir --force-reinstall --no-warn-script-location "
            "--require-virtualenv --debug --exists-action --use-feature --use-deprecated "
            "--retries --timeout --path --require-hashes --no-python-version-warning "
            "--resume-retries --platform --python-version --implementation --abi --no-binary "
            "--only-binary --prefer-binary --no-index --no-clean --ignore-installed "
            "--ignore-requires-python --check-build-dependencies --upgrade-strategy --compile "
            "--no-compile --no-warn-conflicts --root-user-action --isolated "
            "--uploaded-prior-to --version --help"
        ),
        sub={
            "list": entry(open=True),
            "show": entry(open=True),
            "freeze": entry(open=True),
            "check": entry(open=True),
            "install": entry(),
            "download": entry(),
            "wheel": entry(),
            "uninstall": entry(),
            "config": entry(),
        },
    ),
    "uv": entry(
        anywhere=True,
        short="pCrctofP",
        long=(
            "--directory --project --config-file --python --with --with-editable "
            "--with-requirements --env-file --from --script --module --target --prefix --root "
            "--index --default-index --index-url --extra-index-url --find-links "
            "--allow-insecure-host --config-setting --config-settings-package "
            "--no-build-isolation --cache-dir --output-file --output-dir --out-dir "
            "--build-constraints --constraints --overrides --requirements --keyring-provider "
            "--link-mode --editable --system --break-system-packages --installer-metadata "
            "--gui-script --excludes --working-directory --token --username --password "
            "--publish-url --check-url --export-file --install-dir --extra-lib-dir "
            "--python-preference --with-executables-from --torch-backend"
        ),
        harmless=(
            "--quiet --verbose --offline --no-cache --frozen --locked --all-extras --extra "
            "--group --dev --no-dev --no-sync --no-config --color --no-progress --upgrade "
            "--package --all-packages --dry-run --isolated --native-tls --version --help "
            "--exact --refresh"
        ),
        sub={
            "run": entry(runs=True, short="wms"),
            "sync": entry(open=True),
            "lock": entry(open=True),
            "tree": entry(open=True),
            "pip": entry(),
            "tool": entry(starts="run"),
            "add": entry(),
            "build": entry(),
            "python": entry(),
            "venv": entry(),
        },
    ),
    "poetry": entry(
        anywhere=True,
        short="CPofe",
        valued="ED",
        long=(
            "--directory --project --config --editable --output --source --local --build "
            "--repository --dist-dir --path --cert --client-cert --plugin --template --src"
        ),
        harmless=(
            "--no-interaction --quiet --verbose --no-ansi --no-plugins --no-cache --with "
            "--without --only --sync --dry-run --extras --all-extras --no-root --version "
            "--help"
        ),
        sub={
            "run": entry(runs=True),
            "check": entry(open=True),
            "show": entry(open=True),
            "lock": entry(open=True),
            "install": entry(),
            "config": entry(),
            "self": entry(runs=True),
            "env": entry(runs=True),
        },
    ),
    "pre-commit": entry(
        anywhere=True,
        short="ctf",
        long="--config --git-dir --template --files-from",
        harmless="--files --all-files --verbose --hook-stage",
        sub={
            "run": entry(open=True),
            "try-repo": entry(),
        },
    ),
    "tox": entry(
        names="nox invoke just task doit",
        short="cfdrs",
        valued="ejkp",
        long=(
            "--conf --config --workdir --root --toxworkdir --override --noxfile "
            "--force-python --extra-python --justfile --working-directory --shell --shell-arg "
            "--command --chooser --taskfile --dir --entrypoint --collection --search-root "
            "--installpkg --develop --runner --discover --set --dotenv-path --dotenv-filename "
            "--edit --dump --output"
        ),
        code="--command",
    ),
    "mvn": entry(
        names="mvnw mvnd",
        operands=r"^[\w.-]+:[\w.-]+:|^exec:|^antrun:|^dependency:get",
        short="fsDgtlb",
        valued="PT",
        long=(
            "--file --settings --global-settings --toolchains --global-toolchains --define "
            "--log-file --builder --encrypt-password --encrypt-master-password "
            "--project-settings --install-settings"
        ),
        starts="exec: org.codehaus.mojo:exec antrun:",
        harmless=(
            "-B -e -X --batch-mode --quiet --offline --errors --debug --fail-fast "
            "--fail-at-end --fail-never --projects --also-make --threads --activate-profiles "
            "--update-snapshots --version --help --non-recursive --no-transfer-progress "
            "--resume --resume-from --strict-checksums --lax-checksums --show-version --color "
            "--also-make-dependents --legacy-local-repository --no-snapshot-updates "
            "--raw-streams --ignore-transitive-repositories --cache-artifact-not-found "
            "--strict-artifact-descriptor-policy"
        ),
    ),
    "gradle": entry(
        names="gradlew",
        short="bIcgpDPM",
        valued="x",
        long=(
            "--build-file --init-script --settings-file --gradle-user-home --project-dir "
            "--system-prop --project-prop --include-build --project-cache-dir "
            "--write-verification-metadata --export-keys --write-locks --scan"
        ),
        harmless=(
            "--info --quiet --stacktrace --offline --parallel --continue --daemon --no-daemon "
            "--console --tests --dry-run --warning-mode --rerun-tasks"
        ),
    ),
    "ruff": entry(
        anywhere=True,
        short="o",
        valued="jn",
        long="--config --output-file --cache-dir --stdin-filename --add-noqa",
        harmless=(
            "-w --fix --unsafe-fixes --diff --select --ignore --extend-select --line-length "
            "--target-version --exclude --extend-exclude --output-format --statistics "
            "--show-files --show-settings --quiet --silent --verbose --watch --no-cache "
            "--exit-zero --check --preview --isolated --per-file-ignores "
            "--extend-per-file-ignores --extension --range --color --force-exclude --no-fix "
            "--show-fixes --fix-only --ignore-noqa --version --help --exit-non-zero-on-fix "
            "--exit-non-zero-on-format"
        ),
        sub={
            "check": entry(open=True),
            "format": entry(open=True),
            "rule": entry(open=True),
            "version": entry(open=True),
        },
    ),
    "mypy": entry(
        names="dmypy",
        open=True,
        short="c",
        valued="mp",
        long=(
            "--config-file --python-executable --cache-dir --custom-typeshed-dir "
            "--custom-typing-module --junit-xml --any-exprs-report --cobertura-xml-report "
            "--html-report --linecount-report --linecoverage-report --lineprecision-report "
            "--txt-report --xml-report --xslt-html-report --xslt-txt-report --install-types "
            "--command --shadow-file --timing-stats --line-checking-stats --find-occurrences "
            "--package-root --bazel"
        ),
        harmless=(
            "--strict --ignore-missing-imports --show-error-codes --no-incremental --pretty "
            "--python-version --module --package --exclude"
        ),
    ),
    "pyright": entry(
        names="basedpyright",
        open=True,
        short="ptv",
        long=(
            "--project --typeshedpath --typeshed-path --venvpath --venv-path --pythonpath "
            "--createstub --verifytypes --writebaseline --baselinefile"
        ),
        harmless=(
            "--version --verbose --level --outputjson --stats --watch --warnings --threads "
            "--pythonversion --pythonplatform --skipunannotated --dependencies"
        ),
    ),
    "black": entry(
        names="isort autopep8 yapf pyupgrade",
        open=True,
        short="cs",
        valued="ltj",
        long=(
            "--config --code --stdin-filename --config-root --settings-path --settings-file "
            "--settings --virtual-env --conda-env --src-path --src --style --global-config "
            "--sort-order"
        ),
        harmless=(
            "--check --diff --quiet --color --line-length --target-version "
            "--skip-string-normalization --profile"
        ),
    ),
    "flake8": entry(
        names="pylint bandit vulture pydocstyle interrogate",
        open=True,
        short="cof",
        valued="jdern",
        long=(
            "--config --append-config --output-file --output --rcfile --init-hook "
            "--load-plugins --tee --require-plugins --enable-extensions --import-graph "
            "--ext-import-graph --int-import-graph --generate-toml-config --baseline --ini "
            "--configfile --generate-badge --source-roots --unsafe-load-any-extension "
            "--extension-pkg-allow-list"
        ),
        harmless=(
            "--select --ignore --max-line-length --disable --enable --errors-only --exit-zero "
            "--statistics"
        ),
    ),
    "eslint": entry(
        names="prettier stylelint biome oxlint standard xo",
        open=True,
        short="coef",
        long=(
            "--config --config-path --config-basedir --config-precedence --plugin "
            "--plugin-search-dir --rulesdir --resolve-plugins-relative-to --parser "
            "--parser-options --processor --format --formatter --custom-formatter "
            "--output-file --cache-file --cache-location --init --custom-syntax --plugins "
            "--flag --stdin-filepath --stdin-filename --support-info --find-config-path "
            "--file-info --options-file"
        ),
        harmless=(
            "--fix --quiet --max-warnings --ext --cache --check --write --list-different "
            "--no-error-on-unmatched-pattern --ignore-pattern --ignore-path --no-eslintrc "
            "--no-config --color"
        ),
    ),
    "tsc": entry(
        names="tsup tsx ts-node swc esbuild rollup webpack vite parcel babel",
        open=True,
        short="pbrceo",
        valued="tmw",
        long=(
            "--project --build --outdir --outDir --outfile --outFile --declarationDir "
            "--declarationdir --tsBuildInfoFile --tsbuildinfofile --generateTrace "
            "--generatetrace --generateCpuProfile --generatecpuprofile --plugins --plugin "
            "--rootDir --rootdir --init --config --config-file --require --eval --print "
            "--loader --out-file --out-dir --output --output-path --servedir --serve --inject "
            "--presets --root-dir --root --env-file --import --cwd --script-mode --compiler"
        ),
        harmless=(
            "--noEmit --noemit --pretty --watch --skipLibCheck --skiplibcheck --strict "
            "--incremental --listFiles --version --target --module --lib --jsx"
        ),
    ),
    "jest": entry(
        names="vitest mocha ava tap c8 nyc jasmine playwright cypress karma",
        open=True,
        short="croRC",
        valued="twgi",
        long=(
            "--config --rootDir --rootdir --root --roots --dir --globalSetup --globalsetup "
            "--globalTeardown --globalteardown --setupFiles --setupfiles --setupFilesAfterEnv "
            "--setupfilesafterenv --transform --testRunner --testrunner --runner --reporters "
            "--reporter --testEnvironment --testenvironment --environment --resolver --preset "
            "--outputFile --outputfile --output-file --coverageDirectory --coveragedirectory "
            "--coverageReporters --coverage. --cacheDirectory --cachedirectory "
            "--moduleNameMapper --modulenamemapper --modulePaths --modulepaths --prettierPath "
            "--prettierpath --snapshotResolver --testSequencer --testsequencer "
            "--testResultsProcessor --testresultsprocessor --dependencyExtractor --filter "
            "--haste --globals --watchPlugins --projects --require --import --loader --ui "
            "--opts --package --file --api --open --browser --pool --poolOptions --execArgv "
            "--inspect --inspectBrk --node-option --report-dir --temp-dir --temp-directory "
            "--cwd --output --init --workspace --diff --sequence.sequencer "
            "--typecheck.checker --experimental --browser."
        ),
        harmless=(
            "--coverage --verbose --watch --watchAll --ci --runInBand --bail "
            "--testNamePattern --testPathPattern --passWithNoTests --silent --maxWorkers "
            "--run --updateSnapshot --listTests --findRelatedTests --onlyChanged --grep "
            "--timeout --detectOpenHandles --forceExit --project --headed --debug --list"
        ),
    ),
    "ctest": entry(
        open=True,
        short="OSDMTA",
        valued="jRELICt",
        long=(
            "--output-log --output-junit --script --script-new-process --extra-submit "
            "--build-and-test --build-makeprogram --build-options --test-command --test-dir "
            "--build-exe-dir --build-run-dir --build-generator --build-config-sample "
            "--add-notes --overwrite --dashboard --test-action --test-model --build-target "
            "--preset --interactive-debug-mode --tomorrow-tag --http1.0 --resource-spec-file "
            "--build-generator-platform --build-generator-toolset --submit-index"
        ),
        harmless=(
            "-N --repeat-until-fail --help-command-list --help-commands --output-on-failure "
            "--parallel --verbose --tests-regex --exclude-regex --label-regex --rerun-failed "
            "--show-only --quiet --timeout --build-config --stop-on-failure --extra-verbose "
            "--debug --progress --list-presets --repeat --test-output-size-passed "
            "--test-output-size-failed --test-output-truncation --build-nocmake "
            "--build-noclean --build-project --build-two-config --test-timeout --stop-time "
            "--test-load --no-tests --no-label-summary --no-subproject-summary "
            "--no-compress-output --print-labels --union --force-new-ctest-process "
            "--schedule-random --max-width --output-size --tests-information "
            "--tests-from-file --exclude-from-file --fixture-exclude-any "
            "--fixture-exclude-setup --fixture-exclude-cleanup --help-command --help-module"
        ),
    ),
    "cmake": entry(
        short="PECTAGDBHSt",
        valued="jW",
        long=(
            "--build --install --open --script --toolchain --preset --graphviz "
            "--profiling-output --profiling-format --trace-redirect --install-prefix --prefix "
            "--target --find-package --workflow --trace-source --debugger --debugger-pipe "
            "--debugger-dap-log --system-information --project-file "
            "--default-directory-permissions --resolve-package-references"
        ),
        harmless=(
            "--version --help --parallel --config --verbose --log-level --trace "
            "--trace-expand --trace-format --debug-output --debug-trycompile --debug-find "
            "--fresh --list-presets --warn-uninitialized --help-full --help-manual "
            "--help-manual-list --help-command --help-command-list --help-commands "
            "--help-module --help-module-list --help-modules --help-policy --help-policy-list "
            "--help-policies --help-property --help-property-list --help-properties "
            "--help-variable --help-variable-list --help-variables -N -L -LA -LH "
            "--compile-no-warning-as-error --link-no-warning-as-error -LR -LRA -U "
            "--print-config-dir"
        ),
    ),
    "ninja": entry(
        names="samu",
        short="fCt",
        valued="jklwd",
        long="--file --chdir",
        harmless="-n -v --verbose --quiet --version -k",
    ),
    "meson": entry(
        anywhere=True,
        short="CDo",
        valued="jt",
        long=(
            "--native-file --cross-file --wrapper --wrap --gdb --gdb-path --setup --destdir "
            "--backend --prefix --bindir --libdir --datadir --workdir --logbase --interactive "
            "--vsenv --ninja-args --vs-args --xcode-args --wrap-mode"
        ),
        harmless="--verbose --print-errorlogs --suite --list --repeat --no-rebuild",
        sub={
            "test": entry(open=True),
            "compile": entry(),
        },
    ),
}
