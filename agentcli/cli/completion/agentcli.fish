function __agentcli_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    test -n "$current"; or set current ''
    set -l found (env _AGENTCLI_COMPLETE=fish $words[1] -- $words[2..-1] $current 2>/dev/null)
    if test $status -eq 3
        __fish_complete_path "$current"
    else
        printf '%s\n' $found
    end
end
complete -c agentcli -f -a '(__agentcli_complete)'
