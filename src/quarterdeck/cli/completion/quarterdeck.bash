# Completion of quarterdeck and qd for bash 4.4 and newer.
# Use it now: eval "$(quarterdeck completion bash)"
# Install it: quarterdeck completion bash > ~/.local/share/bash-completion/completions/quarterdeck

_quarterdeck_complete() {
    local line=${COMP_LINE:0:COMP_POINT}
    local word=${line##*[[:space:]]} done_part='' kind value
    # Readline replaces only what follows the last colon or equals sign.
    [[ $word == -*=* ]] && word=${word#*=}
    [[ $word == *:* && $COMP_WORDBREAKS == *:* ]] && done_part=${word%"${word##*:}"}
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            plain)
                value=${value#"$done_part"}
                if [[ $value == *= ]]; then
                    compopt -o nospace
                fi
                COMPREPLY+=("$value")
                ;;
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
        esac
    done < <(COMP_WORDS=$line _QUARTERDECK_COMPLETE=bash_complete _QD_COMPLETE=bash_complete \
        "$1" 2>/dev/null </dev/null)
}

complete -o nosort -F _quarterdeck_complete quarterdeck qd
