"""What options can do, by program: languages, their compilers and package tools.

``program_entry`` says what the fields mean.
"""

from .program_entry import ProgramOptions, entry

__all__ = ["PROGRAMS"]

PROGRAMS: dict[str, ProgramOptions] = {
    "npm": entry(
        anywhere=True,
        short="C",
        valued="w",
        long=(
            "--script-shell --node-options --prefix --userconfig --globalconfig --shell "
            "--editor --viewer --browser --git --init-module --onload-script "
            "--scripts-prepend-node-path --registry --call --package --cache --location "
            "--global --local-prefix --dir --ignore-scripts=false --foreground-scripts "
            "--logs-dir --pack-destination --python --nodedir --before-script "
            "--workspace-root --https-proxy --proxy --cafile --ca --cert --key --strict-ssl "
            "--umask --tag-script --sso-type"
        ),
        starts="git+ git: github: file: http: https:",
        long_flags=(
            "--silent --json --if-present --workspaces --no-audit --no-fund --prefer-offline "
            "--ignore-scripts"
        ),
        long_valued="--workspace --loglevel",
        harmless=(
            "--workspace --workspaces --ws --include --omit --if-present --silent "
            "--ignore-scripts --loglevel --json --save --save-dev --save-exact "
            "--save-optional --save-prod --save-bundle --no-save --dry-run --no-audit "
            "--no-fund --prefer-offline --legacy-peer-deps --force --production --only --all "
            "--depth --long --parseable --yes --color"
        ),
        sub={
            "run": entry(open=True),
            "run-script": entry(open=True),
            "test": entry(open=True),
            "t": entry(),
            "start": entry(),
            "ci": entry(),
            "ls": entry(open=True),
            "list": entry(open=True),
            "outdated": entry(open=True),
            "view": entry(),
            "install": entry(short="g"),
            "i": entry(short="g"),
            "exec": entry(runs=True, short="c"),
            "x": entry(runs=True, short="c"),
            "init": entry(runs=True),
            "config": entry(starts="set edit"),
            "c": entry(starts="set edit"),
            "set": entry(starts="script-shell prefix node-options shell editor git"),
            "explore": entry(runs=True),
            "edit": entry(runs=True),
            "create": entry(runs=True),
            "innit": entry(runs=True),
        },
    ),
    "pnpm": entry(
        anywhere=True,
        short="C",
        valued="F",
        long=(
            "--dir --script-shell --shell-emulator --node-options --config --global-dir "
            "--global-bin-dir --store-dir --virtual-store-dir --modules-dir --shell-mode "
            "--registry --pnpmfile --global-pnpmfile --lockfile-dir --workspace-root --prefix "
            "--use-node-version --package --allow-build --reporter-hide-prefix=false --global "
            "--scripts-prepend-node-path --userconfig --globalconfig"
        ),
        starts="git+ git: github: file: http: https:",
        harmless=(
            "--filter --recursive --reporter --silent --frozen-lockfile --prod --dev "
            "--parallel --if-present --save-dev --workspace"
        ),
        sub={
            "run": entry(open=True),
            "test": entry(open=True),
            "exec": entry(runs=True, short="c"),
            "dlx": entry(runs=True, short="c"),
            "create": entry(runs=True),
        },
    ),
    "yarn": entry(
        anywhere=True,
        long=(
            "--cwd --use-yarnrc --script-shell --modules-folder --global-folder "
            "--cache-folder --link-folder --registry --preferred-cache-folder --prefix "
            "--binaries-only=false --require --inspect --inspect-brk --mutex --package "
            "--proxy --https-proxy --enable-pnp --pnp"
        ),
        starts="git+ git: github: file: http: https:",
        harmless=(
            "--frozen-lockfile --immutable --silent --json --dev --production "
            "--ignore-scripts --verbose"
        ),
        sub={
            "run": entry(open=True),
            "test": entry(open=True),
            "config": entry(starts="set"),
            "set": entry(),
            "plugin": entry(starts="import"),
            "exec": entry(runs=True),
            "dlx": entry(runs=True),
            "node": entry(runs=True),
            "create": entry(runs=True),
        },
    ),
    "bun": entry(
        names="bunx",
        anywhere=True,
        short="rcepF",
        valued="d",
        long=(
            "--preload --require --import --config --cwd --eval --print --env-file --outdir "
            "--outfile --shell --extension-order --tsconfig-override --registry --cache-dir "
            "--cafile --define --loader --main-fields --conditions --inspect --inspect-brk "
            "--inspect-wait --exec --install --backend --global --filter --plugin --compile "
            "--root --coverage-dir --reporter-outfile --package --trust"
        ),
        harmless=("--watch --hot --silent --smol --bail --timeout --coverage --dry-run --no-save"),
        sub={
            "run": entry(open=True),
            "test": entry(open=True),
        },
    ),
    "node": entry(
        names="nodejs",
        stops=True,
        short="repiC",
        long=(
            "--experimental-network-imports --require --import --loader --experimental-loader "
            "--eval --print --env-file --env-file-if-exists --openssl-config "
            "--experimental-config-file --experimental-default-config-file --icu-data-dir "
            "--conditions --inspect --inspect-brk --inspect-wait --inspect-port --prof "
            "--cpu-prof --cpu-prof-dir --cpu-prof-name --heap-prof --heap-prof-dir "
            "--heap-prof-name --diagnostic-dir --report-dir --report-directory "
            "--report-filename --redirect-warnings --trace-event-file-pattern --test-reporter "
            "--test-reporter-destination --test-global-setup --snapshot-blob --build-snapshot "
            "--build-snapshot-config --experimental-sea-config --policy-integrity "
            "--experimental-policy --run --title --watch-path --allow-fs-write "
            "--allow-child-process --allow-addons --allow-worker --tls-keylog "
            "--localstorage-file --security-revert --expose-internals --interactive "
            "--heapsnapshot-signal --entry-url --build-sea --perf-basic-prof "
            "--interpreted-frames-native-stack --logfile --experimental-test-module-mocks "
            "--experimental-network-inspection"
        ),
        code="-e -p --eval --print -r --require --import",
        harmless=(
            "-c --completion-bash --experimental-default-type "
            "--experimental-import-meta-resolve --experimental-print-required-tla "
            "--experimental-vm-modules --input-type --jitless --node-memory-debug "
            "--preserve-symlinks-main --test-shard --trace-require-module "
            "--unhandled-rejections --v8-options --check --test --watch --version --help "
            "--test-only --test-name-pattern --test-concurrency --test-timeout "
            "--trace-warnings --max-old-space-size --enable-source-maps --no-warnings "
            "--prof-process --report-on-signal --report-signal --report-uncaught-exception "
            "--report-on-fatalerror --report-compact --report-exclude-env "
            "--report-exclude-network"
        ),
    ),
    "python": entry(
        names="python2 python3 pypy pypy3 ipython",
        stops=True,
        module="-m",
        short="cimXW",
        long="--check-hash-based-pycs",
        code="-c",
        harmless=(
            "-E -I -s -S -B -O -u -v -q -b -d -x -V -P --help --version --help-env "
            "--help-xoptions --help-all"
        ),
    ),
    "cargo": entry(
        anywhere=True,
        short="CZ",
        valued="pFj",
        flags="qvhV",
        long=(
            "--config --manifest-path --target-dir --artifact-dir --out-dir "
            "--output-format-file --root --path --git --registry --index --lockfile-path "
            "--timings-dir --open --broken-code --extern-html-root-url --target"
        ),
        long_flags="--locked --offline --frozen --quiet --verbose --list --version --help",
        long_valued="--color --explain",
        harmless=(
            "--release --workspace --all --all-targets --all-features --no-default-features "
            "--features --lib --bins --bin --test --tests --bench --benches --example "
            "--examples --package --exclude --profile --jobs --keep-going --message-format "
            "--locked --offline --frozen --color --quiet --verbose --list --explain --no-run "
            "--no-fail-fast --doc --fix --check --timings --ignore-rust-version "
            "--future-incompat-report --build-plan --unit-graph"
        ),
        sub={
            "build": entry(open=True),
            "b": entry(open=True),
            "check": entry(open=True),
            "c": entry(open=True),
            "test": entry(open=True),
            "t": entry(open=True),
            "clippy": entry(open=True),
            "fmt": entry(open=True),
            "doc": entry(open=True),
            "bench": entry(open=True),
            "run": entry(),
            "r": entry(),
            "tree": entry(open=True),
            "metadata": entry(open=True),
            "install": entry(),
            "add": entry(),
            "update": entry(),
        },
    ),
    "go": entry(
        anywhere=True,
        single=True,
        long=(
            "-C -exec -toolexec -o -overlay -modfile -pkgdir -vettool -gcflags -ldflags "
            "-asmflags -gccgoflags -compiler -workfile -cpuprofile -memprofile -blockprofile "
            "-mutexprofile -trace -coverprofile -outputdir -test.* -debug-actiongraph "
            "-debug-trace -json-file -fix -u -tool -pgo -testlogfile -gocoverdir "
            "-fuzzcachedir -installsuffix -buildmode -artifacts"
        ),
        starts="-args",
        harmless=(
            "-run -v -race -count -short -timeout -cover -json -bench -benchmem -tags -n -x "
            "-work -mod -p -a -parallel -failfast -list -shuffle -vet -skip -fuzz -fuzztime"
        ),
        sub={
            "build": entry(open=True),
            "test": entry(open=True),
            "vet": entry(open=True),
            "fmt": entry(open=True, long="-x"),
            "list": entry(open=True),
            "doc": entry(open=True, long="-http"),
            "version": entry(open=True),
            "env": entry(long="-w -u"),
            "run": entry(runs=True),
            "generate": entry(runs=True),
            "get": entry(),
            "install": entry(runs=True),
            "mod": entry(),
            "tool": entry(runs=True),
        },
    ),
    "gofmt": entry(
        single=True,
        open=True,
        long="-cpuprofile",
    ),
    "rustc": entry(
        short="oLCZ",
        long=(
            "--out-dir --codegen --extern --sysroot --print --emit --remap-path-prefix --env-set"
        ),
        starts="@",
        harmless=(
            "-l --crate-name --crate-type --edition --test --cfg --check-cfg --target "
            "--explain --version --help --verbose --color --cap-lints --warn --allow --deny "
            "--forbid --force-warn"
        ),
    ),
    "perl": entry(
        stops=True,
        short="eEiIMmdDxCTp",
        valued="lF0",
        code="-e -E -M -d",
        harmless="-c -w -W -v -V -n -a -s -S -t -u -U -X -f -g -h",
    ),
    "ruby": entry(
        stops=True,
        short="erIiCxSE",
        valued="FTKW0",
        long=(
            "--require --encoding --external-encoding --internal-encoding --dump --enable --debug"
        ),
        code="-e -r",
    ),
    "bundle": entry(
        names="bundler gem",
        anywhere=True,
        short="rC",
        valued="j",
        long=(
            "--gemfile --path --binstubs --shebang --with --trust-policy --install-dir "
            "--bindir --config-file --env-shebang --standalone --source --target-rbconfig "
            "--build-root --ext"
        ),
        sub={
            "exec": entry(runs=True),
            "install": entry(),
            "config": entry(),
            "console": entry(),
            "check": entry(open=True),
            "list": entry(open=True),
            "open": entry(runs=True),
            "plugin": entry(runs=True),
        },
    ),
    "rake": entry(
        names="rspec rails rubocop minitest thor cucumber",
        short="fRIreEpoCc",
        valued="jtPT",
        long=(
            "--rakefile --require --libdir --rakelibdir --execute --execute-print "
            "--execute-continue --load-system --system --out --options --default-path "
            "--format --config --plugin --drb --bisect --init --cache-root --server --runner "
            "--template --auto-gen-config --init-gem --stdin --deprecation-out"
        ),
        code="-e -E -p --execute",
        harmless=(
            "--tag --example --fail-fast --color --trace --dry-run --autocorrect --auto-correct"
        ),
    ),
    "php": entry(
        stops=True,
        short="rRBEFfdcztS",
        long=(
            "--run --process-begin --process-code --process-end --process-file --file "
            "--define --php-ini --server --docroot --zend-extension --interactive"
        ),
        code="-r -R -B -E --run",
    ),
    "phpunit": entry(
        names="pest phpstan psalm composer phpcs phpcbf",
        short="cd",
        long=(
            "--configuration --bootstrap --include-path --printer --extension --loader "
            "--log-junit --log-teamcity --coverage-html --coverage-php --coverage-clover "
            "--coverage-text --coverage-xml --coverage-crap4j --coverage-cobertura "
            "--cache-directory --cache-result-file --testdox-html --testdox-text "
            "--testdox-xml --working-dir --plugin --autoload-file --generate-baseline "
            "--report-file --report --standard --runtime-set --config --root --debug- "
            "--plugins"
        ),
        harmless="--filter --testdox --colors --level --memory-limit",
    ),
    "deno": entry(
        anywhere=True,
        short="Acr",
        valued="L",
        long=(
            "--allow-all --allow-run --allow-write --allow-ffi --allow-env --allow-net "
            "--allow-read --allow-sys --config --import-map --lock --cert --preload "
            "--location --output --reload --unstable --env-file --junit-path --coverage "
            "--inspect --require --ext"
        ),
        sub={
            "test": entry(),
            "run": entry(runs=True),
            "eval": entry(runs=True),
            "fmt": entry(open=True),
            "lint": entry(open=True),
            "check": entry(open=True),
            "install": entry(runs=True),
            "task": entry(runs=True),
        },
    ),
    "swift": entry(
        names="xcodebuild xcrun",
        anywhere=True,
        short="IXCo",
        long=(
            "--package-path --scratch-path --build-path --toolchain --destination --sdk "
            "--config-path --security-path --cache-path --disable-sandbox --output "
            "--xunit-output --swift-sdk"
        ),
        starts="-derivedDataPath -project -workspace -xcconfig -toolchain -load-plugin -plugin",
        sub={
            "build": entry(open=True),
            "test": entry(open=True),
        },
    ),
    "mix": entry(
        names="elixir iex rebar3 erl",
        short="eprS",
        long=(
            "--eval --require --rpc-eval --no-halt --erl --cookie --vm-args --werl --boot --config"
        ),
        starts="-eval -run -s -config -pa -pz",
        code="-e --eval",
        sub={
            "test": entry(open=True),
            "compile": entry(open=True),
            "format": entry(open=True),
        },
    ),
    "java": entry(
        names="javac kotlin kotlinc scala scalac groovy jshell javadoc jar",
        single=True,
        long=(
            "-jar -cp -classpath --class-path -p --module-path --upgrade-module-path -m "
            "--module -javaagent -agentlib -agentpath --patch-module -processor "
            "-processorpath --processor-path --processor-module-path -d -s -h -endorseddirs "
            "-extdirs -bootclasspath -sourcepath --source-path --module-source-path -e "
            "-script -Xplugin --startup -R -J -C -f --file --add-opens --add-exports --system "
            "-doclet -docletpath -taglet -tagletpath"
        ),
        starts=(
            "@ -J -D -XX: -agent -javaagent -Xplugin -Xbootclasspath -Xlog -Xloggc -Xrun "
            "-Xdebug -splash -A"
        ),
        harmless=(
            "-version --version -help --help -showversion --show-version -ea -esa -Xmx -Xms "
            "-verbose --list-modules --describe-module --dry-run --validate-modules "
            "-disableassertions -enableassertions --enable-preview --disable-@files -Xint "
            "--show-module-resolution --add-modules --enable-native-access --source -X "
            "--help-extra -? --limit-modules -da -dsa --illegal-native-access -zgc "
            "--sun-misc-unsafe-memory-access --finalization"
        ),
    ),
    "dotnet": entry(
        anywhere=True,
        short="osprdc",
        valued="fv",
        long=(
            "--output --settings --project --property --logger --test-adapter-path "
            "--results-directory --diag --artifacts-path --configfile --source "
            "--additionalprobingpath --additional-deps --depsfile --runtimeconfig "
            "--fx-version --roll-forward --startup-hook --packages --collect --tool-path "
            "--tool-manifest --launch-profile --environment --additional-probing-path"
        ),
        starts=(
            "-p: /p: -property: /property: @ /logger -logger -l: /l: -bl /bl -t: /t: -target "
            "-r: -flp -fl -pp -dl -distributedlogger"
        ),
        harmless=(
            "--no-restore --no-build --configuration --framework --verbosity --filter "
            "--list-tests --nologo"
        ),
        sub={
            "build": entry(open=True),
            "test": entry(open=True),
            "restore": entry(),
            "run": entry(),
            "tool": entry(),
        },
    ),
    "gcc": entry(
        names="cc c++ g++ clang clang++ c99 c89 tcc gfortran gccgo icc nvcc",
        single=True,
        long=(
            "-wrapper -specs --specs --sysroot -dumpdir -save-temps --config -fplugin -load "
            "-Xclang -Xlinker -Xassembler -Xpreprocessor -ccbin -x"
        ),
        starts=(
            "@ -o -B -fplugin -fpass-plugin -fdump -fprofile -fuse-ld "
            "-fdiagnostics-add-output -fcallgraph-info -ftest-coverage -fstack-usage "
            "-save-temps -Wl, -Wp, -Wa, -specs --specs --sysroot -dumpbase -dumpdir -M -load "
            "-X -imacros -include -iplugindir -I -L -T -fmodule -fmodules -fcompare-debug "
            "-aux-info -gsplit -ivfsoverlay -working-directory -fcrash-diagnostics-dir -time= "
            "-ccbin -dopt"
        ),
        harmless=(
            "-time -c -S -E -Wall -Wextra -Werror -O2 -g -std -v -### -pipe -shared -pie "
            "-print-search-dirs -print-libgcc-file-name -print-multiarch "
            "-print-multi-directory -print-multi-lib -print-multi-os-directory -print-sysroot "
            "-print-sysroot-headers-suffix -pass-exit-codes -dumpspecs -dumpversion "
            "-dumpmachine -foffload --version --help --target-help -print-file-name "
            "-print-prog-name"
        ),
    ),
    "ld": entry(
        names="ar as objcopy strip ranlib nm objdump lld gold mold",
        short="oTLR",
        long=(
            "--output --plugin --plugin-opt --script --run --dependency-file --Map --library-path"
        ),
        starts="@ -plugin -Map",
    ),
}
