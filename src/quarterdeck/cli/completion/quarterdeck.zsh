#compdef quarterdeck qd
# Completion of quarterdeck and qd for zsh.
# Use it now: source <(quarterdeck completion zsh)
# Install it: quarterdeck completion zsh > a directory of $fpath/_quarterdeck

_quarterdeck() {
    local -a answer plain described
    local kind value text line="${(j: :)words[1,CURRENT-1]} $PREFIX"
    answer=("${(@f)$(COMP_WORDS=$line _QUARTERDECK_COMPLETE=zsh_complete \
        _QD_COMPLETE=zsh_complete ${words[1]} 2>/dev/null </dev/null)}")
    for kind value text in "${answer[@]}"; do
        case $kind in
            plain)
                if [[ $text == _ ]]; then
                    plain+=("$value")
                else
                    described+=("${value//:/\\:}:$text")
                fi
                ;;
            dir) _path_files -/ ;;
            file) _path_files -f ;;
        esac
    done
    (( $#described )) && _describe -V names described
    (( $#plain )) && compadd -V names -a plain
    return 0
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _quarterdeck "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef _quarterdeck quarterdeck qd
fi
