#compdef agentcli
_agentcli() {
    local found
    local -a rows
    found=$(_AGENTCLI_COMPLETE=zsh ${words[1]} -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    if (( $? == 3 )); then
        _files
        return
    fi
    rows=("${(@f)found}")
    [[ -n $found ]] && _describe agentcli rows
}
if [[ $funcstack[1] == _agentcli ]]; then
    _agentcli "$@"
else
    compdef _agentcli agentcli
fi
