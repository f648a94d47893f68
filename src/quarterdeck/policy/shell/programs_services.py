"""What options can do, by program: the network, databases and other machines.

``program_entry`` says what the fields mean.
"""

from .program_entry import ProgramOptions, entry

__all__ = ["PROGRAMS"]

PROGRAMS: dict[str, ProgramOptions] = {
    "ssh": entry(
        names="autossh mosh sshpass",
        short="oFEILRDJWwSiOP",
        valued="pbBcelmQ",
        long="--ssh --server --client",
        code="-o",
    ),
    "scp": entry(
        names="sftp",
        short="oSFJiPDsb",
        valued="lc",
        code="-o -S",
    ),
    "rsync": entry(
        short="eMTf",
        valued="B",
        long=(
            "--rsh --rsync-path --remote-option --log-file --daemon --config --files-from "
            "--exclude-from --include-from --filter --backup-dir --temp-dir --partial-dir "
            "--link-dest --copy-dest --compare-dest --write-batch --only-write-batch "
            "--read-batch --password-file --early-input --sockopts --early-exec "
            "--pre-xfer-exec --delete --delete-before --delete-during --delete-after "
            "--delete-excluded --del --remove-source-files --copy-unsafe-links --copy-links "
            "--keep-dirlinks --dparam --iconv"
        ),
        starts="rsync:// ::",
        code="-e --rsh --rsync-path",
        harmless=(
            "--archive --verbose --recursive --dry-run --exclude --include --progress --stats "
            "--compress --checksum --human-readable --log-file-format"
        ),
    ),
    "curl": entry(
        short="oOKTdFJDcExUbwYQ",
        valued="AHXuemrCyz",
        long=(
            "--output --output-dir --remote-name --remote-name-all --remote-header-name "
            "--config --upload-file --data --data-binary --data-raw --data-urlencode "
            "--data-ascii --form --form-string --json --dump-header --cookie-jar --cookie "
            "--trace --trace-ascii --stderr --cert --key --proxy --preproxy --socks5 "
            "--socks5-hostname --socks4 --socks4a --libcurl --engine --netrc-file "
            "--unix-socket --abstract-unix-socket --hsts --alt-svc --etag-save --write-out "
            "--create-dirs --create-file-mode --connect-to --resolve --dns-servers --doh-url "
            "--interface --random-file --egd-file --url-query --variable --expand- "
            "--mail-from --quote --postquote --prequote --ftp-port --next --proto --capath "
            "--cacert --skip-existing --no-clobber --remove-on-error --ssl-sessions "
            "--ipfs-gateway --upload-flags --url --ech --knownhosts"
        ),
        starts="@ file: scp: sftp: smb: telnet: dict: gopher: ldap: tftp:",
        harmless=(
            "--compressed --fail --fail-with-body --silent --show-error --location --head "
            "--header --request --user-agent --max-time --retry --include --insecure "
            "--verbose --get --ipv4 --ipv6 --connect-timeout --user --cert-status --cert-type "
            "--key-type --proto-default --proto-redir --no-progress-meter --progress-bar "
            "--range --remote-time --form-escape --proxy-header --proxy-insecure "
            "--no-sessionid --no-keepalive --trace-time --trace-ids --trace-config --xattr "
            "--junk-session-cookies --styled-output"
        ),
    ),
    "wget": entry(
        short="OePioaBQUn",
        valued="tTlRAwYDIX",
        long=(
            "--output-document --output-file --append-output --execute --directory-prefix "
            "--input-file --use-askpass --post-file --post-data --body-file --body-data "
            "--config --save-cookies --load-cookies --warc-file --warc-cdx --warc-dedup "
            "--warc-tempdir --base --ca-certificate --ca-directory --certificate "
            "--private-key --hsts-file --rejected-log --preserve-permissions "
            "--protocol-directories --force-directories --cut-dirs --default-page "
            "--adjust-extension --backup-converted --convert-links --convert-file-only "
            "--background --user-agent --content-disposition --no-clobber --unlink "
            "--delete-after --retr-symlinks --random-file --egd-file --crl-file "
            "--pinnedpubkey --bind-address --mirror --recursive --keep-badhash --backups "
            "--ftp-user --proxy-user --method --warc-header --referer"
        ),
        starts="ftp: file:",
        code="-e --execute --use-askpass",
        harmless=(
            "--keep-session-cookies --quiet --spider --tries --timeout --server-response "
            "--no-verbose --continue --timestamping --no-check-certificate --header --accept "
            "--reject --level --no-parent --no-config --progress --show-progress "
            "--no-warc-compression --no-warc-digests --no-warc-keep-log --restrict-file-names "
            "--ignore-case --no-directories --no-host-directories --certificate-type "
            "--private-key-type --no-hsts --no-cookies --warc-max-size --no-if-modified-since "
            "--ask-password --use-server-timestamps --no-use-server-timestamps --no-iri "
            "--local-encoding --remote-encoding --save-headers --user --input-metalink "
            "--metalink-over-http --metalink-index --preferred-location"
        ),
    ),
    "docker": entry(
        names="podman nerdctl docker-compose podman-compose",
        anywhere=True,
        short="vHcfCeuwo",
        valued="lp",
        long=(
            "--volume --volumes-from --mount --privileged --host --config --context --device "
            "--cap-add --security-opt --pid --ipc --network --net --userns --uts --cgroupns "
            "--cgroup-parent --entrypoint --env-file --env --file --project-directory "
            "--output --iidfile --metadata-file --cidfile --secret --ssh --build-context "
            "--build-arg --add-host --tlscacert --tlscert --tlskey --runtime --init-path "
            "--user --workdir --tmpfs --allow --builder --sbom --attest --cache-to "
            "--cache-from --log-driver --log-opt --health-cmd --link --publish-all "
            "--hooks-dir --conmon --root --runroot --storage-opt --module --url --connection "
            "--identity --remote --volume-driver --group-add --gpus --device-cgroup-rule "
            "--sysctl --ulimit --dns --label-file --compose-file --env-from --input"
        ),
        harmless=(
            "--cpuset-cpus --cpuset-mems -d --health-interval --health-start-interval "
            "--health-timeout --pull -a --rm --detach --interactive --tty --name --publish "
            "--quiet --no-trunc --all --filter --format --tail --follow --since --until "
            "--timestamps --debug --tls --tlsverify --log-level --version"
        ),
        sub={
            "ps": entry(open=True),
            "images": entry(open=True),
            "logs": entry(open=True),
            "inspect": entry(),
            "build": entry(),
            "run": entry(runs=True),
            "exec": entry(runs=True),
            "compose": entry(),
            "cp": entry(),
            "info": entry(),
            "pull": entry(),
            "push": entry(),
            "rm": entry(),
            "version": entry(),
            "create": entry(runs=True),
            "plugin": entry(runs=True),
        },
    ),
    "gh": entry(
        anywhere=True,
        short="RHFeDCpO",
        valued="jqLsASlmbt",
        long=(
            "--repo --hostname --exec --input --body-file --editor --web --output --dir "
            "--clobber --field --raw-field --header --method --template-file --clone --source "
            "--remote --push --env-file --shell --with-token --git-protocol --pin --archive"
        ),
        text="--title --body -t -b",
        sub={
            "pr": entry(),
            "issue": entry(),
            "run": entry(),
            "api": entry(),
            "alias": entry(runs=True),
            "extension": entry(runs=True),
            "repo": entry(),
            "release": entry(),
            "auth": entry(runs=True),
            "secret": entry(),
            "gist": entry(),
            "codespace": entry(runs=True),
        },
    ),
    "kubectl": entry(
        names="oc helm k9s kustomize minikube kind",
        anywhere=True,
        short="fkos",
        valued="nlcL",
        long=(
            "--kubeconfig --server --token --as --as-group --context --cluster --user "
            "--filename --kustomize --cache-dir --certificate-authority --client-certificate "
            "--client-key --insecure-skip-tls-verify --profile --profile-output --log-file "
            "--log-dir --output-directory --post-renderer --plugin --values --set-file "
            "--registry-config --repository-cache --repository-config --output --template "
            "--patch-file --from-file --from-env-file --raw --enable-helm --helm-command "
            "--load-restrictor --enable-alpha-plugins --enable-exec --image --overrides "
            "--vmodule --kuberc"
        ),
        harmless=(
            "--ignore-not-found -R --recursive --namespace --all-namespaces --selector "
            "--watch --tail --follow --previous --container --since --output-watch-events"
        ),
        sub={
            "get": entry(open=True),
            "describe": entry(open=True),
            "logs": entry(open=True),
            "exec": entry(runs=True),
            "run": entry(runs=True),
            "cp": entry(runs=True),
            "apply": entry(),
            "delete": entry(),
            "config": entry(),
            "plugin": entry(runs=True),
            "debug": entry(runs=True),
            "edit": entry(runs=True),
            "options": entry(),
            "version": entry(),
            "attach": entry(runs=True),
        },
    ),
    "terraform": entry(
        names="tofu terragrunt packer",
        anywhere=True,
        single=True,
        long=(
            "-chdir -out -state -state-out -backup -plugin-dir -var-file -var -backend-config "
            "-from-module -auto-approve -generate-config-out -lock -config-dir -cloud-config "
            "-reattach -upgrade -get-plugins -verify-plugins -test-directory -json-into "
            "-junit-xml -fs-mirror -net-mirror -write -backend -migrate-state -reconfigure "
            "-force-copy -terragrunt-tfpath -terragrunt-config -terragrunt-working-dir "
            "-working-dir -config -tf-path"
        ),
        harmless="-target -detailed-exitcode",
        sub={
            "plan": entry(),
            "validate": entry(open=True),
            "fmt": entry(),
            "show": entry(open=True),
            "output": entry(),
            "init": entry(),
            "apply": entry(),
            "destroy": entry(),
            "console": entry(),
            "providers": entry(),
        },
    ),
    "ansible": entry(
        names=(
            "ansible-playbook ansible-galaxy ansible-vault ansible-console ansible-pull "
            "ansible-inventory"
        ),
        short="aeMicmBtod",
        valued="ulfP",
        long=(
            "--args --extra-vars --module-path --inventory --inventory-file --connection "
            "--module-name --ssh-common-args --sftp-extra-args --scp-extra-args "
            "--ssh-extra-args --become --become-method --become-user --vault-password-file "
            "--vault-id --playbook-dir --private-key --key-file --tree --roles-path --output "
            "--directory --background --step --user --remote-user --become-password-file "
            "--connection-password-file"
        ),
        code="-a --args",
    ),
    "psql": entry(
        names="pg_dump pg_restore createdb dropdb pgcli",
        operands=r"\\|program|^postgres",
        short="cfoLvhHUd",
        valued="FRTp",
        long="--command --file --output --log-file --set --variable --host --dbname",
        starts="\\! \\o \\copy postgres: postgresql:",
        code="-c --command -v",
        harmless=(
            "-a -b -S --list --version --no-align --csv --quiet --single-line --single-step "
            "--single-transaction --echo-queries --echo-hidden --echo-all --echo-errors "
            "--no-psqlrc --no-readline --tuples-only --expanded --html --pset --table-attr "
            "--field-separator --record-separator --port --username --no-password --password "
            "--help -q -l -e -E -1 -? -A -t -x -z -0 -P -n -X --field-separator-zero "
            "--record-separator-zero"
        ),
    ),
    "mysql": entry(
        names="mariadb mysqldump mariadb-dump mysqlimport mycli",
        operands=r"\\!|^system|outfile|load_file|^source",
        short="erhSrTWD",
        valued="pPu",
        long=(
            "--execute --tee --defaults-file --defaults-extra-file --init-command "
            "--plugin-dir --default-auth --pager --local-infile --result-file --tab --host "
            "--socket --login-path --histfile"
        ),
        starts="system \\!",
        code="-e --execute --pager --init-command",
    ),
    "sqlite3": entry(
        names="sqlite duckdb litecli",
        single=True,
        operands=r"load_extension|writefile|readfile|edit\s*[(]|attach|fts3_tokenizer|install|copy",
        long=(
            "-init -cmd -vfs -interactive -A -lookaside -deserialize -unsafe-testing -log -c "
            "-s -f -ui -escape -mmap -maxsize"
        ),
        starts=". ATTACH attach",
        code="-cmd",
        harmless=(
            "-header -noheader -json -csv -line -column -readonly -batch -version -help -box "
            "-table -list -html -markdown -quote -tabs -ascii -bail -echo -safe -stats "
            "-separator -newline -nullvalue -append -nofollow -memtrace -multiplex -noinit "
            "-pcachetrace -pagecache -screenwidth -sorterref -zip -archive -heap -hexkey -key "
            "-textkey"
        ),
    ),
    "openssl": entry(
        single=True,
        long=(
            "-out -engine -provider -provider-path -config -keyout -writerand -rand -outform "
            "-CAserial -CAcreateserial -passin -passout -pass -kfile -keylogfile -sess_out "
            "-sess_in -exec -proxy -key -inkey -CAkey -outdir -signkey -tsout -crl_out "
            "-extfile -srand -serverinfo -dump_certs -sign-other"
        ),
        harmless="-in -text -noout -help -inform",
    ),
    "apt": entry(
        names="apt-get apt-cache aptitude dpkg dnf yum rpm pacman apk brew snap zypper",
        short="oct",
        valued="q",
        long=(
            "--option --config-file --target-release --root --admindir --instdir --setopt "
            "--installroot --pre-invoke --post-invoke --force-all --dbpath --define --eval "
            "--pipe --hookdir --config --cachedir --repository --keys-dir"
        ),
        starts="APT:: DPkg::",
    ),
}
