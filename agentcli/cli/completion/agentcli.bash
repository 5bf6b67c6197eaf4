_agentcli_completion() {
    local IFS=$'\n' found
    found=$(_AGENTCLI_COMPLETE=bash "$1" -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ $? -eq 3 ]; then
        return
    fi
    compopt +o default 2>/dev/null
    COMPREPLY=($found)
}
complete -o default -F _agentcli_completion agentcli
