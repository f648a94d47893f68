# Completion of quarterdeck and qd for fish.
# Use it now: quarterdeck completion fish | source
# Install it: quarterdeck completion fish > ~/.config/fish/completions/quarterdeck.fish

function __quarterdeck_complete
    set -l words (commandline -cp)
    set -l program (string split -m1 " " -- (string trim -l -- $words))[1]
    for line in (env COMP_WORDS="$words" _QUARTERDECK_COMPLETE=fish_complete \
            _QD_COMPLETE=fish_complete $program 2>/dev/null </dev/null)
        set -l parts (string split -m1 "," -- $line)
        switch $parts[1]
            case plain
                printf '%s\n' $parts[2]
            case dir
                __fish_complete_directories (commandline -ct)
            case file
                __fish_complete_path (commandline -ct)
        end
    end
end

complete --command quarterdeck --no-files --arguments "(__quarterdeck_complete)"
complete --command qd --no-files --arguments "(__quarterdeck_complete)"
