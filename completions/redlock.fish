# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_redlock_global_optspecs
    string join \n h/help V/version
end

function __fish_redlock_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_redlock_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_redlock_using_subcommand
    set -l cmd (__fish_redlock_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c redlock -n "__fish_redlock_needs_command" -s h -l help -d 'Print help'
complete -c redlock -n "__fish_redlock_needs_command" -s V -l version -d 'Print version'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "sandbox" -d 'Start throw-away Redis masters on this machine, for trying out and for tests'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "run" -d 'Run a command while holding a lock'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "acquire" -d 'Take a lock and print its token, for scripts'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "extend" -d 'Prolong a lock held under a token'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "release" -d 'Give a lock back, by its token or by --force'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "unlock" -d 'Give a lock back, by its token or by --force'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "doctor" -d 'Can these nodes keep the lock\'s promise? What to fix'
complete -c redlock -n "__fish_redlock_needs_command" -f -a "status" -d 'Who holds which locks, node by node'
complete -c redlock -n "__fish_redlock_using_subcommand sandbox" -l count -d 'How many masters, 1 to 15' -r
complete -c redlock -n "__fish_redlock_using_subcommand sandbox" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s k -l key -d 'The lock\'s name; repeatable: all or nothing' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -s t -l ttl -d 'How long the lock survives us' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l token -d 'Adopt a lock that `redlock acquire` took, for one step of a pipeline' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l label -d 'A remark for everybody who finds the lock held, at most 200 bytes [env: REDLOCK_LABEL]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l report -d 'Write what became of the run, as one JSON object, when it is over' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l log-format -d 'How our own lines look: text, or one JSON object a line' -r -f -a "text\t''
json\t''"
complete -c redlock -n "__fish_redlock_using_subcommand run" -l strategy -d 'How the nodes are asked' -r -f -a "concurrent\t'All at once'
sequential\t'One after the other, as Redlock was first published'"
complete -c redlock -n "__fish_redlock_using_subcommand run" -s w -l wait -d 'Wait at most so long; without -n or -w: without limit' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l quorum-wait -d 'While waiting without limit, give up after so much continuous outage' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -s E -l conflict-exit-code -d 'The exit code for "held by somebody else", 0 to 255' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l heartbeat -d 'Repeat the line about waiting after so long, doubling up to 5 min; 0s: never' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l min-hold -d 'For cron: keep the lock at least so long from its acquisition, also when the command is done' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l slots -d 'A semaphore: run while fewer than N others do, 1 to 64' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l max-runtime -d 'End the command after so long: TERM, then KILL after --kill-after; exit 124 (137)' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l kill-after -d 'How long after TERM the command gets KILL [default: 10s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l on-lost -d 'What becomes of the command when the lock is lost for certain' -r -f -a "kill\t''
term\t''
continue\t''"
complete -c redlock -n "__fish_redlock_using_subcommand run" -l grace -d 'How long before KILL the command gets TERM [default: ttl/6, at most 5s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l margin -d 'KILL so long before the validity ends [default: ttl/30 in 200ms..1s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l leftover -d 'What becomes of descendants that outlive the command' -r -f -a "wait\t''
kill\t''
ignore\t''"
complete -c redlock -n "__fish_redlock_using_subcommand run" -l group -d 'The process group of the command' -r -f -a "auto\t''
own\t''
shared\t''
handover\t''"
complete -c redlock -n "__fish_redlock_using_subcommand run" -l max-stopped -d 'KILL a command that is stopped for so long [default: 10 x ttl]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l nodes -d 'The Redis masters, comma separated; repeatable [env: REDLOCK_NODES]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l config -d 'Read this file instead of the usual ones [env: REDLOCK_CONFIG]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l username -d 'User for nodes whose URL has neither user nor password [env: REDLOCK_USERNAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l password-file -d 'Where the password is for nodes whose URL has none: a file, or fd:N [env: REDLOCK_PASSWORD_FILE]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l tls-ca -d 'Trust these CAs for rediss:// nodes, instead of the system\'s (PEM) [env: REDLOCK_TLS_CA]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l tls-cert -d 'Our own certificate, for nodes that ask for one (PEM, with --tls-key) [env: REDLOCK_TLS_CERT]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l tls-key -d 'The key of --tls-cert (PEM, unencrypted) [env: REDLOCK_TLS_KEY]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand run" -l tls-server-name -d 'The name that the nodes\' certificates carry, where it is not the one in the list [env: REDLOCK_TLS_SERVER_NAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l prefix -d 'Put this before every key [env: REDLOCK_PREFIX]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l connect-timeout -d 'How long resolving and connecting may take [default: ttl/5 in 20ms..1s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l node-timeout -d 'How long an answer may take [default: ttl/20 in 20ms..500ms]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l restart-guard -d 'When a node that restarted may vote: auto, strict, off, or an age [env: REDLOCK_RESTART_GUARD] [default: auto]' -r
complete -c redlock -n "__fish_redlock_using_subcommand run" -l reentrant -d 'Run the command under the lock of a run around this one'
complete -c redlock -n "__fish_redlock_using_subcommand run" -l fence -d 'Compute a fencing token too: REDLOCK_FENCING_TOKEN, larger for every later holder'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s q -l quiet -d 'Say nothing about waiting or a busy lock; errors are said all the same'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s v -l verbose -d 'Say more: once per acquisition and extension, twice per node'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s n -l no-wait -l nonblock -d 'One true verdict now: run, or exit 75'
complete -c redlock -n "__fish_redlock_using_subcommand run" -l skip -d 'For cron: when it is held, exit 0 without a byte of output'
complete -c redlock -n "__fish_redlock_using_subcommand run" -l die-with-parent -d 'Treat the death of our parent as TERM, then KILL after --kill-after'
complete -c redlock -n "__fish_redlock_using_subcommand run" -l no-guardian -d 'Run without the second process that ends the command when redlock itself is killed'
complete -c redlock -n "__fish_redlock_using_subcommand run" -l keep-credentials -d 'Leave passwords in the command\'s environment'
complete -c redlock -n "__fish_redlock_using_subcommand run" -l tls-insecure -d 'Do not check the nodes\' certificates at all; said on standard error at every use'
complete -c redlock -n "__fish_redlock_using_subcommand run" -l allow-even-nodes -d 'Accept an even number of nodes, for the time of a change of the list'
complete -c redlock -n "__fish_redlock_using_subcommand run" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s k -l key -d 'The lock\'s name; repeatable: all or nothing' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s t -l ttl -d 'When the lock ends by itself, unless it is extended or released before' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l token-file -d 'Write the token to this file as well (mode 0600), before anything is printed' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l label -d 'A remark for everybody who finds the lock held, at most 200 bytes [env: REDLOCK_LABEL]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l strategy -d 'How the nodes are asked' -r -f -a "concurrent\t'All at once'
sequential\t'One after the other, as Redlock was first published'"
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s w -l wait -d 'Wait at most so long; without -n or -w: without limit' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l quorum-wait -d 'While waiting without limit, give up after so much continuous outage' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s E -l conflict-exit-code -d 'The exit code for "held by somebody else", 0 to 255' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l heartbeat -d 'Repeat the line about waiting after so long, doubling up to 5 min; 0s: never' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l nodes -d 'The Redis masters, comma separated; repeatable [env: REDLOCK_NODES]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l config -d 'Read this file instead of the usual ones [env: REDLOCK_CONFIG]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l username -d 'User for nodes whose URL has neither user nor password [env: REDLOCK_USERNAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l password-file -d 'Where the password is for nodes whose URL has none: a file, or fd:N [env: REDLOCK_PASSWORD_FILE]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l tls-ca -d 'Trust these CAs for rediss:// nodes, instead of the system\'s (PEM) [env: REDLOCK_TLS_CA]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l tls-cert -d 'Our own certificate, for nodes that ask for one (PEM, with --tls-key) [env: REDLOCK_TLS_CERT]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l tls-key -d 'The key of --tls-cert (PEM, unencrypted) [env: REDLOCK_TLS_KEY]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l tls-server-name -d 'The name that the nodes\' certificates carry, where it is not the one in the list [env: REDLOCK_TLS_SERVER_NAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l prefix -d 'Put this before every key [env: REDLOCK_PREFIX]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l connect-timeout -d 'How long resolving and connecting may take [default: ttl/5 in 20ms..1s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l node-timeout -d 'How long an answer may take [default: ttl/20 in 20ms..500ms]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l restart-guard -d 'When a node that restarted may vote: auto, strict, off, or an age [env: REDLOCK_RESTART_GUARD] [default: auto]' -r
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l json -d 'Print one JSON object instead of the token'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l fence -d 'Compute a fencing token too, which --json shows: larger for every later holder'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s q -l quiet -d 'Say nothing about waiting or a busy lock; errors are said all the same'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s v -l verbose -d 'Say more: once per acquisition, twice per node'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s n -l no-wait -l nonblock -d 'One true verdict now: run, or exit 75'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l tls-insecure -d 'Do not check the nodes\' certificates at all; said on standard error at every use'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -l allow-even-nodes -d 'Accept an even number of nodes, for the time of a change of the list'
complete -c redlock -n "__fish_redlock_using_subcommand acquire" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand extend" -s k -l key -d 'The lock\'s name; repeatable [default inside of a run: the run\'s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l token -d 'The token that `redlock acquire` printed [default inside of a run: the run\'s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -s t -l ttl -d 'The lock is to last at least so long from now on [default inside of a run: the run\'s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l nodes -d 'The Redis masters, comma separated; repeatable [env: REDLOCK_NODES]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l config -d 'Read this file instead of the usual ones [env: REDLOCK_CONFIG]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l username -d 'User for nodes whose URL has neither user nor password [env: REDLOCK_USERNAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l password-file -d 'Where the password is for nodes whose URL has none: a file, or fd:N [env: REDLOCK_PASSWORD_FILE]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l tls-ca -d 'Trust these CAs for rediss:// nodes, instead of the system\'s (PEM) [env: REDLOCK_TLS_CA]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l tls-cert -d 'Our own certificate, for nodes that ask for one (PEM, with --tls-key) [env: REDLOCK_TLS_CERT]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l tls-key -d 'The key of --tls-cert (PEM, unencrypted) [env: REDLOCK_TLS_KEY]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l tls-server-name -d 'The name that the nodes\' certificates carry, where it is not the one in the list [env: REDLOCK_TLS_SERVER_NAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l prefix -d 'Put this before every key [env: REDLOCK_PREFIX]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l connect-timeout -d 'How long resolving and connecting may take [default: ttl/5 in 20ms..1s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l node-timeout -d 'How long an answer may take [default: ttl/20 in 20ms..500ms]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l restart-guard -d 'When a node that restarted may vote: auto, strict, off, or an age [env: REDLOCK_RESTART_GUARD] [default: auto]' -r
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l json -d 'Print one JSON object: v (1), key, validity_ms, nodes (that were extended), of (all nodes)'
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l tls-insecure -d 'Do not check the nodes\' certificates at all; said on standard error at every use'
complete -c redlock -n "__fish_redlock_using_subcommand extend" -l allow-even-nodes -d 'Accept an even number of nodes, for the time of a change of the list'
complete -c redlock -n "__fish_redlock_using_subcommand extend" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand release" -s k -l key -d 'The lock\'s name; repeatable [default inside of a run: the run\'s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l token -d 'The token that `redlock acquire` printed, or that `redlock status` shows' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l nodes -d 'The Redis masters, comma separated; repeatable [env: REDLOCK_NODES]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l config -d 'Read this file instead of the usual ones [env: REDLOCK_CONFIG]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l username -d 'User for nodes whose URL has neither user nor password [env: REDLOCK_USERNAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l password-file -d 'Where the password is for nodes whose URL has none: a file, or fd:N [env: REDLOCK_PASSWORD_FILE]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l tls-ca -d 'Trust these CAs for rediss:// nodes, instead of the system\'s (PEM) [env: REDLOCK_TLS_CA]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l tls-cert -d 'Our own certificate, for nodes that ask for one (PEM, with --tls-key) [env: REDLOCK_TLS_CERT]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l tls-key -d 'The key of --tls-cert (PEM, unencrypted) [env: REDLOCK_TLS_KEY]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand release" -l tls-server-name -d 'The name that the nodes\' certificates carry, where it is not the one in the list [env: REDLOCK_TLS_SERVER_NAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l prefix -d 'Put this before every key [env: REDLOCK_PREFIX]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l connect-timeout -d 'How long resolving and connecting may take [default: ttl/5 in 20ms..1s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l node-timeout -d 'How long an answer may take [default: ttl/20 in 20ms..500ms]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l restart-guard -d 'When a node that restarted may vote: auto, strict, off, or an age [env: REDLOCK_RESTART_GUARD] [default: auto]' -r
complete -c redlock -n "__fish_redlock_using_subcommand release" -l force -d 'Free the lock whoever holds it: look, show, ask, then free exactly what was shown'
complete -c redlock -n "__fish_redlock_using_subcommand release" -l yes -d 'Do not ask; needed where there is no terminal to ask on'
complete -c redlock -n "__fish_redlock_using_subcommand release" -l tls-insecure -d 'Do not check the nodes\' certificates at all; said on standard error at every use'
complete -c redlock -n "__fish_redlock_using_subcommand release" -l allow-even-nodes -d 'Accept an even number of nodes, for the time of a change of the list'
complete -c redlock -n "__fish_redlock_using_subcommand release" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -s k -l key -d 'The lock\'s name; repeatable [default inside of a run: the run\'s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l token -d 'The token that `redlock acquire` printed, or that `redlock status` shows' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l nodes -d 'The Redis masters, comma separated; repeatable [env: REDLOCK_NODES]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l config -d 'Read this file instead of the usual ones [env: REDLOCK_CONFIG]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l username -d 'User for nodes whose URL has neither user nor password [env: REDLOCK_USERNAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l password-file -d 'Where the password is for nodes whose URL has none: a file, or fd:N [env: REDLOCK_PASSWORD_FILE]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l tls-ca -d 'Trust these CAs for rediss:// nodes, instead of the system\'s (PEM) [env: REDLOCK_TLS_CA]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l tls-cert -d 'Our own certificate, for nodes that ask for one (PEM, with --tls-key) [env: REDLOCK_TLS_CERT]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l tls-key -d 'The key of --tls-cert (PEM, unencrypted) [env: REDLOCK_TLS_KEY]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l tls-server-name -d 'The name that the nodes\' certificates carry, where it is not the one in the list [env: REDLOCK_TLS_SERVER_NAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l prefix -d 'Put this before every key [env: REDLOCK_PREFIX]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l connect-timeout -d 'How long resolving and connecting may take [default: ttl/5 in 20ms..1s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l node-timeout -d 'How long an answer may take [default: ttl/20 in 20ms..500ms]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l restart-guard -d 'When a node that restarted may vote: auto, strict, off, or an age [env: REDLOCK_RESTART_GUARD] [default: auto]' -r
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l force -d 'Free the lock whoever holds it: look, show, ask, then free exactly what was shown'
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l yes -d 'Do not ask; needed where there is no terminal to ask on'
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l tls-insecure -d 'Do not check the nodes\' certificates at all; said on standard error at every use'
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -l allow-even-nodes -d 'Accept an even number of nodes, for the time of a change of the list'
complete -c redlock -n "__fish_redlock_using_subcommand unlock" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l wait -d 'Wait until every node votes and every held lock is on all nodes, at most so long' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l color -d 'When words are coloured: auto (on a terminal, unless NO_COLOR is set), always, never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l nodes -d 'The Redis masters, comma separated; repeatable [env: REDLOCK_NODES]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l config -d 'Read this file instead of the usual ones [env: REDLOCK_CONFIG]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l username -d 'User for nodes whose URL has neither user nor password [env: REDLOCK_USERNAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l password-file -d 'Where the password is for nodes whose URL has none: a file, or fd:N [env: REDLOCK_PASSWORD_FILE]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l tls-ca -d 'Trust these CAs for rediss:// nodes, instead of the system\'s (PEM) [env: REDLOCK_TLS_CA]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l tls-cert -d 'Our own certificate, for nodes that ask for one (PEM, with --tls-key) [env: REDLOCK_TLS_CERT]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l tls-key -d 'The key of --tls-cert (PEM, unencrypted) [env: REDLOCK_TLS_KEY]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l tls-server-name -d 'The name that the nodes\' certificates carry, where it is not the one in the list [env: REDLOCK_TLS_SERVER_NAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l prefix -d 'Put this before every key [env: REDLOCK_PREFIX]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l connect-timeout -d 'How long resolving and connecting may take [default: ttl/5 in 20ms..1s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l node-timeout -d 'How long an answer may take [default: ttl/20 in 20ms..500ms]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l restart-guard -d 'When a node that restarted may vote: auto, strict, off, or an age [env: REDLOCK_RESTART_GUARD] [default: auto]' -r
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l json -d 'Print one JSON object'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l strict -d 'Exit 1 when there is any finding, also when one node only is missing'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l tls-insecure -d 'Do not check the nodes\' certificates at all; said on standard error at every use'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -l allow-even-nodes -d 'Accept an even number of nodes, for the time of a change of the list'
complete -c redlock -n "__fish_redlock_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c redlock -n "__fish_redlock_using_subcommand status" -s k -l key -d 'A lock\'s name; repeatable' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l watch -d 'Look again every D [1s] until ^C; off a terminal each look is appended' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l color -d 'When words are coloured: auto (on a terminal, unless NO_COLOR is set), always, never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c redlock -n "__fish_redlock_using_subcommand status" -l nodes -d 'The Redis masters, comma separated; repeatable [env: REDLOCK_NODES]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l config -d 'Read this file instead of the usual ones [env: REDLOCK_CONFIG]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l username -d 'User for nodes whose URL has neither user nor password [env: REDLOCK_USERNAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l password-file -d 'Where the password is for nodes whose URL has none: a file, or fd:N [env: REDLOCK_PASSWORD_FILE]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l tls-ca -d 'Trust these CAs for rediss:// nodes, instead of the system\'s (PEM) [env: REDLOCK_TLS_CA]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l tls-cert -d 'Our own certificate, for nodes that ask for one (PEM, with --tls-key) [env: REDLOCK_TLS_CERT]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l tls-key -d 'The key of --tls-cert (PEM, unencrypted) [env: REDLOCK_TLS_KEY]' -r -F
complete -c redlock -n "__fish_redlock_using_subcommand status" -l tls-server-name -d 'The name that the nodes\' certificates carry, where it is not the one in the list [env: REDLOCK_TLS_SERVER_NAME]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l prefix -d 'Put this before every key [env: REDLOCK_PREFIX]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l connect-timeout -d 'How long resolving and connecting may take [default: ttl/5 in 20ms..1s]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l node-timeout -d 'How long an answer may take [default: ttl/20 in 20ms..500ms]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l restart-guard -d 'When a node that restarted may vote: auto, strict, off, or an age [env: REDLOCK_RESTART_GUARD] [default: auto]' -r
complete -c redlock -n "__fish_redlock_using_subcommand status" -l json -d 'Print one JSON object; with --watch one a line'
complete -c redlock -n "__fish_redlock_using_subcommand status" -l exit-code -d 'Exit 0 when all of the keys are free, 75 when one is held or partial, 69 when that is not known'
complete -c redlock -n "__fish_redlock_using_subcommand status" -l all -d 'List all strings with an expiry, not only redlock\'s: locks of other clients'
complete -c redlock -n "__fish_redlock_using_subcommand status" -l tls-insecure -d 'Do not check the nodes\' certificates at all; said on standard error at every use'
complete -c redlock -n "__fish_redlock_using_subcommand status" -l allow-even-nodes -d 'Accept an even number of nodes, for the time of a change of the list'
complete -c redlock -n "__fish_redlock_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
